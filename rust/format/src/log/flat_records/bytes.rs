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
    match rest.split_first() {
        Some((first, behind)) if *first < 0x80 => {
            *rest = behind;
            Ok(u64::from(*first))
        }
        _ => long_varint(rest),
    }
}

/// The same for a number of several bytes: eight of them at a time where there are so many.
fn long_varint(rest: &mut &[u8]) -> Result<u64, Damage> {
    const MORE: u64 = 0x8080_8080_8080_8080;
    let Some((eight, behind)) = rest.split_first_chunk::<8>() else { return short_varint(rest) };
    let word = u64::from_le_bytes(*eight);
    let ends = !word & MORE;
    if ends != 0 {
        // From 8 to 64, up to the end of the byte that is the last one.
        let bits = ends.trailing_zeros() + 1;
        *rest = rest.get(bits as usize / 8..).unwrap_or_default();
        return Ok(without_top_bits(word & (u64::MAX >> (64 - bits))));
    }
    let raw = without_top_bits(word);
    match *behind {
        [ninth, ref behind @ ..] if ninth < 0x80 => {
            *rest = behind;
            Ok(raw | u64::from(ninth) << 56)
        }
        // Of the tenth byte there is room for one bit.
        [_, tenth, ..] if tenth > 1 => Err(Damage::Number),
        [ninth, tenth, ref behind @ ..] => {
            *rest = behind;
            Ok(raw | u64::from(ninth & 0x7f) << 56 | u64::from(tenth) << 63)
        }
        _ => Err(Damage::CutOff),
    }
}

/// The lower seven bits of each byte, one behind the other: pairs of bytes, then of pairs, then of four bytes.
#[inline]
fn without_top_bits(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

/// The same near the end of a record.
fn short_varint(rest: &mut &[u8]) -> Result<u64, Damage> {
    let mut raw = 0;
    for (position, byte) in rest.iter().take(7).enumerate() {
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

/// Whether a union of two has its first branch.
#[inline]
pub(super) fn is_first_branch(rest: &mut &[u8]) -> Result<bool, Damage> {
    match **rest {
        [0, ref behind @ ..] => {
            *rest = behind;
            Ok(true)
        }
        [2, ref behind @ ..] => {
            *rest = behind;
            Ok(false)
        }
        _ => Ok(position(rest, 2, Damage::Branch)? == 0),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::avro::datum::write_long;

    /// One byte at a time.
    fn plainly(bytes: &[u8]) -> Result<(i64, usize), Damage> {
        let mut raw = 0;
        for (position, byte) in bytes.iter().take(10).enumerate() {
            if position == 9 && *byte > 1 {
                return Err(Damage::Number);
            }
            raw |= u64::from(byte & 0x7f) << (7 * position);
            if *byte < 0x80 {
                return Ok(((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed(), position + 1));
            }
        }
        Err(Damage::CutOff)
    }

    fn check(bytes: &[u8]) {
        let mut rest = bytes;
        let read = long(&mut rest).map(|value| (value, bytes.len() - rest.len()));
        assert_eq!(read, plainly(bytes), "{bytes:02x?}");
    }

    #[test]
    fn numbers_of_any_length_with_anything_behind_them() {
        let numbers = (0..64).flat_map(|bit| {
            let number = 1i64 << bit;
            [number, number.wrapping_neg(), number.wrapping_sub(1), number.wrapping_add(12_345)]
        });
        for number in numbers {
            let mut bytes = Vec::new();
            write_long(number, &mut bytes);
            let whole = bytes.len();
            for behind in [&[][..], &[0], &[0xff; 12], &[0x7f; 12], &[0x80; 12]] {
                bytes.truncate(whole);
                bytes.extend_from_slice(behind);
                check(&bytes);
                let mut rest = bytes.as_slice();
                assert_eq!(long(&mut rest).unwrap(), number);
                assert_eq!(rest, behind);
            }
            // Cut off anywhere.
            for end in 0..whole {
                check(bytes.get(..end).unwrap());
            }
        }
    }

    #[test]
    fn bytes_that_are_no_number() {
        for length in 0..14 {
            for last in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut bytes = vec![0x81; length];
                bytes.push(last);
                check(&bytes);
            }
        }
    }

    #[test]
    fn branches_in_one_byte_and_in_more() {
        let read = |bytes: &[u8]| {
            let mut rest = bytes;
            is_first_branch(&mut rest).map(|first| (first, rest.len()))
        };
        assert_eq!(read(&[0, 7]), Ok((true, 1)));
        assert_eq!(read(&[2, 7]), Ok((false, 1)));
        assert_eq!(read(&[0x80, 0, 7]), Ok((true, 1)));
        assert_eq!(read(&[0x82, 0, 7]), Ok((false, 1)));
        for wrong in [&[1][..], &[4], &[0x84, 0], &[0xff; 12]] {
            assert!(read(wrong).is_err(), "{wrong:02x?}");
        }
        assert_eq!(read(&[]), Err(Damage::CutOff));
    }
}
