//! Which merge mode a table has: inference at creation, and reading what was persisted.

use crate::error::{Error, Result};
use crate::format::properties::Properties;
use crate::merge::MergeMode;

/// Strategy id of event-time ordering.
pub const EVENT_TIME_STRATEGY: &str = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5";
/// Strategy id of commit-time ordering.
pub const COMMIT_TIME_STRATEGY: &str = "ce9acb64-bde0-424c-9b91-f6ebba25356d";

const PACKAGE: &str = "org.apache.hudi.common.model.";

/// What a writer asks for.
#[derive(Debug, Default, Clone, Copy)]
pub struct MergeRequest<'a> {
    /// `hoodie.write.record.merge.mode`.
    pub mode: Option<&'a str>,
    /// `hoodie.write.record.merge.strategy.id`.
    pub strategy: Option<&'a str>,
    /// `hoodie.datasource.write.payload.class`.
    pub payload: Option<&'a str>,
    /// Whether there are ordering fields.
    pub has_ordering: bool,
}

/// The properties in which a new table keeps its merge mode.
pub fn infer(request: MergeRequest<'_>, version: u32) -> Result<Vec<(&'static str, String)>> {
    let by_payload = request.payload.map(payload_mode).transpose()?;
    let by_strategy = request.strategy.map(strategy_mode).transpose()?;
    let given = request.mode.map(parse_mode).transpose()?;
    let inferred = match (by_strategy, by_payload) {
        (None, None) => {
            given.unwrap_or(if request.has_ordering { MergeMode::EventTime } else { MergeMode::CommitTime })
        }
        (Some(s), Some(p)) if s != p => {
            return Err(Error::invalid_option("the merge strategy id and the payload class conflict with each other")
                .remedy(
                    "Give one of hoodie.write.record.merge.strategy.id and hoodie.datasource.write.payload.class",
                ));
        }
        (Some(s), _) => s,
        (None, Some(p)) => p,
    };
    // In version 9 a payload class that stands for a mode wins over the mode, silently.
    let payload_wins = version >= 9 && request.payload.is_some();
    if given.is_some_and(|g| g != inferred) && !payload_wins {
        return Err(Error::invalid_option(format!(
            "merge mode {} is inconsistent with the payload class or strategy, which stand for {}",
            request.mode.unwrap_or_default(),
            mode_name(inferred)
        ))
        .remedy("Give hoodie.write.record.merge.mode alone"));
    }
    let mut out = vec![("hoodie.record.merge.mode", mode_name(inferred).to_owned())];
    if version >= 9 {
        if let Some(payload) = request.payload {
            out.push(("hoodie.table.legacy.payload.class", payload.to_owned()));
        }
    } else {
        let (strategy, payload) = match inferred {
            MergeMode::EventTime => (EVENT_TIME_STRATEGY, "DefaultHoodieRecordPayload"),
            MergeMode::CommitTime => (COMMIT_TIME_STRATEGY, "OverwriteWithLatestAvroPayload"),
        };
        let payload = request.payload.map_or_else(|| format!("{PACKAGE}{payload}"), str::to_owned);
        out.push(("hoodie.record.merge.strategy.id", strategy.to_owned()));
        out.push(("hoodie.compaction.payload.class", payload));
    }
    Ok(out)
}

/// The mode of an existing table.
pub fn persisted_mode(properties: &Properties, version: u32) -> Result<MergeMode> {
    if let Some(partial) = properties.get_non_empty("hoodie.table.partial.update.mode")
        && version >= 9
        && !partial.eq_ignore_ascii_case("NONE")
    {
        return Err(not_built(&format!("partial update mode {partial}")));
    }
    let payload = properties
        .get_non_empty("hoodie.compaction.payload.class")
        .or_else(|| properties.get_non_empty("hoodie.table.legacy.payload.class"));
    if let Some(mode) = properties.get_non_empty("hoodie.record.merge.mode") {
        let mode = parse_mode(mode)?;
        // Below version 9 the class itself is what merges.
        if let (true, Some(payload)) = (version < 9, payload) {
            payload_mode(payload)?;
        }
        return Ok(mode);
    }
    match payload {
        Some(payload) => payload_mode(payload),
        None => Ok(MergeMode::EventTime),
    }
}

/// Hudi's name of a mode.
pub fn mode_name(mode: MergeMode) -> &'static str {
    match mode {
        MergeMode::CommitTime => "COMMIT_TIME_ORDERING",
        MergeMode::EventTime => "EVENT_TIME_ORDERING",
    }
}

