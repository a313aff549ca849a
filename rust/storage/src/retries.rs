//! How often and how long a request to an object store is repeated: two storage options that `object_store` itself has no
//! names for.

use std::time::Duration;

use object_store::RetryConfig;

use hoodoo_runtime::error::{Error, Result};

const MAX_RETRIES: &str = "max_retries";
const RETRY_TIMEOUT: &str = "retry_timeout";
/// Units of a time, in milliseconds; seconds where none is given.
const UNITS: [(&str, u64); 5] = [("", 1000), ("ms", 1), ("s", 1000), ("m", 60_000), ("min", 60_000)];

/// What the options say; what they leave out is as `object_store` has it: ten times, for three minutes.
pub(super) fn of_options(options: &[(String, String)]) -> Result<RetryConfig> {
    let last = |name: &str| options.iter().rfind(|(key, _)| key == name).map(|(_, value)| value.trim());
    let mut config = RetryConfig::default();
    if let Some(value) = last(MAX_RETRIES) {
        config.max_retries =
            value.parse().map_err(|_| bad(MAX_RETRIES, value, "a number such as 10, or 0 for none"))?;
    }
    if let Some(value) = last(RETRY_TIMEOUT) {
        config.retry_timeout = time(value).ok_or_else(|| bad(RETRY_TIMEOUT, value, "a time such as 180s or 3m"))?;
    }
    Ok(config)
}

fn time(value: &str) -> Option<Duration> {
    let (number, unit) = value.split_at(value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len()));
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*millis).map(Duration::from_millis)
}

fn bad(name: &str, value: &str, expected: &str) -> Error {
    Error::invalid_option(format!("invalid value '{value}' for storage option {name}: expected {expected}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(name: &str, value: &str) -> Result<RetryConfig> {
        of_options(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn what_is_said() {
        assert_eq!(of_options(&[]).unwrap().max_retries, 10);
        assert_eq!(of(MAX_RETRIES, "0").unwrap().max_retries, 0);
        for (value, millis) in [("2", 2000), ("250ms", 250), ("20 s", 20_000), ("3m", 180_000), ("3 min", 180_000)] {
            assert_eq!(of(RETRY_TIMEOUT, value).unwrap().retry_timeout, Duration::from_millis(millis));
        }
    }

    #[test]
    fn what_is_no_number() {
        for value in ["", "-1", "many", "1.5"] {
            assert!(of(MAX_RETRIES, value).unwrap_err().to_string().contains("max_retries"));
        }
        for value in ["", "s", "-1s", "3 days", "1.5s", "99999999999999999999s", "18446744073709551615m"] {
            assert!(of(RETRY_TIMEOUT, value).unwrap_err().to_string().contains("retry_timeout"), "{value}");
        }
    }
}
