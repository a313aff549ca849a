//! One run of a scenario, and the shortest one that fails like it.

use hoodoo::client;
use hoodoo::format::instant::Action;
use hoodoo::services::verify::{Problem, Repair, Severity, verify};

use hoodoo::write::Operation;

use super::actor::{Site, read, run as run_actor};
use super::model::value;
use super::scenario::Scenario;
use super::world::{Failure, Step};
use crate::small_table::write_batch;

/// What came of a run.
pub struct Outcome {
    pub failure: Option<Failure>,
    pub steps: Vec<Step>,
}

/// Runs a scenario. `first_number`: of its processes, which no run beside this one uses.
pub fn run(scenario: &Scenario, first_number: u32) -> Outcome {
    let site = Site::new(scenario, first_number);
    site.create();
    std::thread::scope(|scope| {
        for (actor, plan) in scenario.actors.iter().enumerate() {
            let site = &site;
            scope.spawn(move || run_actor(site, actor, plan));
        }
        site.world.finish();
    });
    if site.world.state().failure.is_none() {
        settle(&site);
    }
    let mut state = site.world.state();
    Outcome { failure: state.failure.take(), steps: std::mem::take(&mut state.steps) }
}

/// Much later, the next writer and the table services find a table that is whole.
fn settle(site: &Site) {
    site.world.state().now += 1_000_000;
    site.compare("in the end");
    let done = site.aside(|| -> hoodoo::Result<Vec<String>> {
        let table = site.look();
        let mut problems = Vec::new();
        // Writes to file groups of a clustering that is planned wait for its end.
        client::cluster(&table, None, false)?;
        let batch = super::actor::rows(&[("k0".to_owned(), 5_000), ("last".to_owned(), 1)], &value(99, 0));
        write_batch(&table, Operation::Upsert, batch)?;
        if table.config().table_type().name() == "MERGE_ON_READ" {
            client::compact(&table, None)?;
        }
        client::cluster(&table, None, false)?;
        client::clean(&table)?;
        let table = site.look();
        let mut expected = site.world.state().model.now();
        for rows in &mut expected {
            rows.insert("k0".to_owned(), (5_000, value(99, 0)));
            rows.insert("last".to_owned(), (1, value(99, 0)));
        }
        match read(&table)? {
            Ok(seen) if expected.contains(&seen) => {}
            other => problems.push(format!("after the last write, readers see {other:?}, and not {expected:?}")),
        }
        let timeline = table.timeline()?;
        let failed = timeline.pending().filter(|i| matches!(i.action, Action::Commit | Action::DeltaCommit));
        problems.extend(failed.map(|i| format!("{i} is left on the timeline")));
        // What the next change of a property puts in order, and what a process left that ended: readers do not see it.
        let may_be_left = |problem: &Problem| match problem.repair {
            Some(Repair::Properties) => true,
            Some(Repair::DeleteFile) => problem.severity == Severity::Warning && !site.is_calm(),
            _ => false,
        };
        let counts = |problem: &&Problem| !may_be_left(problem);
        problems.extend(verify(&table)?.problems.iter().filter(counts).map(|problem| format!("{problem:?}")));
        Ok(problems)
    });
    let mut state = site.world.state();
    match done {
        Err(e) => state.fail("end", format!("in the end, the table is not usable: {e}")),
        Ok(problems) if problems.is_empty() => {}
        Ok(problems) => state.fail("end", format!("in the end: {}", problems.join("; "))),
    }
}
