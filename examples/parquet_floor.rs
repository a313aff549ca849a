//! The floor under every rewrite of Parquet files: read all columns of the given files and write them again with
//! arrow-rs, nothing else. One thread a file, as many at once as asked for.
//!
//! `parquet_floor --threads 2 --codec zstd --out FOLDER FILE...` prints one line of JSON: files, rows, bytes read and
//! written, wall seconds, CPU seconds and the peak of resident memory (those two where `/proc` tells).

use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use arrow::array::RecordBatchReader;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::json;

type Failure = Box<dyn Error + Send + Sync>;

const BATCH_ROWS: usize = 32_768;
/// What Linux counts CPU time by, whatever the machine.
const TICKS_PER_SECOND: f64 = 100.0;

struct Request {
    threads: usize,
    codec: Compression,
    out: PathBuf,
    files: Vec<PathBuf>,
}

#[derive(Default, Clone, Copy)]
struct Done {
    rows: usize,
    bytes_in: u64,
    bytes_out: u64,
}

fn main() -> Result<(), Failure> {
    let request = parse(std::env::args().skip(1))?;
    std::fs::create_dir_all(&request.out)?;
    let before = cpu_seconds();
    let started = Instant::now();
    let done = rewrite_all(&request)?;
    let wall = started.elapsed().as_secs_f64();
    let cpu = cpu_seconds().zip(before).map(|(after, before)| after - before);
    println!(
        "{}",
        json!({
            "files": request.files.len(),
            "rows": done.rows,
            "bytes_in": done.bytes_in,
            "bytes_out": done.bytes_out,
            "threads": request.threads,
            "wall": wall,
            "cpu": cpu,
            "peak_rss": peak_rss(),
        })
    );
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, Failure> {
    let mut request = Request { threads: 1, codec: codec("zstd")?, out: PathBuf::from("floor-out"), files: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--threads" => request.threads = value()?.parse::<usize>()?.max(1),
            "--codec" => request.codec = codec(&value()?)?,
            "--out" => request.out = PathBuf::from(value()?),
            _ => request.files.push(PathBuf::from(argument)),
        }
    }
    if request.files.is_empty() {
        return Err("usage: parquet_floor [--threads N] [--codec zstd|gzip|snappy|none] [--out FOLDER] FILE...".into());
    }
    Ok(request)
}

fn codec(name: &str) -> Result<Compression, Failure> {
    Ok(match name {
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        "gzip" => Compression::GZIP(GzipLevel::default()),
        "snappy" => Compression::SNAPPY,
        "none" => Compression::UNCOMPRESSED,
        other => return Err(format!("unknown codec {other}").into()),
    })
}

fn rewrite_all(request: &Request) -> Result<Done, Failure> {
    let queue = Mutex::new(request.files.iter().enumerate().collect::<VecDeque<_>>());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<Done, Failure> {
        let mut sum = Done::default();
        while let Some((number, file)) = next() {
            let target = request.out.join(format!("{number}.parquet"));
            let one = rewrite(file, &target, request.codec).map_err(|e| format!("{}: {e}", file.display()))?;
            sum = add(sum, one);
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..request.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_fold(Done::default(), |sum, thread| {
            let one = thread.join().map_err(|_| Failure::from("a thread died"))??;
            Ok(add(sum, one))
        })
    })
}

fn rewrite(source: &Path, target: &Path, codec: Compression) -> Result<Done, Failure> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(source)?)?.with_batch_size(BATCH_ROWS).build()?;
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut writer = ArrowWriter::try_new(File::create(target)?, reader.schema(), Some(properties))?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch?;
        rows += batch.num_rows();
        writer.write(&batch)?;
    }
    writer.close()?;
    Ok(Done { rows, bytes_in: std::fs::metadata(source)?.len(), bytes_out: std::fs::metadata(target)?.len() })
}

fn add(a: Done, b: Done) -> Done {
    Done { rows: a.rows + b.rows, bytes_in: a.bytes_in + b.bytes_in, bytes_out: a.bytes_out + b.bytes_out }
}

/// CPU time of this process, its ended threads too.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name may hold spaces; the numbers follow its closing bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some((f64::from(ticks(11)?) + f64::from(ticks(12)?)) / TICKS_PER_SECOND)
}

fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
