//! Files whose times overlap, or whose rows are out of order: a crash between the write of a file and the removal of
//! its instants, and compaction of such files, leave them. Their times are read first; rows then come in order, each
//! instant once, the first file that has it winning.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave;
use arrow_select::take::take_record_batch;

use super::entry::{INSTANT_TIME, LoadMode, TimeRange, string_column};
use super::file::OpenFile;
use hoodoo_runtime::error::{Error, Result};

/// Rows that are put together at a time when bodies are read.
const SLICE_ROWS: usize = 1_024;

/// Whether times ascend strictly, from one that came before.
fn ascends(before: Option<&str>, times: &StringArray) -> bool {
    let mut last = before;
    for row in 0..times.len() {
        let time = times.value(row);
        if last.is_some_and(|last| last >= time) {
            return false;
        }
        last = Some(time);
    }
    true
}

/// Follows the times of batches that come one after the other.
#[derive(Default)]
pub(super) struct Order {
    last: Option<String>,
}

impl Order {
    /// Whether the times of the next batch ascend strictly, from those before.
    pub(super) fn goes_on(&mut self, batch: &RecordBatch) -> Result<bool> {
        let times = string_column(batch, INSTANT_TIME)?;
        let ascends = ascends(self.last.as_deref(), times);
        if !times.is_empty() {
            self.last = Some(times.value(times.len() - 1).to_owned());
        }
        Ok(ascends)
    }
}

/// The rows of some files without their bodies, and the order in which they come out.
pub(super) struct OrderedTimes {
    batch: RecordBatch,
    /// Rows of `batch` in their final order.
    order: Vec<u64>,
    /// Which rows of `batch` are from which file.
    starts: Vec<Range<usize>>,
}

impl OrderedTimes {
    /// Reads the times. `order` holds the rows within the range.
    pub(super) fn load(files: &[OpenFile], range: &TimeRange, mode: LoadMode) -> Result<Self> {
        let light_mode = if mode.has_bodies() { LoadMode::Time } else { mode };
        let (mut batches, mut starts, mut rows) = (Vec::new(), Vec::new(), 0);
        for file in files {
            let first = rows;
            // Whole files: a row's number is its place in the file.
            for split in file.splits(&TimeRange::all(), light_mode) {
                for batch in file.read(&split, &TimeRange::all(), light_mode)? {
                    let batch = batch?;
                    rows += batch.num_rows();
                    batches.push(batch);
                }
            }
            starts.push(first..rows);
        }
        let batch = concat_batches(&light_mode.schema(), &batches)?;
        let times = string_column(&batch, INSTANT_TIME)?;
        let mut order: Vec<u64> =
            (0..times.len()).filter(|row| range.contains(times.value(*row))).map(|row| row as u64).collect();
        let time = |row: &u64| times.value(usize::try_from(*row).unwrap_or(0));
        order.sort_by(|a, b| time(a).cmp(time(b)).then(a.cmp(b)));
        order.dedup_by(|later, first| time(later) == time(first));
        Ok(Self { batch, order, starts })
    }

    /// The rows in order.
    pub(super) fn batches(self, files: Vec<OpenFile>, mode: LoadMode) -> impl Iterator<Item = Result<RecordBatch>> {
        let rows = if mode.has_bodies() { SLICE_ROWS } else { 16 * SLICE_ROWS };
        let count = self.order.len();
        (0..count).step_by(rows).map(move |start| {
            let order = self.order.get(start..(start + rows).min(count)).unwrap_or_default();
            if mode.has_bodies() {
                self.with_bodies(order, &files, mode)
            } else {
                Ok(take_record_batch(&self.batch, &UInt64Array::from(order.to_vec()))?)
            }
        })
    }

    /// Reads the given rows of all files, and puts them into order.
    fn with_bodies(&self, order: &[u64], files: &[OpenFile], mode: LoadMode) -> Result<RecordBatch> {
        let mut parts = Vec::with_capacity(files.len());
        let mut places: Vec<(usize, usize)> = vec![(0, 0); order.len()];
        for (part, (file, of_file)) in files.iter().zip(&self.starts).enumerate() {
            let mut rows: Vec<(usize, usize)> = order
                .iter()
                .enumerate()
                .filter_map(|(at, row)| usize::try_from(*row).ok().map(|row| (row, at)))
                .filter(|(row, _)| of_file.contains(row))
                .map(|(row, at)| (row - of_file.start, at))
                .collect();
            rows.sort_unstable();
            for (position, (_, at)) in rows.iter().enumerate() {
                if let Some(place) = places.get_mut(*at) {
                    *place = (part, position);
                }
            }
            let rows: Vec<usize> = rows.into_iter().map(|(row, _)| row).collect();
            let mut batches = Vec::new();
            for split in file.splits_of_rows(&rows) {
                for batch in file.read(&split, &TimeRange::all(), mode)? {
                    batches.push(batch?);
                }
            }
            let batch = concat_batches(&mode.schema(), &batches)?;
            if batch.num_rows() != rows.len() {
                return Err(Error::corrupt("a history file changed while it was read").with("file", &file.file.name));
            }
            parts.push(batch);
        }
        let columns = (0..mode.schema().fields().len())
            .map(|column| {
                let arrays: Vec<&dyn Array> =
                    parts.iter().filter_map(|p| p.columns().get(column)).map(|c| c.as_ref()).collect();
                Ok(interleave(&arrays, &places)?)
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        Ok(RecordBatch::try_new(mode.schema(), columns)?)
    }
}
