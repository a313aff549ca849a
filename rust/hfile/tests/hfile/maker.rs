//! Files as HBase may write them, put together by the tables of the modules' documentation and independent of the writer:
//! checksums, indexes of several levels, block sizes of a few entries.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::linear::Pair;

#[derive(Debug, Clone, Copy)]
pub struct Maker {
    pub gzip: bool,
    /// 0, 1 or 2, as in the header of a block.
    pub checksum: u8,
    /// Entries of a data block and of an index node.
    pub fan_out: usize,
    pub levels: u64,
}

impl Default for Maker {
    fn default() -> Self {
        Self { gzip: false, checksum: 0, fan_out: 4, levels: 1 }
    }
}

struct File {
    maker: Maker,
    bytes: Vec<u8>,
}

impl File {
    fn block(&mut self, magic: &[u8; 8], content: &[u8]) -> (u64, u32) {
        let offset = self.bytes.len();
        let stored = if self.maker.gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        } else {
            content.to_vec()
        };
        let covered = 33 + stored.len();
        let sums = covered.div_ceil(64);
        let mut block = magic.to_vec();
        block.extend(u32::try_from(stored.len() + 4 * sums).unwrap().to_be_bytes());
        block.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        block.extend((-1i64).to_be_bytes());
        block.push(self.maker.checksum);
        block.extend(64u32.to_be_bytes());
        block.extend(u32::try_from(covered).unwrap().to_be_bytes());
        block.extend(stored);
        let sum = |chunk: &[u8]| match self.maker.checksum {
            0 => 0,
            1 => crc(0xedb8_8320, chunk),
            _ => crc(0x82f6_3b78, chunk),
        };
        let sums: Vec<u8> = block.chunks(64).flat_map(|chunk| sum(chunk).to_be_bytes()).collect();
        block.extend(sums);
        self.bytes.extend_from_slice(&block);
        (offset as u64, u32::try_from(block.len()).unwrap())
    }
}

/// Bit by bit, for polynomials with their bits reversed.
fn crc(polynomial: u32, bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

fn index_key(row: &[u8]) -> Vec<u8> {
    [&u16::try_from(row.len()).unwrap().to_be_bytes(), row].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

type Node = (Vec<u8>, u64, u32);

impl Maker {
    pub fn make(self, entries: &[Pair]) -> Vec<u8> {
        let mut file = File { maker: self, bytes: Vec::new() };
        let mut nodes: Vec<Node> = Vec::new();
        for group in entries.chunks(self.fan_out) {
            let mut content = Vec::new();
            for (row, value) in group {
                content.extend(u32::try_from(row.len() + 12).unwrap().to_be_bytes());
                content.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                content.extend(index_key(row));
                content.push(0);
                content.extend(i64::MAX.to_be_bytes());
                content.push(4);
                content.extend(value);
                content.push(0);
            }
            let (offset, length) = file.block(b"DATABLK*", &content);
            nodes.push((index_key(&group[0].0), offset, length));
        }
        for level in 1..self.levels {
            nodes = self.level_above(&mut file, &nodes, level);
        }
        self.end(file, &nodes, entries.len() as u64)
    }

    fn level_above(self, file: &mut File, below: &[Node], level: u64) -> Vec<Node> {
        let magic = if level == 1 { b"IDXLEAF2" } else { b"IDXINTE2" };
        let mut nodes = Vec::new();
        for group in below.chunks(self.fan_out) {
            let (mut bounds, mut body) = (vec![0u32], Vec::new());
            for (key, offset, length) in group {
                body.extend(offset.to_be_bytes());
                body.extend(length.to_be_bytes());
                body.extend(key);
                bounds.push(u32::try_from(body.len()).unwrap());
            }
            let mut content = u32::try_from(group.len()).unwrap().to_be_bytes().to_vec();
            content.extend(bounds.iter().flat_map(|bound| bound.to_be_bytes()));
            content.extend(body);
            let (offset, length) = file.block(magic, &content);
            nodes.push((group[0].0.clone(), offset, length));
        }
        nodes
    }

    fn end(self, mut file: File, nodes: &[Node], entries: u64) -> Vec<u8> {
        let mut root = Vec::new();
        for (key, offset, length) in nodes {
            root.extend(offset.to_be_bytes());
            root.extend(length.to_be_bytes());
            match u8::try_from(key.len()) {
                Ok(short @ 0..=127) => root.push(short),
                _ => root.extend([&[0x8e], &u16::try_from(key.len()).unwrap().to_be_bytes()[..]].concat()),
            }
            root.extend(key);
        }
        let (root_at, _) = file.block(b"IDXROOT2", &root);
        file.block(b"IDXROOT2", b"");
        let (info_at, _) = file.block(b"FILEINF2", b"PBUF\x0b\x0a\x09\x0a\x04name\x12\x01v");
        let last = nodes.last().map_or(0, |(_, offset, _)| *offset);
        let mut message = Vec::new();
        for (number, value) in [
            (1, info_at),
            (2, root_at),
            (5, nodes.len() as u64),
            (7, entries),
            (8, self.levels),
            (9, 0),
            (10, last),
            (12, if self.gzip { 1 } else { 2 }),
        ] {
            message.extend(varint(number << 3));
            message.extend(varint(value));
        }
        let mut trailer = b"TRABLK\"$".to_vec();
        trailer.extend(varint(message.len() as u64));
        trailer.extend(message);
        trailer.resize(4092, 0);
        trailer.extend(3u32.to_be_bytes());
        file.bytes.extend(trailer);
        file.bytes
    }
}