/// Understands a mode's name.
pub fn parse_mode(name: &str) -> Result<MergeMode> {
    match name.to_ascii_uppercase().as_str() {
        "COMMIT_TIME_ORDERING" => Ok(MergeMode::CommitTime),
        "EVENT_TIME_ORDERING" => Ok(MergeMode::EventTime),
        "CUSTOM" => Err(not_built("merge mode CUSTOM")),
        _ => Err(Error::invalid_option(format!("'{name}' is no merge mode"))
            .remedy("Use EVENT_TIME_ORDERING or COMMIT_TIME_ORDERING")),
    }
}

/// The mode that a payload class stands for.
pub fn payload_mode(class: &str) -> Result<MergeMode> {
    match class.strip_prefix(PACKAGE) {
        Some("OverwriteWithLatestAvroPayload") => Ok(MergeMode::CommitTime),
        Some("DefaultHoodieRecordPayload" | "EventTimeAvroPayload") => Ok(MergeMode::EventTime),
        _ => Err(not_built(&format!("payload class {class}"))),
    }
}

fn strategy_mode(id: &str) -> Result<MergeMode> {
    match id.to_ascii_lowercase().as_str() {
        EVENT_TIME_STRATEGY => Ok(MergeMode::EventTime),
        COMMIT_TIME_STRATEGY => Ok(MergeMode::CommitTime),
        _ => Err(not_built(&format!("merge strategy {id}"))),
    }
}

fn not_built(what: &str) -> Error {
    Error::unsupported(format!("{what} is not supported"))
        .remedy("hoodoo merges by EVENT_TIME_ORDERING and COMMIT_TIME_ORDERING so far")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn get<'a>(set: &'a [(&'static str, String)], key: &str) -> Option<&'a str> {
        set.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str())
    }

    #[test]
    fn inference_matrix() {
        let owl = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload";
        let dhr = "org.apache.hudi.common.model.DefaultHoodieRecordPayload";
        let ask = |mode, strategy, payload, has_ordering| MergeRequest { mode, strategy, payload, has_ordering };
        let mode = |r, v| infer(r, v).map(|s| get(&s, "hoodie.record.merge.mode").unwrap().to_owned());
        for v in [8, 9] {
            assert_eq!(mode(ask(None, None, None, true), v).unwrap(), "EVENT_TIME_ORDERING");
            assert_eq!(mode(ask(None, None, None, false), v).unwrap(), "COMMIT_TIME_ORDERING");
            assert_eq!(mode(ask(Some("EVENT_TIME_ORDERING"), None, None, false), v).unwrap(), "EVENT_TIME_ORDERING");
            assert_eq!(mode(ask(Some("commit_time_ordering"), None, None, true), v).unwrap(), "COMMIT_TIME_ORDERING");
            assert_eq!(mode(ask(None, None, Some(owl), true), v).unwrap(), "COMMIT_TIME_ORDERING");
            assert_eq!(mode(ask(None, Some(EVENT_TIME_STRATEGY), None, false), v).unwrap(), "EVENT_TIME_ORDERING");
            assert!(mode(ask(Some("CUSTOM"), None, None, true), v).is_err());
            assert!(mode(ask(None, Some(EVENT_TIME_STRATEGY), Some(owl), true), v).is_err());
            assert!(mode(ask(Some("COMMIT_TIME_ORDERING"), Some(EVENT_TIME_STRATEGY), None, true), v).is_err());
        }
        assert_eq!(mode(ask(Some("EVENT_TIME_ORDERING"), None, Some(owl), true), 9).unwrap(), "COMMIT_TIME_ORDERING");
        assert!(mode(ask(Some("EVENT_TIME_ORDERING"), None, Some(owl), true), 8).is_err());
        let nine = infer(ask(None, None, Some(dhr), true), 9).unwrap();
        assert_eq!(get(&nine, "hoodie.table.legacy.payload.class"), Some(dhr));
        assert_eq!(get(&nine, "hoodie.record.merge.strategy.id"), None);
        let eight = infer(ask(None, None, None, true), 8).unwrap();
        assert_eq!(get(&eight, "hoodie.compaction.payload.class"), Some(dhr));
        assert_eq!(get(&eight, "hoodie.record.merge.strategy.id"), Some(EVENT_TIME_STRATEGY));
    }
}
