//! The watchers of one thread.
use std::ops::{Deref, DerefMut};
use std::slice;

/// A watcher of a thread, and the place of the thread among those that it watches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscriber {
    pub(super) watcher: u32,
    pub(super) place: u32,
}

/// The watchers of a thread in any order. Nearly always one, which then takes no memory of its own.
#[derive(Debug, Default)]
pub(super) enum Subscribers {
    #[default]
    None,
    One(Subscriber),
    /// In a box, because that is smaller.
    #[expect(clippy::box_collection, reason = "a topic has 16 bytes for it instead of 24")]
    Many(Box<Vec<Subscriber>>),
}

impl Subscribers {
    pub(super) fn push(&mut self, subscriber: Subscriber) {
        match self {
            Subscribers::None => *self = Subscribers::One(subscriber),
            Subscribers::One(first) => *self = Subscribers::Many(Box::new(vec![*first, subscriber])),
            Subscribers::Many(all) => all.push(subscriber),
        }
    }

    /// Removes one; the last one moves to its place.
    pub(super) fn swap_remove(&mut self, place: usize) {
        match self {
            Subscribers::Many(all) => {
                all.swap_remove(place);
                if let [last] = all[..] {
                    *self = Subscribers::One(last);
                }
            }
            Subscribers::One(_) if place == 0 => *self = Subscribers::None,
            Subscribers::None | Subscribers::One(_) => panic!("there is no subscriber {place}"),
        }
    }
}

impl Deref for Subscribers {
    type Target = [Subscriber];

    fn deref(&self) -> &[Subscriber] {
        match self {
            Subscribers::None => &[],
            Subscribers::One(one) => slice::from_ref(one),
            Subscribers::Many(all) => all,
        }
    }
}

impl DerefMut for Subscribers {
    fn deref_mut(&mut self) -> &mut [Subscriber] {
        match self {
            Subscribers::None => &mut [],
            Subscribers::One(one) => slice::from_mut(one),
            Subscribers::Many(all) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a vector.
    #[test]
    fn they_are_kept_as_in_a_vector() {
        let (mut subscribers, mut expected) = (Subscribers::default(), Vec::new());
        let numbers = |all: &[Subscriber]| all.iter().map(|one| one.watcher).collect::<Vec<_>>();
        let steps =
            [None, None, Some(0), Some(0), None, None, None, Some(1), Some(1), Some(0), None, None, None, Some(0)];
        for (watcher, removed) in (0..).zip(steps) {
            match removed {
                None => {
                    subscribers.push(Subscriber { watcher, place: 0 });
                    expected.push(watcher);
                }
                Some(place) => {
                    subscribers.swap_remove(place);
                    expected.swap_remove(place);
                }
            }
            subscribers.iter_mut().for_each(|subscriber| subscriber.place += 1);
            assert_eq!(numbers(&subscribers), expected);
            assert!(subscribers.iter().all(|subscriber| subscriber.place > 0));
        }
    }
}
