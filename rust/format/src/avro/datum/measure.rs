//! How long values are, without reading them.
//!
//! What a reader of whole columns is given is measured before. It takes numbers of items and lengths as they come, so a few
//! hostile bytes would make it count for years, or give one record the bytes of the next.

use super::parse::Node;
use super::{DatumSchema, MAX_DEPTH};
use hoodoo_runtime::error::{Error, Result};

/// What a value takes in a column, if no more is known.
const VALUE_WIDTH: u64 = 8;
/// What nulls, and items that take no bytes, may take in columns: this, and so much for each byte of the records.
const MIN_BUDGET: u64 = 256 << 20;
const BUDGET_PER_BYTE: u64 = 1000;
/// How many types a schema may have when each name in it is replaced by what it stands for, as readers do.
const MOST_TYPES: u64 = 1 << 17;

/// What becomes of a type in columns.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    /// Types in it, itself among them.
    types: u64,
    /// Bytes that a null in its place takes.
    width: u64,
}

/// Measures values of one schema.
#[derive(Debug)]
pub(crate) struct Measure<'s> {
    schema: &'s DatumSchema,
    extents: Vec<Option<Extent>>,
    budget: u64,
}

impl<'s> Measure<'s> {
    /// Values of which no more than `budget` bytes of columns are made of nulls and of items that take no bytes.
    ///
    /// # Errors
    /// `Unsupported` for a schema that is too large for columns, one of endless values among them.
    pub(crate) fn new(schema: &'s DatumSchema, budget: u64) -> Result<Self> {
        let mut extents = vec![None; schema.nodes()];
        let whole = extent(schema, schema.root(), &mut extents, 0);
        if whole.is_none_or(|whole| whole.types > MOST_TYPES) {
            return Err(Error::unsupported("records of a type that contains itself, or of very many types"));
        }
        Ok(Self { schema, extents, budget })
    }

    /// Values of which there are so many bytes.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn of_records(schema: &'s DatumSchema, bytes: usize) -> Result<Self> {
        Self::new(schema, MIN_BUDGET + BUDGET_PER_BYTE * bytes as u64)
    }

    /// How many of the bytes the value at their begin takes; none if it is not of the schema, or beyond the budget.
    pub(crate) fn length(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        self.value(self.schema.root(), &mut rest, 0)?;
        Some(bytes.len() - rest.len())
    }

    /// Passes over a value of a type in the schema; none if it is not of that, or beyond the budget.
    pub(crate) fn skip(&mut self, node: usize, rest: &mut &[u8]) -> Option<()> {
        self.value(node, rest, 0)
    }

    fn value(&mut self, node: usize, rest: &mut &[u8], depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let schema = self.schema;
        match schema.node(node) {
            Node::Null => self.spend(VALUE_WIDTH),
            Node::Boolean => matches!(take(rest, 1)?, [0 | 1]).then_some(()),
            Node::Int => int(rest).map(drop),
            Node::Long => long(rest).map(drop),
            Node::Float => take(rest, 4).map(drop),
            Node::Double => take(rest, 8).map(drop),
            Node::Bytes | Node::String => bytes(rest),
            Node::Fixed(size) => take(rest, *size).map(drop),
            Node::Enum(symbols) => (place(rest)? < symbols.len()).then_some(()),
            Node::Union(branches) => {
                let branch = *branches.get(place(rest)?)?;
                match schema.node(branch) {
                    Node::Null => self.spend(self.width(node)),
                    _ => self.value(branch, rest, depth + 1),
                }
            }
            Node::Array(items) => self.items(*items, false, rest, depth + 1),
            Node::Map(values) => self.items(*values, true, rest, depth + 1),
            Node::Record(fields) => fields.iter().try_for_each(|(_, field)| self.value(*field, rest, depth + 1)),
        }
    }

    fn items(&mut self, node: usize, keyed: bool, rest: &mut &[u8], depth: usize) -> Option<()> {
        loop {
            let count = long(rest)?;
            if count == 0 {
                return Some(());
            }
            // A block that says its size: who passes over it goes by that, who reads it goes by the items.
            let behind = if count < 0 { Some(length(rest)?) } else { None };
            let behind = behind.map(|size| rest.len().checked_sub(size));
            for _ in 0..count.unsigned_abs() {
                let before = rest.len();
                if keyed {
                    bytes(rest)?;
                }
                self.value(node, rest, depth)?;
                if rest.len() == before {
                    self.spend(VALUE_WIDTH)?;
                }
            }
            if behind.is_some_and(|behind| behind != Some(rest.len())) {
                return None;
            }
        }
    }

    fn width(&self, node: usize) -> u64 {
        self.extents.get(node).copied().flatten().map_or(VALUE_WIDTH, |extent| extent.width)
    }

    fn spend(&mut self, width: u64) -> Option<()> {
        self.budget = self.budget.checked_sub(width)?;
        Some(())
    }
}

