//! Positions of rows along a space-filling curve through several columns. Pure.
//!
//! Each value becomes 64 bits that compare as the values do, as in Hudi's `DIRECT` method: numbers with their sign bit
//! flipped, the first eight bytes of strings, times in milliseconds; nulls last (of strings, first). Rows that are
//! close to each other in all columns are then close to each other along the curve.

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType,
};

use crate::error::{Error, Result};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Bytes of a value.
const WIDTH: usize = 8;

/// A space-filling curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    /// Z order: interleaves the bits of all coordinates.
    Z,
    /// The Hilbert curve: neighbours on the curve are neighbours in space.
    Hilbert,
}

/// Returns the position of each row, as bytes that compare as the positions do.
///
/// # Errors
/// `InvalidOption` for a column of an unsupported type.
pub(super) fn curve_values(curve: Curve, columns: &[ArrayRef]) -> Result<ArrayRef> {
    let coordinates = columns.iter().map(coordinates).collect::<Result<Vec<_>>>()?;
    let (rows, dimensions) = (columns.first().map_or(0, |c| c.len()), columns.len());
    if coordinates.iter().any(|of_column| of_column.len() != rows) {
        return Err(Error::internal(format!("a column of a curve has not {rows} rows")));
    }
    let mut bytes = Vec::with_capacity(rows * dimensions * WIDTH);
    let mut point = vec![0u64; dimensions];
    for row in 0..rows {
        for (to, from) in point.iter_mut().zip(&coordinates) {
            *to = from.get(row).copied().unwrap_or_default();
        }
        if curve == Curve::Hilbert {
            to_hilbert(&mut point);
        }
        interleave(&point, &mut bytes);
    }
    let width = i32::try_from(dimensions * WIDTH).map_err(|_| Error::invalid_option("too many columns for a curve"))?;
    Ok(std::sync::Arc::new(FixedSizeBinaryArray::try_new(width, Buffer::from_vec(bytes), None)?))
}

/// Interleaves the bits of all coordinates, beginning with the highest bit of the first one.
fn interleave(point: &[u64], out: &mut Vec<u8>) {
    if let [a, b] = point {
        // The usual case, faster.
        out.extend((spread(*a) << 1 | spread(*b)).to_be_bytes());
        return;
    }
    let (mut byte, mut filled) = (0u8, 0);
    for bit in (0..u64::BITS).rev() {
        for value in point {
            byte = byte << 1 | (value >> bit & 1) as u8;
            filled += 1;
            if filled == 8 {
                out.push(byte);
                (byte, filled) = (0, 0);
            }
        }
    }
}

