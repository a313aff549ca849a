//! Forking: a child has only the thread that forked. A lock of the process that another thread held at that moment would
//! be held for ever in the child, so whoever forks takes them all before, and gives them back on both sides.

use std::any::Any;
use std::cell::RefCell;

use crate::{file_group, storage, timeline};

/// Locks that are held, so that they can be given back.
pub type Held = Vec<Box<dyn Any>>;

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Vec::new()) };
}

/// To be called right before a fork, by the thread that forks, which waits for nothing between.
pub fn before() {
    let mut held = Held::new();
    timeline::hold_locks(&mut held);
    file_group::base::hold_locks(&mut held);
    storage::hold_locks(&mut held);
    // Fails in a thread that ends: none that forks.
    let _ = HELD.try_with(|all| all.replace(held));
}

/// To be called right after a fork, in the parent and in the child.
pub fn after() {
    let _ = HELD.try_with(RefCell::take);
}

#[cfg(test)]
mod tests {
    #[test]
    fn locks_are_given_back() {
        super::before();
        super::after();
        super::before();
        super::after();
        let options = crate::storage::StorageOptions::new();
        assert!(crate::storage::Storage::open("memory://fork/t", &options).is_ok());
    }
}
