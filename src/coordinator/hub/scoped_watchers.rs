//! Counts the watches of scopes that see a thread, without checking each watch: there may be a hundred thousand.
use crate::core::scope::Scope;
use std::collections::{BTreeMap, HashMap};

/// The areas of all scopes that are watched, each with how many watch it. No two areas of one scope have a thread in common.
#[derive(Debug, Default)]
pub(super) struct ScopedWatchers {
    ids: HashMap<Box<str>, u32>,
    prefixes: HashMap<Box<str>, u32>,
    /// The lengths of the prefixes, in bytes, and how many prefixes have each.
    lengths: BTreeMap<usize, u32>,
}

impl ScopedWatchers {
    pub(super) fn add(&mut self, scope: &Scope) {
        for area in scope.areas().unwrap_or_default() {
            let counts = if area.is_prefix() { &mut self.prefixes } else { &mut self.ids };
            if let Some(count) = counts.get_mut(area.text()) {
                *count += 1;
                continue;
            }
            counts.insert(area.text().into(), 1);
            if area.is_prefix() {
                *self.lengths.entry(area.text().len()).or_default() += 1;
            }
        }
    }

    pub(super) fn remove(&mut self, scope: &Scope) {
        for area in scope.areas().unwrap_or_default() {
            let counts = if area.is_prefix() { &mut self.prefixes } else { &mut self.ids };
            let Some(count) = counts.get_mut(area.text()) else { continue };
            *count -= 1;
            if *count > 0 {
                continue;
            }
            counts.remove(area.text());
            let length = area.text().len();
            if area.is_prefix()
                && let Some(count) = self.lengths.get_mut(&length)
            {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&length);
                }
            }
        }
    }

    /// How many see the thread with this id.
    pub(super) fn of(&self, id: &str) -> u32 {
        let beginnings = self.lengths.keys().filter_map(|&length| id.get(..length));
        let by_prefix = beginnings.filter_map(|beginning| self.prefixes.get(beginning));
        self.ids.get(id).into_iter().chain(by_prefix).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::types::ThreadId;

    /// Against the plain meaning.
    #[test]
    fn the_count_is_the_number_of_scopes_that_contain_the_thread() {
        let scopes: [(&[&str], &[&str]); 6] = [
            (&["a"], &["b"]),
            (&["ab"], &["a"]),
            (&[], &["a"]),
            (&["ä/1"], &["ä/"]),
            (&["b"], &["ba"]),
            (&["a"], &["b"]),
        ];
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let scopes = scopes.map(|(ids, prefixes)| Scope::of(&owned(ids), &owned(prefixes)).unwrap());
        let mut watchers = ScopedWatchers::default();
        scopes.iter().for_each(|scope| watchers.add(scope));
        for removed in 0..=scopes.len() {
            for id in ["a", "ab", "abc", "b", "ba", "bb", "c", "ä", "ä/", "ä/1", "ã"] {
                let thread = ThreadId::parse("", id).unwrap();
                let seeing = scopes[removed..].iter().filter(|scope| scope.contains(&thread)).count();
                assert_eq!(watchers.of(id) as usize, seeing, "{id} without the first {removed}");
            }
            scopes.get(removed).into_iter().for_each(|scope| watchers.remove(scope));
        }
        assert!(watchers.ids.is_empty() && watchers.prefixes.is_empty() && watchers.lengths.is_empty());
    }
}
