//! Which file group new rows go to.

pub(in crate::write) mod assignment;
