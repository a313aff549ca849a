//! The decimal digits that the JVM finds for a binary floating-point number.
//!
//! Up to Java 18, `Double.toString` does not always give the shortest text (10^23 is `9.999999999999999E22`, 2^-44 is
//! `5.6843418860808015E-14`), so Rust's formatting can't be used: the digits come from the same free-format conversion
//! (Steele and White) with the same three precisions (32-bit, 64-bit, big integer) and the same stopping rules.

/// Digits and exponent of a positive number: `0.d1d2d3… × 10^exponent`.
pub(super) struct Digits {
    digits: [u8; 24],
    len: usize,
    pub(super) exponent: i32,
}

impl Digits {
    fn new() -> Self {
        Self { digits: [0; 24], len: 0, exponent: 0 }
    }

    fn push(&mut self, digit: u8) {
        if let Some(slot) = self.digits.get_mut(self.len) {
            *slot = digit;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.digits.get(..self.len).unwrap_or_default()
    }

    /// Adds one to the last digit, with carry; all nines become a one with a greater exponent.
    fn round_up(&mut self) {
        for digit in self.digits.iter_mut().take(self.len).rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        if let Some(first) = self.digits.first_mut() {
            *first = 1;
        }
        self.exponent += 1;
    }
}

const FIVES: [u64; 28] = {
    let mut table = [1u64; 28];
    let mut i = 1;
    #[allow(clippy::indexing_slicing)] // bounds are constant
    while i < 28 {
        table[i] = table[i - 1] * 5;
        i += 1;
    }
    table
};

fn five_to(n: i32) -> u64 {
    usize::try_from(n).ok().and_then(|n| FIVES.get(n)).copied().unwrap_or(u64::MAX)
}

/// Bits of 5^n as the JVM's table has them (nothing for n = 0; 3n beyond the table, which is an upper bound).
fn bits_of_five_to(n: i32) -> i32 {
    match n {
        0 => 0,
        1..27 => 64 - five_to(n).leading_zeros() as i32,
        _ => 3 * n,
    }
}

/// The digits of `fraction × 2^(exponent - 52)`, where bit 52 of `fraction` is set and `significant` bits count.
pub(super) fn develop(fraction: u64, exponent: i32, significant: i32) -> Digits {
    let tail_zeros = fraction.trailing_zeros() as i32;
    let fraction_bits = 53 - tail_zeros;
    let tiny_bits = (fraction_bits - exponent - 1).max(0);
    if (-21..=62).contains(&exponent) && tiny_bits == 0 {
        // A whole number that fits in 63 bits.
        let insignificant = if exponent > significant { floor_log10_of_pow2(exponent - significant - 1) } else { 0 };
        let whole = if exponent >= 52 { fraction << (exponent - 52) } else { fraction >> (52 - exponent) };
        return whole_digits(whole, insignificant);
    }
    let decimal_exponent = estimate_decimal_exponent(fraction, exponent);
    let b5 = (-decimal_exponent).max(0);
    let mut b2 = b5 + tiny_bits + exponent;
    let s5 = decimal_exponent.max(0);
    let mut s2 = s5 + tiny_bits;
    let mut m2 = b2 - significant;
    let fraction = fraction >> tail_zeros;
    b2 -= fraction_bits - 1;
    let common = b2.min(s2);
    b2 -= common;
    s2 -= common;
    m2 -= common;
    if fraction_bits == 1 {
        // A power of two: the gap below is half of the gap above.
        m2 -= 1;
    }
    if m2 < 0 {
        b2 -= m2;
        s2 -= m2;
        m2 = 0;
    }
    let scale = Scale { fraction, b5, b2, s5, s2, m2, decimal_exponent };
    let b_bits = fraction_bits + b2 + bits_of_five_to(b5);
    let tens_bits = s2 + 1 + bits_of_five_to(s5 + 1);
    if b_bits < 64 && tens_bits < 64 {
        scale.free_digits::<Machine>(b_bits < 32 && tens_bits < 32)
    } else {
        scale.free_digits::<Big>(false)
    }
}

/// floor(log10(2^p)) for p in 0..64, the number of decimal digits that a shifted-in zero bit can't vouch for.
fn floor_log10_of_pow2(p: i32) -> u32 {
    if p > 1 { (p as u32 * 1233) >> 12 } else { 0 }
}

fn whole_digits(mut whole: u64, insignificant: u32) -> Digits {
    let mut exponent = 0;
    if insignificant > 0 {
        let power = 10u64.pow(insignificant);
        let residue = whole % power;
        whole /= power;
        exponent += insignificant as i32;
        if residue >= power >> 1 {
            whole += 1;
        }
    }
    let mut reversed = [0u8; 20];
    let mut count = 0;
    while whole > 0 {
        if let Some(slot) = reversed.get_mut(count) {
            *slot = (whole % 10) as u8;
        }
        whole /= 10;
        count += 1;
    }
    let mut found = Digits::new();
    let zeros = reversed.iter().take(count).take_while(|d| **d == 0).count();
    reversed.iter().take(count).skip(zeros).rev().for_each(|d| found.push(*d));
    found.exponent = exponent + count as i32;
    found
}

/// floor(log10(value)), sometimes one too high; the digit loop corrects that.
fn estimate_decimal_exponent(fraction: u64, exponent: i32) -> i32 {
    let mantissa = f64::from_bits((1023 << 52) | (fraction & ((1 << 52) - 1)));
    let estimate = (mantissa - 1.5) * 0.289_529_654 + 0.176_091_259 + f64::from(exponent) * std::f64::consts::LOG10_2;
    estimate.floor() as i32
}

/// value = fraction·5^b5·2^b2 / (5^s5·2^s2); half a gap = 5^b5·2^m2 over the same divisor.
struct Scale {
    fraction: u64,
    b5: i32,
    b2: i32,
    s5: i32,
    s2: i32,
    m2: i32,
    decimal_exponent: i32,
}

/// The remainder of a digit generation and its two stopping tests.
trait Remainder {
    fn start(scale: &Scale, narrow: bool) -> Self;
    /// Takes the next digit out; the remainder and the half gap grow tenfold.
    fn next_digit(&mut self) -> u8;
    /// (close enough below, close enough above) after the last digit.
    fn close(&self) -> (bool, bool);
    /// Twice the remainder against one unit of the last digit.
    fn compare_to_half(&self) -> std::cmp::Ordering;
}

impl Scale {
    fn free_digits<R: Remainder>(&self, narrow: bool) -> Digits {
        let mut rest = R::start(self, narrow);
        let mut found = Digits::new();
        let mut decimal_exponent = self.decimal_exponent;
        let first = rest.next_digit();
        let (mut low, mut high) = rest.close();
        if first == 0 && !high {
            decimal_exponent -= 1;
        } else {
            found.push(first);
        }
        if !(-3..8).contains(&decimal_exponent) {
            // Exponent notation always has a digit after the point, so one more is generated.
            (low, high) = (false, false);
        }
        while !low && !high && found.len < 22 {
            found.push(rest.next_digit());
            (low, high) = rest.close();
        }
        found.exponent = decimal_exponent + 1;
        if high {
            let odd = found.as_slice().last().is_some_and(|d| d % 2 == 1);
            let up = !low
                || match rest.compare_to_half() {
                    std::cmp::Ordering::Less => false,
                    std::cmp::Ordering::Equal => odd,
                    std::cmp::Ordering::Greater => true,
                };
            if up {
                found.round_up();
            }
        }
        found
    }
}

/// The loop in machine integers; `narrow`: sums and the half gap overflow at 32 bits, which can end the loop.
struct Machine {
    b: i64,
    s: i64,
    m: i64,
    tens: i64,
    narrow: bool,
}

impl Remainder for Machine {
    fn start(scale: &Scale, narrow: bool) -> Self {
        let shl = |value: u64, by: i32| value.checked_shl(by.max(0) as u32).unwrap_or(0) as i64;
        let s = shl(five_to(scale.s5), scale.s2);
        Self {
            b: shl(scale.fraction.wrapping_mul(five_to(scale.b5)), scale.b2),
            s,
            m: shl(five_to(scale.b5), scale.m2),
            tens: s.wrapping_mul(10),
            narrow,
        }
    }

