//! stub
#![allow(missing_docs)]
use crate::{Result, table::HudiTable};
pub fn clean(_t: &HudiTable, _b: &dyn Fn(&HudiTable) -> Result<()>) -> Result<Option<()>> {
    Ok(None)
}
