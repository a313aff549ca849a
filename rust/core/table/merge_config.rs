//! Which merge rule a table has: inference at creation, and reading what was persisted.
//!
//! Source: `HoodieTableConfig.inferMergingConfigsForWrites` of Hudi 1.2 and RFC-97; the matrix was run on real tables.

use crate::error::{Error, Result};
use crate::format::properties::Properties;
use crate::merge::{DEBEZIUM_UNAVAILABLE, Fill, MergeMode, PayloadClass};

/// Strategy id of event-time ordering.
pub(crate) const EVENT_TIME_STRATEGY: &str = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5";
/// Strategy id of commit-time ordering.
pub(crate) const COMMIT_TIME_STRATEGY: &str = "ce9acb64-bde0-424c-9b91-f6ebba25356d";
/// Strategy id of tables that merge by a payload class.
pub(crate) const PAYLOAD_STRATEGY: &str = "00000000-0000-0000-0000-000000000000";

/// Strategy id of Hudi for mergers in general.
const CUSTOM_STRATEGY: &str = "1897ef5f-18bc-4557-939c-9d6a8afd1519";

pub(super) const MODE: &str = "hoodie.record.merge.mode";
pub(super) const STRATEGY: &str = "hoodie.record.merge.strategy.id";
pub(super) const PAYLOAD: &str = "hoodie.compaction.payload.class";
pub(super) const LEGACY_PAYLOAD: &str = "hoodie.table.legacy.payload.class";
const PARTIAL_MODE: &str = "hoodie.table.partial.update.mode";
const PROPERTY: &str = "hoodie.record.merge.property.";
const ORDERING: &str = "hoodie.table.ordering.fields";
pub(super) const PACKAGE: &str = "org.apache.hudi.common.model.";
const DEFAULT_PAYLOAD: &str = "org.apache.hudi.common.model.DefaultHoodieRecordPayload";

/// `hoodie.write.record.merge.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Commit,
    Event,
    Custom,
}

impl Mode {
    fn parse(name: &str) -> Result<Self> {
        match name.to_ascii_uppercase().as_str() {
            "COMMIT_TIME_ORDERING" => Ok(Self::Commit),
            "EVENT_TIME_ORDERING" => Ok(Self::Event),
            "CUSTOM" => Ok(Self::Custom),
            _ => Err(Error::invalid_value(
                "hoodie.record.merge.mode",
                name,
                "one of EVENT_TIME_ORDERING, COMMIT_TIME_ORDERING, CUSTOM",
            )),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Commit => "COMMIT_TIME_ORDERING",
            Self::Event => "EVENT_TIME_ORDERING",
            Self::Custom => "CUSTOM",
        }
    }

    pub(super) fn of_payload(class: &str) -> Self {
        match class.strip_prefix(PACKAGE) {
            Some("OverwriteWithLatestAvroPayload") => Self::Commit,
            Some("DefaultHoodieRecordPayload" | "EventTimeAvroPayload") => Self::Event,
            _ => Self::Custom,
        }
    }

    fn of_strategy(id: &str) -> Self {
        match id {
            _ if id.eq_ignore_ascii_case(EVENT_TIME_STRATEGY) => Self::Event,
            _ if id.eq_ignore_ascii_case(COMMIT_TIME_STRATEGY) => Self::Commit,
            _ => Self::Custom,
        }
    }
}

/// What a payload class stands for in version 9: a mode and properties; `None` for a class that merges by itself.
pub(super) fn mapped(class: &str) -> Option<(Mode, Vec<(&'static str, &'static str)>)> {
    const DELETE_FIELD: &str = "hoodie.record.merge.property.hoodie.payload.delete.field";
    const DELETE_MARKER: &str = "hoodie.record.merge.property.hoodie.payload.delete.marker";
    const UNAVAILABLE: &str = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value";
    let debezium = [(DELETE_FIELD, "_change_operation_type"), (DELETE_MARKER, "d")];
    let (mode, properties) = match (Mode::of_payload(class), PayloadClass::parse(class)) {
        (Mode::Custom, Some(PayloadClass::OverwriteNonDefaultsWithLatest)) => {
            (Mode::Commit, vec![(PARTIAL_MODE, "IGNORE_DEFAULTS")])
        }
        (Mode::Custom, Some(PayloadClass::PartialUpdate)) => (Mode::Event, vec![(PARTIAL_MODE, "IGNORE_DEFAULTS")]),
        (Mode::Custom, Some(PayloadClass::AwsDms)) => (Mode::Commit, vec![(DELETE_FIELD, "Op"), (DELETE_MARKER, "D")]),
        (Mode::Custom, Some(PayloadClass::MySqlDebezium)) => {
            (Mode::Event, [debezium.to_vec(), vec![(ORDERING, "_event_bin_file,_event_pos")]].concat())
        }
        (Mode::Custom, Some(PayloadClass::PostgresDebezium)) => {
            let own =
                [(PARTIAL_MODE, "FILL_UNAVAILABLE"), (UNAVAILABLE, DEBEZIUM_UNAVAILABLE), (ORDERING, "_event_lsn")];
            (Mode::Event, [debezium.to_vec(), own.to_vec()].concat())
        }
        (Mode::Custom, _) => return None,
        (mode, _) => (mode, Vec::new()),
    };
    Some((mode, properties))
}

