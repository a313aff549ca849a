//! Whether the rows that were applied are those that were located.
//!
//! An engine that loses the output of a task runs the task again. Where rows of one key tie, the task may now keep another of
//! them, if they come in another order, and the key goes to another partition: tasks that read the first result and tasks that
//! read the second would together write the key twice, or nowhere. So each located row bears a fingerprint of all that its
//! task found, and each task sends one more row, its witness, which says how many rows there are. The commit holds if each
//! fingerprint was met as often as its witness says.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{Int64Type, SchemaRef};
use serde::{Deserialize, Serialize};

use super::PLACE_COLUMNS;
use super::pack::{ROW, Routed};
use crate::error::{Error, Result};
use crate::merge::{hash_bytes, hash_key};

/// The route of witnesses: no file group has this id, and new rows have routes that begin with a plus.
const WITNESS: &str = "!";

/// A stored record that a row meets: its row in the base file, unless it is in log files only; and whether it moves away.
pub(super) type StoredRecord = (Option<u32>, bool);

/// What a task found, as a number: the same for the same rows in any order.
#[derive(Debug, Default)]
pub(super) struct Fingerprint {
    sum: u64,
    rows: u64,
}

impl Fingerprint {
    /// Adds the way of a row: partition and route, and the stored record that it meets.
    pub(super) fn add(&mut self, key: &str, way: (Option<&str>, Option<&str>), stored: Option<StoredRecord>) {
        let (position, moved) = stored.unwrap_or((None, false));
        let of_record =
            u64::from(position.unwrap_or(u32::MAX)) << 2 | u64::from(moved) << 1 | u64::from(stored.is_some());
        let of_names = [way.0, way.1].map(|name| hash_key(name.unwrap_or_default()));
        let [partition, route] = of_names;
        let parts = [hash_key(key), partition, route, of_record].map(u64::to_le_bytes);
        self.sum = self.sum.wrapping_add(hash_bytes(&parts.concat()));
        self.rows += 1;
    }

    pub(super) fn value(&self) -> i64 {
        hash_bytes(&[self.sum, self.rows].map(u64::to_le_bytes).concat()).cast_signed()
    }
}

/// The witness of a task that located so many rows, in these columns.
pub(super) fn witness(columns: &SchemaRef, fingerprint: i64, rows: usize) -> Result<Routed> {
    let [position, _, located] = PLACE_COLUMNS;
    let number = |n: i64| Ok(Arc::new(Int64Array::from(vec![n])) as ArrayRef);
    let column = |name: &str, data_type| match name {
        ROW => number(0),
        _ if name == located => number(fingerprint),
        _ if name == position => number(i64::try_from(rows).map_err(|e| Error::internal(e.to_string()))?),
        _ => Ok(new_null_array(data_type, 1)),
    };
    let all = columns.fields().iter().map(|field| column(field.name(), field.data_type()));
    let rows = RecordBatch::try_new(columns.clone(), all.collect::<Result<Vec<_>>>()?)?;
    Ok(Routed { rows, partitions: StringArray::from(vec![""]), routes: StringArray::from(vec![WITNESS]) })
}

/// How many rows there are of each fingerprint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedRows {
    /// Rows that were applied.
    applied: BTreeMap<i64, u64>,
    /// Rows that witnesses say were located.
    expected: BTreeMap<i64, u64>,
}

