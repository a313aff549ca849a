//! The smallest scenario that still violates the same property.

use super::run::{Outcome, run};
use super::scenario::{Op, Scenario};

/// Runs that a search may take.
const MOST_RUNS: usize = 600;
/// Schedules that are tried for a smaller scenario: what is left out changes who is next.
const SCHEDULES: u64 = 6;

/// Leaves out of a scenario what it need not have to fail like this.
pub fn shrink(scenario: &Scenario, kind: &str, first_number: u32) -> (Scenario, Outcome) {
    let mut runs = 0;
    let mut smallest = (scenario.clone(), run(scenario, first_number));
    let mut at = 0;
    loop {
        let Some(smaller) = candidates(&smallest.0).nth(at) else { return smallest };
        at += 1;
        for schedule in 0..SCHEDULES {
            let schedule = if schedule == 0 { smaller.schedule } else { schedule };
            let tried = Scenario { schedule, ..smaller.clone() };
            let outcome = run(&tried, first_number);
            runs += 1;
            if outcome.failure.as_ref().is_some_and(|failure| failure.kind == kind) {
                (smallest, at) = ((tried, outcome), 0);
                break;
            }
        }
        if runs > MOST_RUNS {
            return smallest;
        }
    }
}

/// Scenarios with one thing less, the largest ones first.
fn candidates(from: &Scenario) -> impl Iterator<Item = Scenario> + '_ {
    let actors = (0..from.actors.len()).filter(|_| from.actors.len() > 1).map(|actor| without_actor(from, actor));
    let faults = (0..from.faults.len()).map(|fault| {
        let mut less = from.clone();
        less.faults.remove(fault);
        less
    });
    let places = || from.actors.iter().enumerate().flat_map(|(a, plan)| (0..plan.ops.len()).map(move |o| (a, o)));
    let ops = places().filter(|(actor, _)| from.actors[*actor].ops.len() > 1).map(|(actor, op)| {
        let mut less = from.clone();
        less.actors[actor].ops.remove(op);
        less
    });
    let rows = places().filter_map(|(actor, op)| {
        let mut less = from.clone();
        match &mut less.actors[actor].ops[op].1 {
            Op::Upsert(rows) if rows.len() > 1 => drop(rows.pop()),
            _ => return None,
        }
        Some(less)
    });
    let pauses = places().filter(|(actor, op)| from.actors[*actor].ops[*op].0 > 0).map(|(actor, op)| {
        let mut less = from.clone();
        less.actors[actor].ops[op].0 = 0;
        less
    });
    let skews = (0..from.actors.len()).filter(|actor| from.actors[*actor].skew_ms != 0).map(|actor| {
        let mut less = from.clone();
        less.actors[actor].skew_ms = 0;
        less
    });
    actors.chain(faults).chain(ops).chain(rows).chain(pauses).chain(skews)
}

fn without_actor(from: &Scenario, actor: usize) -> Scenario {
    let mut less = from.clone();
    less.actors.remove(actor);
    less.faults.retain(|fault| fault.actor != actor);
    less.faults.iter_mut().filter(|fault| fault.actor > actor).for_each(|fault| fault.actor -= 1);
    less
}

/// A failure as a developer wants to see it: what is wrong, the scenario, and the requests that change something.
pub fn report(seed: u64, scenario: &Scenario, outcome: &Outcome) -> String {
    let Some(failure) = &outcome.failure else { return format!("seed {seed} does not fail again") };
    let mut text = format!("seed {seed}, {}: {}\n", failure.kind, failure.text);
    for (key, value) in &scenario.options {
        text += &format!("  {key}={value}\n");
    }
    for (number, plan) in scenario.actors.iter().enumerate() {
        text += &format!("  actor {number}, clock {:+} ms: {:?}\n", plan.skew_ms, plan.ops);
    }
    for fault in &scenario.faults {
        let locked = if fault.is_locked { " under the lock" } else { "" };
        text += &format!("  fault: request {}{locked} of actor {}: {:?}\n", fault.at, fault.actor, fault.kind);
    }
    text += "     ms  actor.operation  request\n";
    let quiet = |outcome: &str| matches!(outcome, "ok" | "not there");
    for step in outcome.steps.iter().filter(|step| step.request != "get" || !quiet(&step.outcome)) {
        let (who, what) = (format!("{}.{}", step.actor, step.op), step.request);
        text += &format!("{:7}  {who:15}  {what} {}: {}\n", step.now, step.path, step.outcome);
    }
    text
}
