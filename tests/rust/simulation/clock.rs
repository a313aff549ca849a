//! The clock of an actor: the time of the world, somewhat off.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hoodoo::timeline::{Clock, Timer};

use super::world::World;

pub struct ActorClock {
    pub world: Arc<World>,
    /// `None`: not scheduled.
    pub actor: Option<usize>,
    pub skew_ms: i64,
    last: Mutex<i64>,
}

impl ActorClock {
    pub fn new(world: &Arc<World>, actor: Option<usize>, skew_ms: i64) -> Arc<Self> {
        Arc::new(Self { world: world.clone(), actor, skew_ms, last: Mutex::new(0) })
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

impl Clock for ActorClock {
    fn now_ms(&self) -> i64 {
        self.world.now() + self.skew_ms
    }

    fn sleep(&self, duration: Duration) {
        match self.actor {
            Some(actor) => self.world.pause(actor, millis(duration)),
            None => self.world.state().now += millis(duration).max(1),
        }
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.world.now()).unwrap())
    }

    fn timer(&self, every: Duration) -> Arc<dyn Timer> {
        let actor = self.actor;
        let id = actor.map(|actor| self.world.add_timer(actor, millis(every)));
        Arc::new(ActorTimer { world: self.world.clone(), actor, every: millis(every), id })
    }

    fn last_given(&self) -> &Mutex<i64> {
        &self.last
    }
}

struct ActorTimer {
    world: Arc<World>,
    actor: Option<usize>,
    every: i64,
    id: Option<u64>,
}

impl Timer for ActorTimer {
    fn run(&self, work: &mut dyn FnMut() -> bool) {
        let (Some(actor), Some(id)) = (self.actor, self.id) else { return };
        while self.world.wait_for_timer(id) {
            let again = self.world.run_timer(id, work);
            self.world.timer_done(actor, id, again.then_some(self.every));
            if !again {
                return;
            }
        }
    }

    fn stop(&self) {
        if let Some(id) = self.id {
            self.world.stop_timer(id);
        }
    }
}
