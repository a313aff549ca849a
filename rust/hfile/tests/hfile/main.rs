//! Tests of the public interface, each module of one behaviour.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
// A call of a source has a list of ranges, often of one.
#![allow(clippy::single_range_in_vec_init)]

mod counting;
mod damage;
mod fixtures;
mod linear;
mod lookups;
mod maker;
mod requests;
mod round_trip;
mod unsupported;
mod writing;
