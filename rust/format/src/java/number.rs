//! Floating-point and decimal numbers as text, digit for digit as the JVM (8 to 18) writes them.
//!
//! Record keys and partition paths hold `Double.toString`, `Float.toString` and `BigDecimal.toString` of a value, so one
//! digit of difference is another key.

use std::fmt;

use super::digits::{Digits, develop};

/// Writes `value` as Java's `Double.toString` does.
pub fn write_double(out: &mut impl fmt::Write, value: f64) -> fmt::Result {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    write_parts(
        out,
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
        || {
            if exponent == 0 {
                let shift = fraction.leading_zeros() as i32 - 11;
                develop(fraction << shift, 1 - shift - 1023, 53 - shift)
            } else {
                develop(fraction | (1 << 52), exponent - 1023, 53)
            }
        },
        value == 0.0,
    )
}

/// Writes `value` as Java's `Float.toString` does.
pub fn write_float(out: &mut impl fmt::Write, value: f32) -> fmt::Result {
    let bits = value.to_bits();
    let fraction = u64::from(bits & ((1 << 23) - 1));
    let exponent = ((bits >> 23) & 0xff) as i32;
    write_parts(
        out,
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
        || {
            if exponent == 0 {
                let shift = fraction.leading_zeros() as i32 - 40;
                develop(fraction << shift << 29, 1 - shift - 127, 24 - shift)
            } else {
                develop((fraction | (1 << 23)) << 29, exponent - 127, 24)
            }
        },
        value == 0.0,
    )
}

fn write_parts(
    out: &mut impl fmt::Write,
    nan: bool,
    infinite: bool,
    negative: bool,
    digits: impl FnOnce() -> Digits,
    zero: bool,
) -> fmt::Result {
    if nan {
        return out.write_str("NaN");
    }
    if negative {
        out.write_char('-')?;
    }
    if infinite {
        return out.write_str("Infinity");
    }
    if zero {
        return out.write_str("0.0");
    }
    lay_out(out, &digits())
}

/// Plain notation from 10^-3 up to 10^7, otherwise one digit before the point and an exponent.
fn lay_out(out: &mut impl fmt::Write, found: &Digits) -> fmt::Result {
    let put =
        |out: &mut dyn fmt::Write, digits: &[u8]| digits.iter().try_for_each(|d| out.write_char(char::from(b'0' + d)));
    let digits = found.as_slice();
    match found.exponent {
        exponent @ 1..=7 => {
            let (whole, rest) = digits.split_at(digits.len().min(exponent as usize));
            put(out, whole)?;
            (whole.len()..exponent as usize).try_for_each(|_| out.write_char('0'))?;
            out.write_char('.')?;
            put(out, if rest.is_empty() { &[0] } else { rest })
        }
        exponent @ -2..=0 => {
            out.write_str("0.")?;
            (exponent..0).try_for_each(|_| out.write_char('0'))?;
            put(out, digits)
        }
        exponent => {
            let (first, rest) = digits.split_at(digits.len().min(1));
            put(out, first)?;
            out.write_char('.')?;
            put(out, if rest.is_empty() { &[0] } else { rest })?;
            write!(out, "E{}", exponent - 1)
        }
    }
}

/// Writes `unscaled × 10^-scale` as Java's `BigDecimal.toString` does: plain, or scientific when the scale is negative
/// or the first digit stands more than six places behind the point.
pub fn write_decimal(out: &mut impl fmt::Write, unscaled: i128, scale: i8) -> fmt::Result {
    if scale == 0 {
        return write!(out, "{unscaled}");
    }
    if unscaled < 0 {
        out.write_char('-')?;
    }
    let mut buffer = [b'0'; 40];
    let mut start = buffer.len();
    let mut left = unscaled.unsigned_abs();
    loop {
        start -= 1;
        if let Some(slot) = buffer.get_mut(start) {
            *slot = b'0' + (left % 10) as u8;
        }
        left /= 10;
        if left == 0 {
            break;
        }
    }
    let digits = std::str::from_utf8(buffer.get(start..).unwrap_or_default()).unwrap_or_default();
    let adjusted = digits.len() as i64 - 1 - i64::from(scale);
    if scale >= 0 && adjusted >= -6 {
        let scale = scale as usize;
        if digits.len() > scale {
            let (whole, rest) = digits.split_at(digits.len() - scale);
            write!(out, "{whole}.{rest}")
        } else {
            write!(out, "0.{digits:0>scale$}")
        }
    } else {
        let (first, rest) = digits.split_at(1);
        out.write_str(first)?;
        if !rest.is_empty() {
            write!(out, ".{rest}")?;
        }
        if adjusted != 0 { write!(out, "E{adjusted:+}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn decimal(unscaled: i128, scale: i8) -> String {
        let mut out = String::new();
        write_decimal(&mut out, unscaled, scale).unwrap();
        out
    }

    /// Lines of `double bits, text, float bits, text`, printed by Java 17 over numbers of every size.
    #[test]
    fn doubles_and_floats_as_java_17_prints_them() {
        let path = std::env::var("HOODOO_JAVA_NUMBERS").unwrap_or_else(|_| {
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/keygen/java17_numbers.txt").into()
        });
        let mut seen = 0;
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let parts: Vec<&str> = line.split(' ').collect();
            let (mut double, mut float) = (String::new(), String::new());
            write_double(&mut double, f64::from_bits(u64::from_str_radix(parts[0], 16).unwrap())).unwrap();
            write_float(&mut float, f32::from_bits(u32::from_str_radix(parts[2], 16).unwrap())).unwrap();
            assert_eq!((double.as_str(), float.as_str()), (parts[1], parts[3]), "line {line}");
            seen += 1;
        }
        assert!(seen >= 400);
    }

    #[test]
    fn decimals_as_big_decimal_prints_them() {
        assert_eq!(decimal(150, 2), "1.50");
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(0, 2), "0.00");
        assert_eq!(decimal(1, 6), "0.000001");
        assert_eq!(decimal(1, 7), "1E-7");
        assert_eq!(decimal(0, 7), "0E-7");
        assert_eq!(decimal(-123, 12), "-1.23E-10");
        assert_eq!(decimal(12, -3), "1.2E+4");
        assert_eq!(decimal(i128::MIN, 0), "-170141183460469231731687303715884105728");
    }
}