/// Inserts a zero before each bit.
fn spread(value: u64) -> u128 {
    let masks: [(u32, u128); 6] = [
        (32, 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff),
        (16, 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333_3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555_5555_5555_5555_5555),
    ];
    masks.iter().fold(u128::from(value), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// Converts coordinates into the distance along the Hilbert curve; its bits are spread over the coordinates.
///
/// J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 381 (2004).
fn to_hilbert(point: &mut [u64]) {
    let Some((first, others)) = point.split_first_mut() else { return };
    let mut bit = 1u64 << 63;
    while bit > 1 {
        let below = bit - 1;
        if *first & bit != 0 {
            *first ^= below;
        }
        for other in &mut *others {
            if *other & bit != 0 {
                *first ^= below;
            } else {
                let changed = (*first ^ *other) & below;
                *first ^= changed;
                *other ^= changed;
            }
        }
        bit >>= 1;
    }
    let mut before = *first;
    for other in &mut *others {
        *other ^= before;
        before = *other;
    }
    // For each set bit of the last coordinate, flips the bits below it.
    let mut turn = 0u64;
    let mut bit = 1u64 << 63;
    while bit > 1 {
        if before & bit != 0 {
            turn ^= bit - 1;
        }
        bit >>= 1;
    }
    point.iter_mut().for_each(|x| *x ^= turn);
}

fn of_int(value: i32) -> u64 {
    u64::from(value.cast_unsigned() ^ 1 << 31)
}

fn of_long(value: i64) -> u64 {
    value.cast_unsigned() ^ 1 << 63
}

fn of_double(value: f64) -> u64 {
    let bits = (if value == 0.0 { 0.0 } else { value }).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn of_bytes(value: &[u8]) -> u64 {
    let mut first = [0u8; WIDTH];
    first.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(first)
}

fn coordinates(column: &ArrayRef) -> Result<Vec<u64>> {
    let long = |value: Option<i64>| of_long(value.unwrap_or(i64::MAX));
    Ok(match column.data_type() {
        DataType::Boolean => column.as_boolean().iter().map(|v| of_int(v.unwrap_or(false).into())).collect(),
        DataType::Int32 => column.as_primitive::<Int32Type>().iter().map(|v| of_int(v.unwrap_or(i32::MAX))).collect(),
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().map(long).collect(),
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>();
            values.iter().map(|v| of_double(v.unwrap_or(f32::MAX).into())).collect()
        }
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().iter().map(|v| of_double(v.unwrap_or(f64::MAX))).collect()
        }
        DataType::Date32 => {
            let values = column.as_primitive::<Date32Type>();
            values.iter().map(|v| long(v.map(|days| i64::from(days) * DAY_MS))).collect()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = column.as_primitive::<TimestampMicrosecondType>();
            values.iter().map(|v| long(v.map(|micros| micros.div_euclid(1000)))).collect()
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().iter().map(long).collect()
        }
        DataType::Decimal128(_, scale) => {
            let unit = 10i128.checked_pow(u32::try_from(*scale).unwrap_or(0)).unwrap_or(i128::MAX);
            let whole = |v: i128| i64::try_from(v.div_euclid(unit)).unwrap_or(if v < 0 { i64::MIN } else { i64::MAX });
            column.as_primitive::<Decimal128Type>().iter().map(|v| long(v.map(whole))).collect()
        }
        DataType::Utf8 => {
            column.as_string::<i32>().iter().map(|v| of_bytes(v.unwrap_or_default().as_bytes())).collect()
        }
        DataType::Binary => column.as_binary::<i32>().iter().map(|v| of_bytes(v.unwrap_or_default())).collect(),
        other => {
            return Err(Error::invalid_option(format!(
                "Z order and Hilbert layouts do not support columns of type {other}"
            ))
            .remedy("Use LINEAR, or columns of numbers, strings, dates and times"));
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use arrow::array::{Float64Array, Int32Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn positions(curve: Curve, columns: &[ArrayRef]) -> Vec<Vec<u8>> {
        let values = curve_values(curve, columns).unwrap();
        values.as_fixed_size_binary().iter().map(|v| v.unwrap().to_vec()).collect()
    }

    /// All points of a small square or cube, in the order of the curve.
    fn walk(curve: Curve, dimensions: usize, side: i64) -> Vec<Vec<i64>> {
        let count = side.pow(dimensions as u32);
        let at = |point: i64, d: usize| point / side.pow(d as u32) % side;
        let columns: Vec<ArrayRef> =
            (0..dimensions).map(|d| Arc::new((0..count).map(|p| at(p, d)).collect::<Int64Array>()) as _).collect();
        let positions = positions(curve, &columns);
        let mut order: Vec<usize> = (0..positions.len()).collect();
        order.sort_by_key(|i| positions[*i].clone());
        order.into_iter().map(|p| (0..dimensions).map(|d| at(p as i64, d)).collect()).collect()
    }

    #[test]
    fn hilbert_goes_from_neighbour_to_neighbour() {
        for (dimensions, side) in [(2, 16), (3, 8), (4, 4)] {
            let points = walk(Curve::Hilbert, dimensions, side);
            for pair in points.windows(2) {
                let steps: i64 = pair[0].iter().zip(&pair[1]).map(|(a, b)| (a - b).abs()).sum();
                assert_eq!(steps, 1, "{pair:?}");
            }
        }
    }

    #[test]
    fn z_takes_the_bits_in_turn() {
        let points = walk(Curve::Z, 2, 4);
        let expected = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 0], [2, 1]];
        assert_eq!(points[..10], expected);
        assert_eq!(walk(Curve::Z, 3, 2)[..4], [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]]);
        let mut bytes = Vec::new();
        interleave(&[u64::MAX, 0], &mut bytes);
        assert_eq!(bytes, [0xaa; 16]);
    }

    #[test]
    fn values_keep_their_order() {
        let sorted: [ArrayRef; 4] = [
            Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(-1), Some(0), Some(7), None])),
            Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(-1), Some(0), Some(7), None])),
            Arc::new(Float64Array::from(vec![Some(f64::NEG_INFINITY), Some(-1.5), Some(-0.0), Some(1e-9), None])),
            Arc::new(StringArray::from(vec![None, Some("a"), Some("ab"), Some("b"), Some("ba")])),
        ];
        for column in sorted {
            let values = coordinates(&column).unwrap();
            assert!(values.windows(2).all(|w| w[0] < w[1]), "{column:?} {values:?}");
        }
    }
}
