//! Tests of the library as a whole: one behaviour per file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod failing_store;
mod hooked_store;
mod measured_store;
mod small_table;

mod archiving;
mod clustering_plans;
mod column_ranges;
mod crash_at_every_call;
mod fuzz;
mod going_back;
mod growth;
mod index_crash;
mod index_meanwhile;
mod log_blocks;
mod lost_lock;
mod metadata_services;
mod power_cut;
mod requests;
mod simulation;
mod true_time;
mod upgrading;
