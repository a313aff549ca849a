//! The items of a date pattern.

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A number in a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Century,
    WeekYear,
    Year,
    YearOfEra,
    Week,
    DayOfWeek,
    Month,
    Day,
    DayOfYear,
    Hour,
    ClockHour,
    HalfdayHour,
    HalfdayClockHour,
    Minute,
    Second,
}

/// One item of a pattern.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Literal(String),
    /// `max` bounds the digits read.
    Number {
        field: Field,
        min: usize,
        max: usize,
    },
    /// `lenient`: more or fewer than two digits are read as a whole year.
    TwoDigitYear {
        field: Field,
        lenient: bool,
    },
    Fraction(usize),
    Era,
    Halfday,
    MonthText {
        long: bool,
    },
    WeekdayText {
        long: bool,
    },
    Offset {
        colon: bool,
    },
    ZoneId,
    ZoneName,
}
