//! What the table has to hold: the effects of the published commits, in the order of their completion.

use std::collections::BTreeMap;

use super::scenario::Op;
use super::world::{Actor, State};

/// Keys with the ordering value and the value of their rows.
pub type Rows = BTreeMap<String, (i64, String)>;

#[derive(Default)]
pub struct Model {
    /// The rows after each commit; the first ones are those before all.
    pub versions: Vec<Rows>,
    /// Completion times of all actions, in the order in which they were published.
    completed: Vec<String>,
    /// Requested times of commits, with the actor and the operation.
    pub commits: Vec<(String, usize, usize)>,
}

/// Operations of commits that change rows, in their metadata.
const WRITES: [&str; 2] = ["UPSERT", "DELETE"];

impl Model {
    pub fn now(&self) -> Rows {
        self.versions.last().cloned().unwrap_or_default()
    }
}

/// The rows after an operation.
fn after(mut rows: Rows, actor: usize, number: usize, op: &Op) -> Rows {
    match op {
        Op::Upsert(written) => {
            for (key, ts) in written {
                if rows.get(key).is_none_or(|(before, _)| ts >= before) {
                    rows.insert(key.clone(), (*ts, value(actor, number)));
                }
            }
        }
        Op::Delete(keys) => rows.retain(|key, _| !keys.contains(key)),
        _ => {}
    }
    rows
}

/// The value of the rows that an operation writes.
pub fn value(actor: usize, number: usize) -> String {
    format!("actor {actor}, operation {number}")
}

impl State {
    /// Looks at what was just written.
    pub fn written(&mut self, actor: usize, path: &str, content: &[u8]) {
        let has = |text: &str| content.windows(text.len()).any(|window| window == text.as_bytes());
        if path == "small/.hoodie/.locks/table_lock.json" {
            let is_taken = has("\"expired\":false");
            self.actors[actor].holds_lock = is_taken;
            return;
        }
        let Some(name) = path.strip_prefix("small/.hoodie/timeline/") else { return };
        let Some((times, action)) = name.split_once('.') else { return };
        let Some((requested, completed)) = times.split_once('_') else { return };
        if name.contains('/') {
            return;
        }
        if self.model.completed.last().is_some_and(|last| last.as_str() >= completed) {
            self.fail(
                "times",
                format!("{name} completes no later than {}", self.model.completed[self.model.completed.len() - 1]),
            );
        }
        self.model.completed.push(completed.to_owned());
        let is_commit = matches!(action, "commit" | "deltacommit" | "replacecommit");
        if is_commit && WRITES.iter().any(|operation| has(operation)) {
            self.committed(actor, requested);
        }
    }

    fn committed(&mut self, actor: usize, requested: &str) {
        let Actor { op: Some((number, op)), .. } = &self.actors[actor] else {
            return self.fail("commit", format!("actor {actor} commits {requested} without an operation"));
        };
        let (number, op) = (*number, op.clone());
        if !op.is_write() || self.model.commits.iter().any(|(_, a, o)| (*a, *o) == (actor, number)) {
            return self.fail("commit", format!("actor {actor} commits {requested} in operation {number}, {op:?}"));
        }
        let rows = after(self.model.now(), actor, number, &op);
        self.model.versions.push(rows);
        self.model.commits.push((requested.to_owned(), actor, number));
    }
}
