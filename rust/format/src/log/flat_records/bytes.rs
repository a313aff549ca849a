//! Values of Avro's binary form, taken from the begin of some bytes.

use std::fmt;

/// What is wrong with the bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// They end within a value.
    CutOff,
    /// There are more of them than the fields take.
    TooLong,
    /// A number is longer than numbers are, or too large for its type.
    Number,
    /// A length is negative.
    Length,
    /// A union has no such branch.
    Branch,
    /// A boolean is neither 0 nor 1.
    Boolean,
    /// An enumeration has no such symbol.
    Symbol,
    /// A decimal has more bytes than its column.
    Decimal,
    /// The strings of one batch are too much for one column.
    TooMuch,
    /// A value that is not wanted is not of its type.
    Other,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutOff => "the record ends within it",
            Self::TooLong => "the record goes on behind it",
            Self::Number => "a number too large for its type",
            Self::Length => "a negative length",
            Self::Branch => "a union without such a branch",
            Self::Boolean => "neither true nor false",
            Self::Symbol => "an enumeration without such a symbol",
            Self::Decimal => "a decimal too large for its type",
            Self::TooMuch => "2 GiB of values in one batch",
            Self::Other => "a value that is not of its type",
        })
    }
}

impl std::error::Error for Damage {}

/// So many bytes.
#[inline]
pub(super) fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Damage> {
    let (taken, behind) = rest.split_at_checked(length).ok_or(Damage::CutOff)?;
    *rest = behind;
    Ok(taken)
}

/// So many bytes, as many as a type has.
#[inline]
pub(super) fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Damage> {
    let (taken, behind) = rest.split_first_chunk::<N>().ok_or(Damage::CutOff)?;
    *rest = behind;
    Ok(*taken)
}

/// A number before its sign is folded out. Most take a byte.
#[inline]
fn varint(rest: &mut &[u8]) -> Result<u64, Damage> {
    let (first, behind) = rest.split_first().ok_or(Damage::CutOff)?;
    if *first < 0x80 {
        *rest = behind;
        return Ok(u64::from(*first));
    }
    let mut raw = 0;
    for (position, byte) in rest.iter().take(10).enumerate() {
        // Of the tenth byte there is room for one bit.
        if position == 9 && *byte > 1 {
            return Err(Damage::Number);
        }
        raw |= u64::from(byte & 0x7f) << (7 * position);
        if *byte < 0x80 {
            *rest = rest.get(position + 1..).unwrap_or_default();
            return Ok(raw);
        }
    }
    Err(Damage::CutOff)
}

/// A `long`.
#[inline]
pub(super) fn long(rest: &mut &[u8]) -> Result<i64, Damage> {
    let raw = varint(rest)?;
    Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// An `int`, of five bytes at most, as Java reads it.
#[inline]
pub(super) fn int(rest: &mut &[u8]) -> Result<i32, Damage> {
    let before = rest.len();
    let raw = u32::try_from(varint(rest)?).map_err(|_| Damage::Number)?;
    if before - rest.len() > 5 {
        return Err(Damage::Number);
    }
    Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// Bytes with their length before them.
#[inline]
pub(super) fn bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Damage> {
    let length = usize::try_from(long(rest)?).map_err(|_| Damage::Length)?;
    take(rest, length)
}

/// A boolean.
#[inline]
pub(super) fn boolean(rest: &mut &[u8]) -> Result<bool, Damage> {
    match array::<1>(rest)? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(Damage::Boolean),
    }
}

/// The position of a symbol, or of a branch.
#[inline]
pub(super) fn position(rest: &mut &[u8], of: usize, damage: Damage) -> Result<usize, Damage> {
    usize::try_from(int(rest)?).ok().filter(|position| *position < of).ok_or(damage)
}

/// A big-endian number with its sign, in so many bytes; what is left out has to be its sign repeated.
#[inline]
pub(super) fn decimal<const N: usize>(raw: &[u8]) -> Result<[u8; N], Damage> {
    let sign = if raw.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
    let mut out = [sign; N];
    let (dropped, kept) = raw.split_at(raw.len().saturating_sub(N));
    let same_sign = dropped.is_empty() || kept.first().is_some_and(|first| (first ^ sign) & 0x80 == 0);
    if !same_sign || dropped.iter().any(|byte| *byte != sign) {
        return Err(Damage::Decimal);
    }
    out.iter_mut().rev().zip(kept.iter().rev()).for_each(|(out, byte)| *out = *byte);
    Ok(out)
}