impl LocatedRows {
    /// Counts the rows of a route. Returns whether they are witnesses.
    pub(super) fn count(&mut self, route: &str, rows: &RecordBatch) -> Result<bool> {
        let [position, _, located] = PLACE_COLUMNS.map(|name| {
            let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>());
            column.filter(|column| column.null_count() == 0 || name != PLACE_COLUMNS[2])
        });
        let located = located.ok_or_else(|| Error::schema("the located rows do not say who located them"))?;
        if route != WITNESS {
            for fingerprint in located.values() {
                *self.applied.entry(*fingerprint).or_default() += 1;
            }
            return Ok(false);
        }
        let expected = position.ok_or_else(|| Error::schema("a witness does not say how many rows were located"))?;
        for (fingerprint, rows) in located.values().iter().zip(expected.values()) {
            *self.expected.entry(*fingerprint).or_default() += rows.cast_unsigned();
        }
        Ok(true)
    }

    /// Adds what another task counted.
    pub(super) fn add(&mut self, other: Self) {
        for (all, more) in [(&mut self.applied, other.applied), (&mut self.expected, other.expected)] {
            for (fingerprint, rows) in more {
                *all.entry(fingerprint).or_default() += rows;
            }
        }
    }

    /// Compares both.
    ///
    /// # Errors
    /// `Conflict`, which a new attempt may not meet, where rows of several results of one task came together.
    pub(super) fn check(mut self) -> Result<()> {
        // A task may have found that no row changes anything.
        self.expected.retain(|_, rows| *rows > 0);
        if self.applied == self.expected {
            return Ok(());
        }
        Err(Error::conflict("a task that looks keys up was run again, and its rows went other ways than the first time")
            .remedy("Nothing was written: write again. If it happens again, the rows themselves differ each time that they are computed: store them first, or give rows of one key different ordering values")
            .outdated_plan())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn fingerprint(ways: &[(&str, &str)]) -> Fingerprint {
        let mut all = Fingerprint::default();
        ways.iter().for_each(|(key, route)| all.add(key, (Some("p"), Some(route)), None));
        all
    }

    fn columns() -> SchemaRef {
        let [position, moved, located] = PLACE_COLUMNS;
        let numbers = ["id", ROW, position, located].map(|name| Field::new(name, DataType::Int64, true));
        Arc::new(Schema::new([numbers.to_vec(), vec![Field::new(moved, DataType::Boolean, true)]].concat()))
    }

    /// A row of the task with this fingerprint.
    fn row(fingerprint: i64) -> RecordBatch {
        witness(&columns(), fingerprint, 0).unwrap().rows
    }

    #[test]
    fn the_order_of_rows_does_not_matter() {
        let one = fingerprint(&[("a", "r1"), ("b", "r2")]).value();
        assert_eq!(one, fingerprint(&[("b", "r2"), ("a", "r1")]).value());
        for other in [&[("a", "r2"), ("b", "r1")][..], &[("a", "r1")], &[]] {
            assert_ne!(one, fingerprint(other).value());
        }
        let mut meets = fingerprint(&[("a", "r1")]);
        meets.add("b", (Some("p"), Some("r2")), Some((Some(0), false)));
        assert_ne!(one, meets.value());
    }

    #[test]
    fn rows_of_two_results_are_found() {
        let counted = |rows: &[i64], expected: &[(i64, usize)]| {
            let mut all = LocatedRows::default();
            for fingerprint in rows {
                let mut one = LocatedRows::default();
                assert!(!one.count("r", &row(*fingerprint)).unwrap());
                all.add(one);
            }
            for (fingerprint, rows) in expected {
                assert!(all.count(WITNESS, &witness(&columns(), *fingerprint, *rows).unwrap().rows).unwrap());
            }
            all.check()
        };
        assert!(counted(&[7, 7, 8], &[(7, 2), (8, 1), (9, 0)]).is_ok());
        assert!(counted(&[], &[]).is_ok());
        for (rows, expected) in [
            (&[7, 7, 8][..], &[(7, 2)][..]),
            (&[7, 8], &[(7, 2), (8, 1)]),
            (&[], &[(7, 1)]),
            (&[7], &[]),
            (&[7, 7], &[(7, 1)]),
        ] {
            let error = counted(rows, expected).unwrap_err();
            assert!(error.is_outdated_plan(), "{error}");
        }
    }

    #[test]
    fn rows_that_do_not_say_who_located_them_are_refused() {
        let row = row(7).project(&[0, 1, 2, 4]).unwrap();
        assert!(LocatedRows::default().count("r", &row).is_err());
    }
}
