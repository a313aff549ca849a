//! Numbers as text, digit for digit as the JVM writes them: record keys, partition paths, numbers that became text.

mod digits;
mod number;

pub use number::{write_decimal, write_double, write_float};

/// `Double.toString`.
pub fn double_text(value: f64) -> String {
    let mut text = String::new();
    // Writing to a `String` does not fail.
    let _ = write_double(&mut text, value);
    text
}

/// `Float.toString`.
pub fn float_text(value: f32) -> String {
    let mut text = String::new();
    let _ = write_float(&mut text, value);
    text
}
