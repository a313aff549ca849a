//! Shows what an HFile holds, and writes one. Keys and values are hexadecimal digits.
//!
//!     hfile scan FILE                      each entry: KEY VALUE
//!     hfile get FILE KEY...                the entries of keys, which come sorted
//!     hfile prefix FILE PREFIX...          the entries that begin with one of the prefixes, which come sorted
//!     hfile info FILE NAME                 the value in the file info
//!     hfile meta FILE NAME                 the content of the meta block
//!     hfile write FILE CODEC BLOCK TIME    writes an HFile; CODEC is gzip or none, BLOCK the size of a block, TIME the
//!                                          time of the write. Each line of the input is one of:
//!                                          entry KEY VALUE, info NAME VALUE, meta NAME VALUE
#![allow(missing_docs)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use bytes::Bytes;
use hoodoo_hfile::{Codec, HFileReader, HFileWriter, HFileWriterOptions, Lookup};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digit = |at: usize| hex.get(at..at + 2).ok_or("hexadecimal digits come in pairs");
    (0..hex.len()).step_by(2).map(|at| Ok(u8::from_str_radix(digit(at)?, 16)?)).collect()
}

fn scan(file: &HFileReader<Bytes>) -> Result<()> {
    let mut out = BufWriter::new(stdout());
    for block in file.data_blocks()? {
        for entry in block?.entries() {
            writeln!(out, "{} {}", hex(entry.key), hex(entry.value))?;
        }
    }
    Ok(out.flush()?)
}

fn show<K: AsRef<[u8]>>(lookup: Lookup<'_, Bytes, K>) -> Result<()> {
    for block in lookup {
        for (_, entry) in block?.entries() {
            println!("{} {}", hex(entry.key), hex(entry.value));
        }
    }
    Ok(())
}

fn write(path: &str, codec: &str, block: &str, time: &str) -> Result<()> {
    let codec = if codec == "none" { Codec::None } else { Codec::Gzip };
    let options = HFileWriterOptions::default().codec(codec).block_bytes(block.parse()?).create_time(time.parse()?);
    let mut writer = HFileWriter::new(File::create(path)?, options);
    for line in stdin().lock().lines() {
        let line = line?;
        let [kind, name, value] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err("a line has three words".into());
        };
        match kind {
            "entry" => writer.append(&bytes(name)?, &bytes(value)?)?,
            "info" => writer.set_file_info(name, bytes(value)?)?,
            "meta" => writer.add_meta_block(name, bytes(value)?)?,
            _ => return Err(format!("a line begins with entry, info or meta, not {kind}").into()),
        }
    }
    writer.finish()?;
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [command, path, rest @ ..] = &arguments[..] else {
        return Err("usage: hfile scan|get|prefix|info|meta|write FILE ...".into());
    };
    if let ("write", [codec, block, time]) = (*command, rest) {
        return write(path, codec, block, time);
    }
    let file = HFileReader::open(Bytes::from(std::fs::read(path)?))?;
    let found = match (*command, rest) {
        ("scan", []) => return scan(&file),
        ("get", keys) => {
            let keys = keys.iter().map(|key| bytes(key)).collect::<Result<Vec<_>>>()?;
            return show(file.get_many(&keys)?);
        }
        ("prefix", prefixes) => {
            let prefixes = prefixes.iter().map(|prefix| bytes(prefix)).collect::<Result<Vec<_>>>()?;
            return show(file.prefixes(&prefixes)?);
        }
        ("info", [name]) => file.file_info(name).cloned(),
        ("meta", [name]) => file.meta_block(name)?,
        _ => return Err(format!("unknown command {command}").into()),
    };
    println!("{}", hex(&found.ok_or("the file has nothing of this name")?));
    Ok(())
}