/// None for a type that contains itself.
fn extent(schema: &DatumSchema, node: usize, known: &mut [Option<Extent>], depth: usize) -> Option<Extent> {
    if let Some(extent) = known.get(node).copied().flatten() {
        return Some(extent);
    }
    if depth > MAX_DEPTH {
        return None;
    }
    let own = Extent { types: 1, width: VALUE_WIDTH };
    let children: Vec<usize> = match schema.node(node) {
        Node::Union(branches) => branches.clone(),
        Node::Record(fields) => fields.iter().map(|(_, field)| *field).collect(),
        Node::Array(item) | Node::Map(item) => vec![*item],
        _ => Vec::new(),
    };
    let mut whole = Extent { types: 1, width: 0 };
    for child in children {
        let child = extent(schema, child, known, depth + 1)?;
        whole.types = whole.types.saturating_add(child.types);
        whole.width = whole.width.saturating_add(child.width);
    }
    let whole = match schema.node(node) {
        Node::Union(_) | Node::Record(_) => whole,
        // Of a list that is null there are no items.
        Node::Array(_) | Node::Map(_) => Extent { width: VALUE_WIDTH, ..whole },
        Node::Fixed(size) => Extent { width: *size as u64, ..own },
        _ => own,
    };
    if let Some(slot) = known.get_mut(node) {
        *slot = Some(whole);
    }
    Some(whole)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn long(rest: &mut &[u8]) -> Option<i64> {
    let mut raw = 0u64;
    for shift in (0..70).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        if shift == 63 && *byte > 1 {
            return None;
        }
        raw |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed());
        }
    }
    None
}

/// As Java reads it, of five bytes at most. Some readers pass over longer ones that they would not read, or the other way
/// round.
fn int(rest: &mut &[u8]) -> Option<i32> {
    let before = rest.len();
    let value = i32::try_from(long(rest)?).ok()?;
    (before - rest.len() <= 5).then_some(value)
}

/// Of a symbol, or of a branch.
fn place(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(int(rest)?).ok()
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(long(rest)?).ok()
}

fn bytes(rest: &mut &[u8]) -> Option<()> {
    let length = length(rest)?;
    take(rest, length).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn measure(schema: &str, bytes: &[u8]) -> Option<usize> {
        Measure::new(&DatumSchema::parse(schema).unwrap(), 1 << 20).unwrap().length(bytes)
    }

    #[test]
    fn lengths_by_type() {
        let record = r#"{"type":"record","name":"r","fields":[{"name":"a","type":["null","string"]},
            {"name":"b","type":"int"},{"name":"c","type":{"type":"fixed","name":"f","size":3}},{"name":"d","type":"boolean"}]}"#;
        let whole = [2, 4, b'x', b'y', 0xfe, 1, 1, 2, 3, 1];
        assert_eq!(measure(record, &whole), Some(10));
        assert_eq!(measure(record, &[whole.as_slice(), &[9]].concat()), Some(10));
        for cut in 0..whole.len() {
            assert_eq!(measure(record, &whole[..cut]), None, "{cut}");
        }
        for (at, byte) in [(0, 4), (0, 1), (1, 1), (1, 40), (9, 2)] {
            let mut changed = whole;
            changed[at] = byte;
            assert_eq!(measure(record, &changed), None, "{at} {byte}");
        }
        assert_eq!(measure(r#""int""#, &[0xff, 0xff, 0xff, 0xff, 0x0f]), Some(5));
        assert_eq!(measure(r#""int""#, &[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(measure(r#""long""#, &[0xff; 12]), None);
        let padded = [0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(measure(r#""long""#, &padded), Some(6));
        for places in [r#""int""#, r#"["null"]"#, r#"{"type":"enum","name":"e","symbols":["A"]}"#] {
            assert_eq!(measure(places, &padded), None, "{places}");
            assert_eq!(measure(places, &padded[1..]), Some(5), "{places}");
        }
        assert_eq!(measure(r#"{"type":"enum","name":"e","symbols":["A"]}"#, &[2]), None);
        assert_eq!(measure(r#"{"type":"map","values":"double"}"#, &[2, 2, b'k', 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(12));
    }

    #[test]
    fn items_have_to_be_as_long_as_their_block_says() {
        let list = r#"{"type":"array","items":"long"}"#;
        assert_eq!(measure(list, &[4, 2, 4, 0]), Some(4));
        assert_eq!(measure(list, &[3, 4, 2, 4, 0]), Some(5));
        assert_eq!(measure(list, &[3, 2, 2, 4, 0]), None);
        assert_eq!(measure(list, &[3, 100, 2, 4, 0]), None);
    }

    #[test]
    fn what_is_made_of_nothing_is_counted() {
        let huge = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0];
        for items in [
            r#""null""#,
            r#"{"type":"fixed","name":"f","size":0}"#,
            r#"{"type":"record","name":"r","fields":[]}"#,
            r#"{"type":"record","name":"r","fields":[{"name":"n","type":"null"}]}"#,
        ] {
            let list = format!(r#"{{"type":"array","items":{items}}}"#);
            assert_eq!(measure(&list, &huge), None, "{items}");
            assert_eq!(measure(&list, &[6, 0]), Some(2), "{items}");
        }
        let fixed = r#"["null",{"type":"fixed","name":"f","size":2000000000}]"#;
        assert_eq!(measure(fixed, &[0]), None);
        assert_eq!(measure(r#"["null",{"type":"fixed","name":"f","size":16}]"#, &[0]), Some(1));
    }

    #[test]
    fn types_that_grow_without_end_are_refused() {
        let itself = r#"{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]}"#;
        // Each level has the next one twice.
        let mut doubled = r#"{"type":"record","name":"r40","fields":[{"name":"a","type":"int"}]}"#.to_owned();
        for level in (0..40).rev() {
            let below = level + 1;
            doubled = format!(
                r#"{{"type":"record","name":"r{level}","fields":[{{"name":"a","type":{doubled}}},{{"name":"b","type":"r{below}"}}]}}"#
            );
        }
        for schema in [itself, &doubled] {
            let schema = DatumSchema::parse(schema).unwrap();
            assert!(Measure::new(&schema, 1 << 20).is_err());
        }
    }
}
