//! What a function takes beside its column.

use crate::error::{Error, Result};

/// The option that names the function.
pub(crate) const EXPRESSION_OPTION: &str = "expr";

/// The options of an index.
pub(super) struct Options<'a> {
    pub(super) function: &'a str,
    pub(super) options: &'a [(String, String)],
}

impl Options<'_> {
    /// The value of an option.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Refuses options of other names.
    pub(super) fn only(&self, names: &[&str]) -> Result<()> {
        let is_known = |name: &str| name == EXPRESSION_OPTION || names.contains(&name);
        match self.options.iter().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((other, _)) => {
                Err(Error::invalid_option(format!("the function {} takes no option '{other}'", self.function)).remedy(
                    match names {
                        [] => "Leave it out".to_owned(),
                        names => format!("It takes {}", names.join(", ")),
                    },
                ))
            }
        }
    }

    /// The value of an option that has to be there, an integer.
    pub(super) fn number(&self, name: &str) -> Result<i32> {
        let value = self.get(name).ok_or_else(|| {
            Error::invalid_option(format!("the function {} needs the option '{name}'", self.function))
                .remedy("Say it as an integer")
        })?;
        value.trim().parse().map_err(|_| Error::invalid_value(name, value, "an integer"))
    }
}
