//! Log files of a slice: changes that were written after its base file.

mod change_data;
mod order;
mod records;
mod writer;

pub use change_data::ChangeLogScan;
pub use order::order_blocks;
pub use records::RawBlock;
pub use records::{LogBatch, LogScan};
pub use writer::{BlockFormat, BlockSettings, LogWriter, ordering_values};