    fn next_digit(&mut self) -> u8 {
        let digit = self.b.checked_div(self.s).unwrap_or(0);
        self.b = self.b.checked_rem(self.s).unwrap_or(0).wrapping_mul(10);
        self.m = self.m.wrapping_mul(10);
        if self.narrow {
            self.m = i64::from(self.m as i32);
        }
        digit as u8
    }

    fn close(&self) -> (bool, bool) {
        let sum = self.b.wrapping_add(self.m);
        let sum = if self.narrow { i64::from(sum as i32) } else { sum };
        if self.m > 0 { (self.b < self.m, sum > self.tens) } else { (true, true) }
    }

    fn compare_to_half(&self) -> std::cmp::Ordering {
        // The difference fits even where twice the remainder does not.
        self.b.wrapping_shl(1).wrapping_sub(self.tens).cmp(&0)
    }
}

/// The loop in big integers. Here, and only here, an exact tie above counts as close.
struct Big {
    b: Natural,
    s: Natural,
    m: Natural,
    tens: Natural,
}

impl Remainder for Big {
    fn start(scale: &Scale, _narrow: bool) -> Self {
        Self {
            b: Natural::new(scale.fraction).times_five_to(scale.b5).shifted(scale.b2),
            s: Natural::new(1).times_five_to(scale.s5).shifted(scale.s2),
            m: Natural::new(1).times_five_to(scale.b5).shifted(scale.m2),
            tens: Natural::new(1).times_five_to(scale.s5 + 1).shifted(scale.s2 + 1),
        }
    }