/// Whether a strategy id is that of a custom merger.
fn is_own_merger(id: &str) -> bool {
    let known = [EVENT_TIME_STRATEGY, COMMIT_TIME_STRATEGY, PAYLOAD_STRATEGY, CUSTOM_STRATEGY];
    !known.iter().any(|known| known.eq_ignore_ascii_case(id))
}

/// Whether a payload class stands for these ordering columns, whatever others are given.
pub(crate) fn orders_by(payload: &str, ordering: &str) -> bool {
    mapped(payload).is_some_and(|(_, properties)| properties.contains(&(ORDERING, ordering)))
}

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

/// The properties in which a new table keeps how it is merged; they win over those of other settings.
pub(crate) fn infer(request: MergeRequest<'_>, version: u32) -> Result<Vec<(String, String)>> {
    let given = request.mode.map(Mode::parse).transpose()?;
    let by_strategy = request.strategy.map(Mode::of_strategy);
    let by_payload = request.payload.map(Mode::of_payload);
    let inferred = match (by_strategy, by_payload) {
        (None, None) => given.unwrap_or(if request.has_ordering { Mode::Event } else { Mode::Commit }),
        (Some(s), Some(p)) if s != Mode::Custom && s != p => {
            return Err(Error::invalid_option("the merge strategy id and the payload class conflict with each other")
                .remedy(
                    "Give one of hoodie.write.record.merge.strategy.id and hoodie.datasource.write.payload.class",
                ));
        }
        (Some(s), _) => s,
        (None, Some(p)) => p,
    };
    // In version 9 a payload class that stands for a mode wins over the mode, silently, and over the strategy, unless
    // that is a custom merger.
    let own_merger = request.strategy.is_some_and(is_own_merger);
    let stands_for = request.payload.and_then(mapped).filter(|_| version >= 9 && !own_merger);
    let unchecked = version >= 9 && request.payload.and_then(mapped).is_some();
    if given.is_some_and(|g| g != inferred) && !unchecked {
        return Err(Error::invalid_option(format!(
            "merge mode {} is inconsistent with the payload class or strategy, which stand for {}",
            request.mode.unwrap_or_default(),
            inferred.name()
        ))
        .remedy("Give hoodie.write.record.merge.mode alone"));
    }
    let set =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
    if let (Some((mode, properties)), Some(payload)) = (stands_for, request.payload) {
        return Ok([set(&[(MODE, mode.name()), (LEGACY_PAYLOAD, payload)]), set(&properties)].concat());
    }
    let is_payload_strategy = request.strategy.is_none_or(|id| id == PAYLOAD_STRATEGY);
    if inferred == Mode::Custom && is_payload_strategy && request.payload.is_none() {
        return Err(Error::invalid_option("merge mode CUSTOM needs a merge strategy or a payload class").remedy(
            "Set hoodie.write.record.merge.strategy.id to the strategy_id of a record merger, or choose another mode",
        ));
    }
    let strategy = match inferred {
        Mode::Event => EVENT_TIME_STRATEGY,
        Mode::Commit => COMMIT_TIME_STRATEGY,
        Mode::Custom => request.strategy.unwrap_or(PAYLOAD_STRATEGY),
    };
    if version >= 9 {
        return Ok(match request.payload {
            _ if inferred != Mode::Custom => set(&[(MODE, inferred.name())]),
            Some(payload) if !own_merger => set(&[(MODE, "CUSTOM"), (STRATEGY, PAYLOAD_STRATEGY), (PAYLOAD, payload)]),
            _ => set(&[(MODE, "CUSTOM"), (STRATEGY, strategy)]),
        });
    }
    let default =
        if inferred == Mode::Commit { "OverwriteWithLatestAvroPayload" } else { "DefaultHoodieRecordPayload" };
    let payload = request.payload.map_or_else(|| format!("{PACKAGE}{default}"), str::to_owned);
    Ok(set(&[(MODE, inferred.name()), (STRATEGY, strategy), (PAYLOAD, &payload)]))
}

/// What makes a record a delete, besides Hudi's own columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteMarker {
    /// The column.
    pub field: String,
    /// Its text.
    pub text: String,
    /// Whether any case will do.
    pub any_case: bool,
}

