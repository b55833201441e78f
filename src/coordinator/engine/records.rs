//! The records of all threads, by thread.
//!
//! The records stay where the store has read them; a hash table of their positions finds them. A hash table of the
//! records themselves would take twice the memory and a fifth of the start of a server with a million threads.
use crate::core::Record;
use crate::core::types::ThreadId;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

#[derive(Debug, Default)]
pub(super) struct Records {
    /// `None`: the place is free.
    places: Vec<Option<Record>>,
    free: Vec<u32>,
    /// The places of the records, by thread.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// Each thread once.
impl From<Vec<Record>> for Records {
    fn from(records: Vec<Record>) -> Self {
        // Without a copy: `Option<Record>` has the size of `Record`.
        let places: Vec<_> = records.into_iter().map(Some).collect();
        let mut records = Records { places, ..Records::default() };
        records.index.reserve(records.places.len(), |_| unreachable!("the table is empty"));
        for (place, record) in records.places.iter().enumerate() {
            let hash = hash(&records.hasher, record.as_ref());
            records.index.insert_unique(hash, small(place), |_| unreachable!("there is room for all"));
        }
        records
    }
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, thread: &ThreadId) -> Option<&Record> {
        self.places[self.find(thread)? as usize].as_ref()
    }

    pub(super) fn get_mut(&mut self, thread: &ThreadId) -> Option<&mut Record> {
        let place = self.find(thread)?;
        self.places[place as usize].as_mut()
    }

    pub(super) fn get_or_insert_with(&mut self, thread: &ThreadId, make: impl FnOnce() -> Record) -> &mut Record {
        let place = self.find(thread).unwrap_or_else(|| self.insert(thread));
        self.places[place as usize].get_or_insert_with(make)
    }

    pub(super) fn remove(&mut self, thread: &ThreadId) {
        let is_it = |&place: &u32| is_of(self.places[place as usize].as_ref(), thread);
        if let Ok(found) = self.index.find_entry(self.hasher.hash_one(thread), is_it) {
            let (place, _) = found.remove();
            self.places[place as usize] = None;
            self.free.push(place);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Record> {
        self.places.iter().flatten()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.places.iter_mut().flatten()
    }

    /// Removes the records for which `keep` returns `false`.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Record) -> bool) {
        for place in 0..self.places.len() {
            if let Some(record) = &mut self.places[place]
                && !keep(record)
            {
                let thread = record.thread.clone();
                self.remove(&thread);
            }
        }
    }

    fn find(&self, thread: &ThreadId) -> Option<u32> {
        let is_it = |&place: &u32| is_of(self.places[place as usize].as_ref(), thread);
        self.index.find(self.hasher.hash_one(thread), is_it).copied()
    }

    /// Reserves a place for a thread; the caller creates its record.
    fn insert(&mut self, thread: &ThreadId) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            small(self.places.len() - 1)
        });
        let (places, hasher) = (&self.places, &self.hasher);
        self.index
            .insert_unique(hasher.hash_one(thread), place, |&place| hash(hasher, places[place as usize].as_ref()));
        place
    }
}

fn is_of(record: Option<&Record>, thread: &ThreadId) -> bool {
    record.is_some_and(|record| record.thread == *thread)
}

fn hash(hasher: &DefaultHashBuilder, record: Option<&Record>) -> u64 {
    hasher.hash_one(&record.expect("a place in the table has a record").thread)
}

/// A place as 32 bits. A record takes over 100 bytes, so memory runs out long before 2^32 records.
fn small(place: usize) -> u32 {
    u32::try_from(place).expect("fewer than 2^32 threads fit into memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Timestamp;
    use std::collections::BTreeMap;

    const NOW: Timestamp = Timestamp { boot: 0, wall: 0 };

    fn id(number: u64) -> ThreadId {
        ThreadId::parse("thread_id", &number.to_string()).unwrap()
    }

    fn record(number: u64, revision: u64) -> Record {
        Record::new(id(number), revision, NOW)
    }

    /// Compared with a map; some numbers occur several times.
    #[test]
    fn they_are_found_as_in_a_map() {
        let mut records = Records::from((0..40).map(|number| record(number, 1)).collect::<Vec<_>>());
        let mut expected: BTreeMap<u64, u64> = (0..40).map(|number| (number, 1)).collect();
        for step in 2..2_000_u64 {
            let number = step * step % 101;
            match step % 5 {
                0 => {
                    records.remove(&id(number));
                    expected.remove(&number);
                }
                1 => {
                    records.get_mut(&id(number)).into_iter().for_each(|record| record.header.revision = step);
                    expected.get_mut(&number).into_iter().for_each(|revision| *revision = step);
                }
                _ => {
                    records.get_or_insert_with(&id(number), || record(number, step));
                    expected.entry(number).or_insert(step);
                }
            }
            if step % 500 == 0 {
                records.retain(|record| record.header.revision % 3 > 0);
                expected.retain(|_, revision| *revision % 3 > 0);
            }
            assert_eq!(records.len(), expected.len());
            for number in 0..101 {
                let found = records.get(&id(number)).map(|record| (record.thread.clone(), record.header.revision));
                assert_eq!(found, expected.get(&number).map(|revision| (id(number), *revision)));
            }
            assert_eq!((records.values().count(), records.values_mut().count()), (expected.len(), expected.len()));
        }
        assert!(records.places.len() <= 101, "places are used again");
    }

    #[test]
    fn the_records_of_a_store_are_not_copied() {
        let read: Vec<_> = (0..1_000).map(|number| record(number, 1)).collect();
        let at = read.as_ptr().addr();
        assert_eq!(Records::from(read).places.as_ptr().addr(), at);
    }
}
