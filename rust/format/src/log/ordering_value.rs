//! The ordering value of a delete.

/// Digits behind the point of every decimal in a delete block.
pub(super) const DECIMAL_SCALE: i8 = 15;

/// An ordering value as a delete block has it, in Hudi's classes.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderingValue {
    /// None, or the 32-bit 0 that stands for none: wins over all before it, loses to all after it.
    Default,
    /// `BooleanWrapper`.
    Boolean(bool),
    /// `IntWrapper`.
    Int(i32),
    /// `LongWrapper`, timestamps too.
    Long(i64),
    /// `FloatWrapper`.
    Float(f32),
    /// `DoubleWrapper`.
    Double(f64),
    /// `BytesWrapper`.
    Bytes(Vec<u8>),
    /// `StringWrapper`.
    Text(String),
    /// `DateWrapper`: days since 1970.
    Date(i32),
    /// `DecimalWrapper`: unscaled, with 15 digits behind the point.
    Decimal(i128),
    /// `ArrayWrapper`: the values of several columns.
    Several(Vec<OrderingValue>),
}