/// How an existing table says that it is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistedMerge {
    /// The rule.
    pub rule: PersistedRule,
    /// The marker of deletes.
    pub marker: Option<DeleteMarker>,
}

/// The rule of [`PersistedMerge`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersistedRule {
    /// One record is kept; some of its values may mean that the other's are to stay.
    Mode(MergeMode, Fill),
    /// A payload class that is built in.
    Payload(PayloadClass),
    /// A merger, or a payload class, that somebody has to bring: strategy id, or name of the class.
    Brought(String),
}

impl PersistedMerge {
    /// Reads the properties of a table.
    ///
    /// # Errors
    /// `InvalidOption` or `Unsupported` for values that are not known.
    pub fn read(properties: &Properties, version: u32) -> Result<Self> {
        let get = |key: &str| properties.get_non_empty(key);
        let payload = get(PAYLOAD).or_else(|| get(LEGACY_PAYLOAD));
        let strategy = get(STRATEGY);
        let mode = match get(MODE) {
            Some(mode) => Mode::parse(mode)?,
            // Version 6 has no mode: the class says it, or else the strategy.
            None => match (payload, strategy) {
                (Some(payload), _) => Mode::of_payload(payload),
                (None, Some(strategy)) => Mode::of_strategy(strategy),
                (None, None) => Mode::of_payload(DEFAULT_PAYLOAD),
            },
        };
        let class = payload.and_then(PayloadClass::parse);
        let by_payload = strategy.is_none_or(|id| id == PAYLOAD_STRATEGY) && payload.is_some();
        let rule = match mode {
            Mode::Commit => PersistedRule::Mode(MergeMode::CommitTime, fill(properties, version)?),
            Mode::Event => PersistedRule::Mode(MergeMode::EventTime, fill(properties, version)?),
            Mode::Custom => match (by_payload, class) {
                (true, Some(class)) => PersistedRule::Payload(class),
                // Classes that do what a mode does, and are made to do it by themselves.
                (true, None) => match Mode::of_payload(payload.unwrap_or_default()) {
                    Mode::Commit => PersistedRule::Mode(MergeMode::CommitTime, Fill::Nothing),
                    Mode::Event => PersistedRule::Mode(MergeMode::EventTime, Fill::Nothing),
                    Mode::Custom => PersistedRule::Brought(payload.unwrap_or_default().to_owned()),
                },
                (false, _) => PersistedRule::Brought(strategy.unwrap_or_default().to_owned()),
            },
        };
        let property = |name: &str| get(&format!("{PROPERTY}hoodie.payload.delete.{name}")).map(str::to_owned);
        let of_class = class.filter(|_| version < 9).and_then(PayloadClass::delete_marker);
        let marker = match (property("field").zip(property("marker")), of_class) {
            (Some((field, text)), _) => Some(DeleteMarker { field, text, any_case: false }),
            (None, Some((field, text))) => {
                Some(DeleteMarker { field: field.to_owned(), text: text.to_owned(), any_case: true })
            }
            (None, None) => None,
        };
        Ok(Self { rule, marker })
    }
}

/// Which values of a winning record leave room for the other's.
fn fill(properties: &Properties, version: u32) -> Result<Fill> {
    let get = |key: &str| properties.get_non_empty(key);
    let mode = get(PARTIAL_MODE).filter(|_| version >= 9).unwrap_or("NONE").to_ascii_uppercase();
    match mode.as_str() {
        "NONE" => Ok(Fill::Nothing),
        "IGNORE_DEFAULTS" => Ok(Fill::Nulls),
        "FILL_UNAVAILABLE" => {
            let marker = get(&format!("{PROPERTY}hoodie.write.partial.update.unavailable.value"));
            // Without a marker nothing is ever unavailable.
            Ok(marker.map_or(Fill::Nothing, |marker| Fill::Marker(marker.to_owned())))
        }
        // Records without all columns say so in their log blocks.
        "KEEP_VALUES" => Ok(Fill::Nothing),
        other => Err(Error::unsupported(format!("the partial update mode '{other}' is not known"))),
    }
}

