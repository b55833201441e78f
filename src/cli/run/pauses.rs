//! The elicitations that were open while a command ran, for its report: from a watch of its threads.
//!
//! 1. It is bounded: the first [`MAX_SHOWN`] are kept, further ones are counted.
//! 2. It is as complete as a watch: an elicitation that opens and closes between two states that arrive is not seen. The
//!    paused time does not come from here.
use crate::client::{Client, Elicitation, Event};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The maximum number of elicitations in a report: with every field at its limit they take 160 kB.
const MAX_SHOWN: usize = 100;
/// The maximum number of ids that are remembered in order to count each one once.
const MAX_COUNTED: usize = 10_000;

/// What was seen so far. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    ids: HashSet<String>,
    shown: Vec<Elicitation>,
}

impl Pauses {
    /// Watches the threads until the runtime ends. Needs a tokio runtime.
    pub(super) fn follow(&self, client: &Client, thread_ids: &[String]) {
        let mut watch = client.watch().with_elicitations();
        for thread_id in thread_ids {
            // The ids were checked when the command line was parsed.
            watch.add(thread_id).unwrap_or_default();
        }
        let pauses = self.clone();
        tokio::spawn(async move {
            loop {
                if let Event::State(update) = watch.next().await {
                    pauses.add(update.state.elicitations);
                }
            }
        });
    }

    fn add(&self, open: Vec<Elicitation>) {
        let mut seen = self.seen();
        for elicitation in open {
            let is_new = seen.ids.len() < MAX_COUNTED && seen.ids.insert(elicitation.elicitation_id.clone());
            if is_new && seen.shown.len() < MAX_SHOWN {
                seen.shown.push(elicitation);
            }
        }
    }

    /// In the order in which they were seen.
    pub(super) fn shown(&self) -> Vec<Value> {
        let shown = |elicitation: &Elicitation| {
            let Elicitation { thread_id, holder, reason, .. } = elicitation;
            json!({ "thread_id": thread_id, "holder": holder, "reason": reason })
        };
        self.seen().shown.iter().map(shown).collect()
    }

    /// How many more were seen.
    pub(super) fn omitted(&self) -> usize {
        let seen = self.seen();
        seen.ids.len() - seen.shown.len()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_elicitation_is_shown_once_and_the_first_hundred_of_many() {
        let pauses = Pauses::default();
        let numbered = |number: usize| Elicitation { elicitation_id: number.to_string(), ..Elicitation::default() };
        pauses.add(vec![numbered(0), numbered(1)]);
        pauses.add(vec![numbered(1), numbered(2)]);
        assert_eq!((pauses.shown().len(), pauses.omitted()), (3, 0));
        pauses.add((0..MAX_COUNTED + 5).map(numbered).collect());
        assert_eq!((pauses.shown().len(), pauses.omitted()), (MAX_SHOWN, MAX_COUNTED - MAX_SHOWN));
    }
}
