//! `hoodoo._native`: the core for Python. Converts, releases the GIL, maps errors; decides nothing.

mod call;
mod clustering;
mod compaction;
mod error;
mod file_tasks;
mod fork;
mod from_python;
mod going_back;
mod indexing;
mod locks;
mod logging;
mod merge;
mod merger;
mod metadata_table;
mod schema;
mod spark;
mod table;
mod task_json;
mod to_python;
mod upgrade;

use pyo3::prelude::*;

// Parquet pages and Arrow buffers come and go by the thousand on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The core of hoodoo.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    locks::register();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("DEBUG_BUILD", cfg!(debug_assertions))?;
    m.add_class::<table::NativeTable>()?;
    m.add_class::<compaction::NativeCompaction>()?;
    m.add_class::<metadata_table::NativeMetadataTable>()?;
    m.add_class::<spark::NativeWrite>()?;
    m.add_class::<spark::NativePacker>()?;
    m.add_function(wrap_pyfunction!(clustering::schedule_clustering, m)?)?;
    m.add_function(wrap_pyfunction!(clustering::explain_clustering, m)?)?;
    m.add_function(wrap_pyfunction!(clustering::pending_clusterings, m)?)?;
    m.add_function(wrap_pyfunction!(clustering::column_ranges, m)?)?;
    m.add_function(wrap_pyfunction!(clustering::cluster, m)?)?;
    m.add_function(wrap_pyfunction!(clustering::roll_back_clustering, m)?)?;
    m.add_function(wrap_pyfunction!(clustering::cluster_group, m)?)?;
    m.add_class::<clustering::NativeClustering>()?;
    m.add_function(wrap_pyfunction!(compaction::compact_operation, m)?)?;
    m.add_function(wrap_pyfunction!(file_tasks::run_file_task, m)?)?;
    m.add_function(wrap_pyfunction!(going_back::clean_table, m)?)?;
    m.add_function(wrap_pyfunction!(going_back::plan_clean, m)?)?;
    m.add_function(wrap_pyfunction!(going_back::roll_back, m)?)?;
    m.add_function(wrap_pyfunction!(going_back::savepoints, m)?)?;
    m.add_function(wrap_pyfunction!(going_back::create_savepoint, m)?)?;
    m.add_function(wrap_pyfunction!(going_back::delete_savepoint, m)?)?;
    m.add_function(wrap_pyfunction!(going_back::restore_table, m)?)?;
    m.add_function(wrap_pyfunction!(upgrade::plan_upgrade, m)?)?;
    m.add_function(wrap_pyfunction!(upgrade::upgrade_table, m)?)?;
    m.add_class::<indexing::NativeIndexing>()?;
    m.add_class::<indexing::NativeKeys>()?;
    m.add_function(wrap_pyfunction!(indexing::index_files, m)?)?;
    m.add_function(wrap_pyfunction!(indexing::index_keys, m)?)?;
    m.add_function(wrap_pyfunction!(indexing::write_index_shards, m)?)?;
    m.add_function(wrap_pyfunction!(merge::merge_rows, m)?)?;
    m.add_function(wrap_pyfunction!(schema::update_schema, m)?)?;
    m.add_function(wrap_pyfunction!(spark::locate_rows, m)?)?;
    m.add_function(wrap_pyfunction!(spark::report_partitions, m)?)?;
    m.add_function(wrap_pyfunction!(spark::apply_routes, m)?)?;
    m.add_function(wrap_pyfunction!(spark::write_rows, m)?)?;
    m.add_function(wrap_pyfunction!(spark::plan_read, m)?)?;
    m.add_function(wrap_pyfunction!(spark::read_units, m)?)?;
    m.add_function(wrap_pyfunction!(table::option_keys, m)?)?;
    m.add_function(wrap_pyfunction!(table::option_warnings, m)?)?;
    m.add_function(wrap_pyfunction!(table::stated_operation, m)?)?;
    logging::register();
    fork::register()
}
