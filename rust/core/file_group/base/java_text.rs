//! Floating-point numbers as Java writes them, which is what Hudi stores when a number column becomes text.

/// `Double.toString`.
pub fn java_double(value: f64) -> String {
    if value.is_finite() && value.abs() == f64::from_bits(1) {
        // Java wants two digits where one would do.
        return if value < 0.0 { "-4.9E-324".to_owned() } else { "4.9E-324".to_owned() };
    }
    java_notation(&format!("{value:e}"), value.abs(), value.is_nan())
}

/// `Float.toString`.
pub fn java_float(value: f32) -> String {
    if value.is_finite() && value.abs() == f32::from_bits(1) {
        return if value < 0.0 { "-1.4E-45".to_owned() } else { "1.4E-45".to_owned() };
    }
    java_notation(&format!("{value:e}"), f64::from(value.abs()), value.is_nan())
}

/// Turns the shortest digits in scientific notation into Java's choice of notation.
fn java_notation(scientific: &str, magnitude: f64, nan: bool) -> String {
    if nan {
        return "NaN".to_owned();
    }
    let (sign, unsigned) = scientific.strip_prefix('-').map_or(("", scientific), |rest| ("-", rest));
    if magnitude.is_infinite() {
        return format!("{sign}Infinity");
    }
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if magnitude == 0.0 {
        return format!("{sign}0.0");
    }
    if (-3..7).contains(&exponent) {
        return format!("{sign}{}", plain(&digits, exponent));
    }
    let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
    format!("{sign}{first}.{}E{exponent}", if rest.is_empty() { "0" } else { rest })
}

/// Digits with the point after digit `exponent + 1`, at least one digit on either side.
fn plain(digits: &str, exponent: i32) -> String {
    let Ok(whole) = usize::try_from(exponent) else {
        let zeros = "0".repeat((-exponent - 1).unsigned_abs() as usize);
        return format!("0.{zeros}{digits}");
    };
    match digits.split_at_checked(whole + 1) {
        Some((before, after)) if !after.is_empty() => format!("{before}.{after}"),
        _ => format!("{digits}{}.0", "0".repeat((whole + 1).saturating_sub(digits.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right-hand sides are what Java 17 printed.
    #[test]
    fn doubles() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-12.5, "-12.5"),
            (0.001, "0.001"),
            (0.0012, "0.0012"),
            (9.99e-4, "9.99E-4"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (1_234_567.875, "1234567.875"),
            (285_714_285.714_285_73, "2.8571428571428573E8"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::from_bits(1), "4.9E-324"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(java_double(value), text);
        }
    }

    #[test]
    fn floats() {
        for (value, text) in
            [(285_714.28f32, "285714.28"), (1_714_285.8, "1714285.8"), (1e10, "1.0E10"), (0.1, "0.1"), (100.0, "100.0")]
        {
            assert_eq!(java_float(value), text);
        }
    }
}