/// What in a job's options contradicts the merge rule of the table, if anything does.
///
/// # Errors
/// `InvalidOption` for a mode that is none.
pub(crate) fn contradiction(
    properties: &Properties,
    version: u32,
    request: MergeRequest<'_>,
) -> Result<Option<String>> {
    // A job says again what it said when it made the table, whatever came of it then.
    if infer(request, version).is_ok_and(|set| {
        let merging = [MODE, STRATEGY, PAYLOAD, LEGACY_PAYLOAD];
        merging.iter().all(|key| {
            let inferred = set.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
            inferred == properties.get_non_empty(key)
        })
    }) {
        return Ok(None);
    }
    let stored = match PersistedMerge::read(properties, version)?.rule {
        PersistedRule::Mode(MergeMode::CommitTime, _) => Mode::Commit,
        PersistedRule::Mode(MergeMode::EventTime, _) => Mode::Event,
        PersistedRule::Payload(_) | PersistedRule::Brought(_) => Mode::Custom,
    };
    if let Some(mode) = request.mode
        && Mode::parse(mode)? != stored
        // A class that stands for a mode wins over the mode, as it did when the table was made.
        && request.payload.and_then(mapped).filter(|_| version >= 9).is_none()
    {
        return Ok(Some(format!("{MODE}: given '{mode}', the table has '{}'", stored.name())));
    }
    if let Some(class) = request.payload {
        let known =
            [PAYLOAD, LEGACY_PAYLOAD].iter().filter_map(|key| properties.get_non_empty(key)).any(|c| c == class);
        let stands_for = match mapped(class).filter(|_| version >= 9) {
            Some((mode, _)) => mode,
            None => Mode::of_payload(class),
        };
        if !known && (stands_for != stored || stored == Mode::Custom) {
            return Ok(Some(format!(
                "hoodie.datasource.write.payload.class: '{class}' contradicts the table's merge mode {}",
                stored.name()
            )));
        }
    }
    if let Some(id) = request.strategy {
        let persisted = properties.get_non_empty(STRATEGY);
        let same = persisted.map_or(Mode::of_strategy(id) == stored, |known| known.eq_ignore_ascii_case(id));
        if !same {
            return Ok(Some(format!("{STRATEGY}: '{id}' is not the table's")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ask<'a>(mode: Option<&'a str>, strategy: Option<&'a str>, payload: Option<&'a str>) -> MergeRequest<'a> {
        MergeRequest { mode, strategy, payload, has_ordering: true }
    }

    fn persisted(request: MergeRequest<'_>, version: u32) -> Properties {
        let mut properties = Properties::new();
        for (key, value) in infer(request, version).unwrap() {
            properties.set(key, value);
        }
        properties
    }

    #[test]
    fn what_is_inferred_is_read_again() {
        let class = |name: &str| format!("{PACKAGE}{name}");
        let partial = class("PartialUpdateAvroPayload");
        let nine = persisted(ask(None, None, Some(&partial)), 9);
        assert_eq!(nine.get(LEGACY_PAYLOAD), Some(partial.as_str()));
        let rule = |p: &Properties, v| PersistedMerge::read(p, v).unwrap().rule;
        assert_eq!(rule(&nine, 9), PersistedRule::Mode(MergeMode::EventTime, Fill::Nulls));
        let eight = persisted(ask(None, None, Some(&partial)), 8);
        assert_eq!((eight.get(STRATEGY), eight.get(MODE)), (Some(PAYLOAD_STRATEGY), Some("CUSTOM")));
        assert_eq!(rule(&eight, 8), PersistedRule::Payload(PayloadClass::PartialUpdate));
        let postgres = class("debezium.PostgresDebeziumAvroPayload");
        let nine = persisted(ask(None, None, Some(&postgres)), 9);
        assert_eq!(nine.get(ORDERING), Some("_event_lsn"));
        let fill = Fill::Marker(DEBEZIUM_UNAVAILABLE.to_owned());
        assert_eq!(rule(&nine, 9), PersistedRule::Mode(MergeMode::EventTime, fill));
        let own = persisted(ask(Some("CUSTOM"), Some("11111111-1111-1111-1111-111111111111"), None), 9);
        assert_eq!(rule(&own, 9), PersistedRule::Brought("11111111-1111-1111-1111-111111111111".to_owned()));
    }

    #[test]
    fn deletes_have_the_marker_of_their_class() {
        let class = format!("{PACKAGE}AWSDmsAvroPayload");
        let marker = |version| {
            let properties = persisted(ask(None, None, Some(&class)), version);
            PersistedMerge::read(&properties, version).unwrap().marker.unwrap()
        };
        assert_eq!(marker(9), DeleteMarker { field: "Op".into(), text: "D".into(), any_case: false });
        assert!(marker(8).any_case);
    }

    #[test]
    fn what_contradicts_a_table_is_told() {
        let table = persisted(ask(None, None, None), 9);
        let contradicts = |request| contradiction(&table, 9, request).unwrap().is_some();
        assert!(contradicts(ask(Some("COMMIT_TIME_ORDERING"), None, None)));
        assert!(!contradicts(ask(Some("event_time_ordering"), None, None)));
        let partial = format!("{PACKAGE}PartialUpdateAvroPayload");
        assert!(!contradicts(ask(None, None, Some(&partial))), "it stands for the table's mode");
        assert!(contradicts(ask(None, None, Some("com.acme.Payload"))));
        assert!(contradicts(ask(None, Some(COMMIT_TIME_STRATEGY), None)));
    }
}
