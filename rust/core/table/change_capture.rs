//! Whether a table captures changes, and what its change data logs hold.

use super::config::TableConfig;
use crate::error::Result;
use crate::format::change_data::{LOGGING_MODE, LoggingMode};

/// The property of a table that captures changes.
pub(crate) const CHANGE_CAPTURE: &str = "hoodie.table.cdc.enabled";

impl TableConfig {
    /// What change data logs hold; `None` for a table that captures no changes.
    ///
    /// # Errors
    /// `InvalidOption` for a mode that does not exist.
    pub(crate) fn change_capture(&self) -> Result<Option<LoggingMode>> {
        if !self.get(CHANGE_CAPTURE).is_some_and(|enabled| enabled.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        self.logging_mode().map(Some)
    }

    /// What change data logs hold that were written while the table captured changes.
    ///
    /// # Errors
    /// `InvalidOption` for a mode that does not exist.
    pub(crate) fn logging_mode(&self) -> Result<LoggingMode> {
        self.get(LOGGING_MODE).map_or(Ok(LoggingMode::default()), LoggingMode::parse)
    }
}
