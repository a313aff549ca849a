//! How a table is merged after an upgrade: the merge properties of one version in those of the next.
//!
//! Source: `SixToEightUpgradeHandler` and `EightToNineUpgradeHandler` of Hudi 1.2, compared with what they made of real
//! tables.

use super::merge_config::{
    COMMIT_TIME_STRATEGY, EVENT_TIME_STRATEGY, LEGACY_PAYLOAD, MODE, Mode, PACKAGE, PAYLOAD, PAYLOAD_STRATEGY,
    STRATEGY, mapped,
};
use crate::format::properties::Properties;

/// An older name of the property with the strategy id. Hudi's upgrade writes both.
const STRATEGY_ALIAS: &str = "hoodie.compaction.record.merger.strategy";

/// Gives a table of version 6 the merge properties of version 8 that mean the same.
pub(crate) fn keep_in_version_8(p: &mut Properties) {
    let default = format!("{PACKAGE}DefaultHoodieRecordPayload");
    let payload = p.get_non_empty(PAYLOAD).map_or(default, str::to_owned);
    set_rule(p, Mode::of_payload(&payload), &payload);
}

/// Gives a table that has just become one of version 8 the merge properties that Hudi's upgrade gives it.
/// `orders_logs`: a merge-on-read table with ordering fields, of which Hudi orders the records by them, even if the payload
/// class is that of the latest write. Hudi makes `EventTimeAvroPayload` of a copy-on-write table commit-time ordering, by which
/// late rows would win that did not before; here it stays event-time ordering.
pub(crate) fn upgrade_to_8(p: &mut Properties, orders_logs: bool) {
    let payload = p.get_non_empty(PAYLOAD).unwrap_or_default().to_owned();
    match Mode::of_payload(&payload) {
        Mode::Custom => set_rule(p, Mode::Custom, &payload),
        Mode::Commit if !orders_logs => set_rule(p, Mode::Commit, &payload),
        Mode::Commit => set_rule(p, Mode::Event, &format!("{PACKAGE}DefaultHoodieRecordPayload")),
        Mode::Event => set_rule(p, Mode::Event, &payload),
    }
}

fn set_rule(p: &mut Properties, mode: Mode, payload: &str) {
    p.set(MODE, mode.name());
    p.set(PAYLOAD, payload);
    let strategy = match mode {
        Mode::Event => EVENT_TIME_STRATEGY,
        Mode::Commit => COMMIT_TIME_STRATEGY,
        Mode::Custom => PAYLOAD_STRATEGY,
    };
    set_strategy(p, strategy);
}

fn set_strategy(p: &mut Properties, id: &str) {
    p.set(STRATEGY, id);
    p.set(STRATEGY_ALIAS, id);
}

/// Gives a table of version 8 the merge properties of version 9: a payload class that stands for a mode becomes that mode, with
/// the id of its strategy if that is kept.
pub(crate) fn upgrade_to_9(p: &mut Properties, keeps_strategy: bool) {
    let payload = p.get_non_empty(PAYLOAD).map(str::to_owned);
    let is_custom = p.get_non_empty(MODE).is_some_and(|mode| mode.eq_ignore_ascii_case(Mode::Custom.name()));
    let by_payload = p.get_non_empty(STRATEGY).is_none_or(|id| id == PAYLOAD_STRATEGY);
    if !is_custom {
        p.remove(STRATEGY);
    }
    let Some((payload, (mode, properties))) = payload.and_then(|class| mapped(&class).map(|known| (class, known)))
    else {
        return;
    };
    if is_custom && !by_payload {
        // A merger of the user's own; the payload class is not used.
        return;
    }
    if is_custom {
        p.set(MODE, mode.name());
        set_strategy(p, if mode == Mode::Event { EVENT_TIME_STRATEGY } else { COMMIT_TIME_STRATEGY });
        if !keeps_strategy {
            p.remove(STRATEGY);
        }
        for (key, value) in properties {
            p.set(key, value);
        }
    }
    p.remove(PAYLOAD);
    p.set(LEGACY_PAYLOAD, payload);
}