    fn next_digit(&mut self) -> u8 {
        let mut digit = 0;
        while digit < 10 && self.b.cmp(&self.s).is_ge() {
            self.b.subtract(&self.s);
            digit += 1;
        }
        self.b.multiply(10);
        self.m.multiply(10);
        digit
    }

    fn close(&self) -> (bool, bool) {
        let mut sum = self.b.clone();
        sum.add(&self.m);
        (self.b.cmp(&self.m).is_lt(), self.tens.cmp(&sum).is_le())
    }

    fn compare_to_half(&self) -> std::cmp::Ordering {
        let mut twice = self.b.clone();
        twice.multiply(2);
        twice.cmp(&self.tens)
    }
}

/// A natural number of at most some 1,200 bits, least significant limb first, no leading zero limbs.
#[derive(Clone)]
struct Natural(Vec<u32>);

impl Natural {
    fn new(value: u64) -> Self {
        let mut made = Self(vec![value as u32, (value >> 32) as u32]);
        made.trim();
        made
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply(&mut self, by: u32) {
        let mut carry = 0u64;
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(by) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn times_five_to(mut self, n: i32) -> Self {
        let mut left = n;
        while left > 0 {
            let step = left.min(13);
            self.multiply(five_to(step) as u32);
            left -= step;
        }
        self
    }

    fn shifted(mut self, by: i32) -> Self {
        let by = by.max(0) as usize;
        self.multiply(1 << (by % 32));
        let mut limbs = vec![0; by / 32];
        limbs.append(&mut self.0);
        Self(limbs)
    }

    fn add(&mut self, other: &Self) {
        let len = self.0.len().max(other.0.len());
        self.0.resize(len, 0);
        let mut carry = 0u64;
        for (i, limb) in self.0.iter_mut().enumerate() {
            let sum = u64::from(*limb) + u64::from(other.0.get(i).copied().unwrap_or(0)) + carry;
            *limb = sum as u32;
            carry = sum >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Subtracts a number that is not greater.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0i64;
        for (i, limb) in self.0.iter_mut().enumerate() {
            let mut difference = i64::from(*limb) - i64::from(other.0.get(i).copied().unwrap_or(0)) - borrow;
            borrow = i64::from(difference < 0);
            if difference < 0 {
                difference += 1 << 32;
            }
            *limb = difference as u32;
        }
        self.trim();
    }

    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}
