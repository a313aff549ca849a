//! What the table has to hold: the effects of the published commits, in the order of their completion.

use std::collections::BTreeMap;

use super::scenario::Op;
use super::world::{Actor, State};

/// Keys with the ordering value and the value of their rows.
pub type Rows = BTreeMap<String, (i64, String)>;

#[derive(Default)]
pub struct Model {
    /// The rows that may be there after each commit. There are several possibilities where a delete did not find a key
    /// that was inserted meanwhile.
    pub versions: Vec<Vec<Rows>>,
    /// The newest time that any action was requested or completed at.
    newest: String,
    /// Requested times of writes, with the actor and the operation.
    requested: Vec<(String, usize, usize)>,
    /// The same of commits.
    pub commits: Vec<(String, usize, usize)>,
}

/// Operations of commits that change rows, in their metadata.
const WRITES: [&str; 2] = ["UPSERT", "DELETE"];

impl Model {
    /// What the table may hold now.
    pub fn now(&self) -> Vec<Rows> {
        self.versions.last().cloned().unwrap_or_else(|| vec![Rows::new()])
    }

    /// Readers see these rows now.
    pub fn seen(&mut self, rows: &Rows) {
        if let Some(last) = self.versions.last_mut() {
            last.retain(|possible| possible == rows);
        }
    }

    /// The versions since there were so many of them, with the one of that time.
    pub fn since(&self, first: usize) -> Vec<Rows> {
        let empty = (first == 0).then(Rows::new);
        empty.into_iter().chain(self.versions[first.saturating_sub(1)..].iter().flatten().cloned()).collect()
    }
}

/// The rows after an operation. `since`: the versions that it may have looked at.
fn after(rows: Rows, actor: usize, number: usize, op: &Op, since: &[Rows]) -> Vec<Rows> {
    let mut possible = vec![rows];
    match op {
        Op::Upsert(written) => {
            for (key, ts) in written {
                let rows = &mut possible[0];
                if rows.get(key).is_none_or(|(before, _)| ts >= before) {
                    rows.insert(key.clone(), (*ts, value(actor, number)));
                }
            }
        }
        Op::Delete(keys) => {
            for key in keys {
                let mut without = possible.clone();
                without.iter_mut().for_each(|rows| drop(rows.remove(key)));
                // It removes what it found. A key that was not there and is inserted meanwhile may stay.
                let may_stay = since.iter().any(|rows| !rows.contains_key(key));
                if !may_stay {
                    possible.clear();
                }
                possible.extend(without);
                possible.dedup();
            }
        }
        _ => {}
    }
    possible
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
        if name.contains('/') {
            return;
        }
        let Some((requested, completed)) = times.split_once('_') else {
            match action {
                "rollback.requested" => self.rolled_back(actor, times, content),
                "commit.requested" | "deltacommit.requested" => {
                    let number = self.actors[actor].op.as_ref().map_or(0, |(number, _)| *number);
                    self.model.requested.push((times.to_owned(), actor, number));
                }
                _ => {}
            }
            if action.ends_with(".requested") {
                self.time_goes_on(name, times);
            }
            return;
        };
        self.time_goes_on(name, completed);
        let is_commit = matches!(action, "commit" | "deltacommit" | "replacecommit");
        if is_commit && WRITES.iter().any(|operation| has(operation)) {
            self.committed(actor, requested);
        }
    }

    /// Looks at what was just deleted.
    pub fn deleted(&mut self, path: &str) {
        let Some(name) = path.strip_prefix("small/.hoodie/timeline/") else { return };
        // A write that its writer takes back: another one may still see its instant.
        self.model.requested.retain(|(requested, ..)| !name.starts_with(requested.as_str()));
    }

    fn time_goes_on(&mut self, name: &str, time: &str) {
        if self.model.newest.as_str() >= time {
            let newest = self.model.newest.clone();
            self.fail("times", format!("{name} is no later than {newest}, which was there before"));
        }
        self.model.newest = time.to_owned();
    }

    /// A rollback was planned. `plan`: its content, which names the write.
    fn rolled_back(&mut self, actor: usize, time: &str, plan: &[u8]) {
        let is_named = |time: &str| plan.windows(time.len()).any(|window| window == time.as_bytes());
        let works = |writer: usize, number: usize| {
            let of = &self.actors[writer];
            !of.dead && !of.disturbed && of.op.as_ref().is_some_and(|(current, _)| *current == number)
        };
        let mut live = self.model.requested.iter().filter(|(requested, ..)| is_named(requested));
        let live = live.find(|(_, writer, number)| *writer != actor && works(*writer, *number)).cloned();
        if let Some((requested, writer, number)) = live {
            let text = format!("{time} of actor {actor} rolls {requested} back: operation {number} of actor {writer}");
            self.fail("rollback", format!("{text}, which goes on"));
        }
    }

    fn committed(&mut self, actor: usize, requested: &str) {
        let Actor { op: Some((number, op)), first, .. } = &self.actors[actor] else {
            return self.fail("commit", format!("actor {actor} commits {requested} without an operation"));
        };
        let (number, op, first) = (*number, op.clone(), *first);
        if !op.is_write() || self.model.commits.iter().any(|(_, a, o)| (*a, *o) == (actor, number)) {
            return self.fail("commit", format!("actor {actor} commits {requested} in operation {number}, {op:?}"));
        }
        let since = self.model.since(first);
        let now = self.model.now().into_iter().flat_map(|rows| after(rows, actor, number, &op, &since));
        let now = now.collect();
        self.model.versions.push(now);
        self.model.commits.push((requested.to_owned(), actor, number));
    }
}
