//! Tests of the public interface, each module of one behaviour.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

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
