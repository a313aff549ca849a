//! Which file group new rows go to.

pub(in crate::write) mod assignment;
pub(in crate::write) mod spread;
pub(in crate::write) mod units;
