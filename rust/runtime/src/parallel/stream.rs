//! Streams whose parts are made by threads and come in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, Mutex};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::{guarded, lock};
use crate::error::{Error, Result};
use crate::interrupt::{self, Interrupt};
use crate::process::Process;
use crate::simulated;

/// Batches that may wait for the reader in each part of a stream.
const BATCHES_AHEAD: usize = 2;

/// A part of a stream, not opened yet.
pub type Part = Box<dyn FnOnce() -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>> + Send>;

/// A stream of batches: each part is read by a thread, and the batches come part after part.
pub struct BatchStream {
    schema: SchemaRef,
    parts: std::vec::IntoIter<Receiver<Result<RecordBatch>>>,
    current: Option<Receiver<Result<RecordBatch>>>,
    cancelled: Interrupt,
    failed: bool,
    process: Process,
}

impl BatchStream {
    /// A stream over parts; a part is opened by the thread that reads it. Threads end when the stream is dropped.
    pub fn new(schema: SchemaRef, parts: Vec<Part>, threads: usize) -> Self {
        if simulated::is_on() {
            return Self::of_parts(schema, parts.into_iter().map(read_here).collect(), Interrupt::default());
        }
        let mut senders = Vec::with_capacity(parts.len());
        let mut receivers = Vec::with_capacity(parts.len());
        for part in parts {
            let (sender, receiver) = sync_channel(BATCHES_AHEAD);
            senders.push(Mutex::new(Some((part, sender))));
            receivers.push(receiver);
        }
        let cancelled = Interrupt::default();
        let senders = Arc::new(senders);
        let next = Arc::new(AtomicUsize::new(0));
        for _ in 0..threads.min(senders.len()) {
            let (senders, next, cancelled) = (senders.clone(), next.clone(), cancelled.clone());
            let send = move || {
                // Parts are taken in order, so that the one the reader waits for is always under way.
                while let Some(slot) = senders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if interrupt::is_set() {
                        return;
                    }
                    let taken = lock(slot).take();
                    if let Some((part, sender)) = taken {
                        send_part(part, |batch| sender.send(batch).is_ok());
                    }
                }
            };
            std::thread::spawn(move || cancelled.during(send));
        }
        Self::of_parts(schema, receivers, cancelled)
    }

    fn of_parts(schema: SchemaRef, parts: Vec<Receiver<Result<RecordBatch>>>, cancelled: Interrupt) -> Self {
        Self { schema, parts: parts.into_iter(), current: None, cancelled, failed: false, process: Process::this() }
    }

    /// A stream of batches that are there already.
    pub fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let part: Part = Box::new(move || Ok(Box::new(batches.into_iter().map(Ok))));
        Self::new(schema, vec![part], 1)
    }
}

/// Reads a part on this thread.
fn read_here(part: Part) -> Receiver<Result<RecordBatch>> {
    let (sender, receiver) = channel();
    send_part(part, |batch| sender.send(batch).is_ok());
    receiver
}

/// `send` says whether somebody still listens. A part that panics is an error, and not a part that has ended.
fn send_part(part: Part, send: impl Fn(Result<RecordBatch>) -> bool) {
    let send_all = || {
        for batch in part()? {
            // A reader that went away needs no more.
            if !send(Ok(batch?)) {
                break;
            }
        }
        Ok(())
    };
    if let Err(e) = guarded(send_all) {
        send(Err(e));
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.process.is_this() && !self.failed {
            self.failed = true;
            let error = Error::unsupported("a stream of rows cannot be read in a forked process");
            return Some(Err(error.remedy("Open the table and read it there").into()));
        }
        while !self.failed {
            let Some(receiver) = &self.current else {
                self.current = Some(self.parts.next()?);
                continue;
            };
            match interrupt::receive(receiver) {
                Ok(Some(Ok(batch))) => return Some(Ok(batch)),
                Ok(Some(Err(e))) | Err(e) => {
                    self.failed = true;
                    return Some(Err(e.into()));
                }
                Ok(None) => self.current = None,
            }
        }
        None
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        self.cancelled.set();
        if !self.process.is_this() {
            // A thread of the parent may have been in the middle of sending: that is never over here.
            std::mem::forget((self.current.take(), std::mem::take(&mut self.parts)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    #[test]
    fn parts_come_in_order_and_errors_arrive() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let parts = (0..20i64)
            .map(|p| {
                let schema = schema.clone();
                let part: Part = Box::new(move || {
                    if p == 19 {
                        return Err(Error::corrupt("last"));
                    }
                    let schema = schema.clone();
                    Ok(Box::new((0..5i64).map(move |i| {
                        let column = Arc::new(Int64Array::from(vec![p * 5 + i]));
                        Ok(RecordBatch::try_new(schema.clone(), vec![column]).unwrap())
                    })))
                });
                part
            })
            .collect();
        let mut stream = BatchStream::new(schema, parts, 3);
        for want in 0..95 {
            let batch = stream.next().unwrap().unwrap();
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), want);
        }
        assert!(stream.next().unwrap().is_err());
        assert!(stream.next().is_none());
    }
}
