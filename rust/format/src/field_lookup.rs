//! Finding columns by name, many of them.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use arrow::datatypes::FieldRef;

/// Most fields among which a search from the first to the last is quicker than a map of their names.
const FEW: usize = 16;

/// Finds fields by name. Whoever looks for each column of a schema among those of another would take the square of their
/// number by searching from the first each time, and tables of thousands of columns are not rare.
pub struct FieldLookup<'a> {
    fields: &'a [FieldRef],
    /// The field behind the last one that was found: schemas mostly have their columns in one order.
    next: Cell<usize>,
    by_name: OnceCell<HashMap<&'a str, usize>>,
}

impl<'a> FieldLookup<'a> {
    /// A lookup among these fields.
    pub fn new(fields: &'a [FieldRef]) -> Self {
        Self { fields, next: Cell::new(0), by_name: OnceCell::new() }
    }

    /// The position of a field with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        let is_it = |at: usize| self.fields.get(at).is_some_and(|field| field.name() == name);
        let next = self.next.get();
        let found = if is_it(next) {
            Some(next)
        } else if self.fields.len() <= FEW {
            (0..self.fields.len()).find(|at| is_it(*at))
        } else {
            self.by_name.get_or_init(|| self.map()).get(name).copied()
        };
        if let Some(at) = found {
            self.next.set(at + 1);
        }
        found
    }

    /// The field with this name.
    pub fn get(&self, name: &str) -> Option<&'a FieldRef> {
        self.fields.get(self.position(name)?)
    }

    /// Whether there is a field with this name.
    pub fn has(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    fn map(&self) -> HashMap<&'a str, usize> {
        // Of several with one name, the first counts.
        self.fields.iter().enumerate().rev().map(|(at, field)| (field.name().as_str(), at)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn fields_are_found_in_any_order() {
        for count in [3usize, FEW, 100] {
            let fields: Vec<FieldRef> =
                (0..count).map(|i| Arc::new(Field::new(format!("c{i}"), DataType::Int64, true)) as FieldRef).collect();
            let lookup = FieldLookup::new(&fields);
            for at in (0..count).chain((0..count).rev()).chain((0..count).step_by(2)) {
                assert_eq!(lookup.position(&format!("c{at}")), Some(at));
                assert!(!lookup.has("other"));
                assert_eq!(lookup.get(&format!("c{at}")).unwrap().name(), &format!("c{at}"));
            }
        }
    }
}
