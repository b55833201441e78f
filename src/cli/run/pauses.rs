//! The elicitations that were open while a command ran, for its report: from a watch of its threads.
//!
//! 1. It is bounded: the first [`MAX_SHOWN`] are kept, further ones are counted.
//! 2. It is as complete as a watch: an elicitation that opens and closes between two received states is not seen. The
//!    paused time is not computed from it.
//! 3. Each elicitation has the end of the pause that it belongs to; none while that pause is open, or if its end was
//!    missed.
use super::super::format;
use crate::client::{Client, Elicitation, Event, GetPauseStateRequest, PauseState};
use prost_types::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// The maximum number of elicitations in a report: with every field at its limit they take 160 kB.
const MAX_SHOWN: usize = 100;
/// The maximum number of ids that are remembered in order to count each one once.
const MAX_COUNTED: usize = 10_000;

/// The timeout for requesting the end of a pause after the command has ended.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The pauses that were seen so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    ids: HashSet<String>,
    shown: Vec<Shown>,
}

#[derive(Debug)]
struct Shown {
    elicitation: Elicitation,
    /// The pause that it is part of, by its start; `None`: that pause is over.
    pause: Option<Timestamp>,
    /// How that pause ended, if it is known.
    ended_by: Option<&'static str>,
}

impl Pauses {
    /// Watches the threads until the runtime ends. Needs a tokio runtime.
    pub(super) fn follow(&self, client: &Client, thread_ids: &[String]) {
        let mut watch = client.watch().with_elicitations().as_observer();
        for thread_id in thread_ids {
            // The ids were checked when the command line was parsed.
            watch.add(thread_id).unwrap_or_default();
        }
        let pauses = self.clone();
        tokio::spawn(async move {
            loop {
                if let Event::State(update) = watch.next().await {
                    pauses.learn(update.state);
                }
            }
        });
    }

    /// Requests the threads whose pauses were open in the last state: a command often ends as soon as its question is
    /// answered, before the watch reports it.
    pub(super) async fn complete(&self, client: &Client) {
        let open: BTreeSet<_> = {
            let seen = self.seen();
            let open = seen.shown.iter().filter(|shown| shown.pause.is_some());
            open.map(|shown| shown.elicitation.thread_id.clone()).collect()
        };
        let ask = async {
            for thread_id in open {
                if let Ok(response) = client.get_pause_state(GetPauseStateRequest { thread_id }).await {
                    response.pause_state.into_iter().for_each(|state| self.learn(state));
                }
            }
        };
        // Without an answer the report has no end of these pauses.
        let _ = timeout(REQUEST_TIMEOUT, ask).await;
    }

    fn learn(&self, state: PauseState) {
        let mut seen = self.seen();
        let ended_by = format::pause_end(&state);
        for shown in seen.shown.iter_mut().filter(|shown| shown.elicitation.thread_id == state.thread_id) {
            if shown.pause.is_some() && shown.pause != state.pause_start_time {
                // If another pause is open already, the end of this one was missed.
                (shown.pause, shown.ended_by) = (None, ended_by);
            }
        }
        for elicitation in state.elicitations {
            let is_new = seen.ids.len() < MAX_COUNTED && seen.ids.insert(elicitation.elicitation_id.clone());
            if is_new && seen.shown.len() < MAX_SHOWN {
                seen.shown.push(Shown { elicitation, pause: state.pause_start_time, ended_by: None });
            }
        }
    }

    /// In the order in which they were seen.
    pub(super) fn shown(&self) -> Vec<Value> {
        let shown = |Shown { elicitation, ended_by, .. }: &Shown| {
            let Elicitation { thread_id, holder, reason, .. } = elicitation;
            json!({ "thread_id": thread_id, "holder": holder, "reason": reason, "ended_by": ended_by })
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
    use crate::client::PauseEnd;

    fn state(start: i64, elicitations: impl IntoIterator<Item = usize>) -> PauseState {
        let numbered = |number: usize| Elicitation { elicitation_id: number.to_string(), ..Elicitation::default() };
        let pause_start_time = Some(Timestamp { seconds: start, nanos: 0 });
        let elicitations = elicitations.into_iter().map(numbered).collect();
        PauseState { paused: true, pause_start_time, elicitations, ..PauseState::default() }
    }

    #[test]
    fn each_elicitation_is_shown_once_and_the_first_hundred_of_many() {
        let pauses = Pauses::default();
        pauses.learn(state(1, [0, 1]));
        pauses.learn(state(1, [1, 2]));
        assert_eq!((pauses.shown().len(), pauses.omitted()), (3, 0));
        pauses.learn(state(1, 0..MAX_COUNTED + 5));
        assert_eq!((pauses.shown().len(), pauses.omitted()), (MAX_SHOWN, MAX_COUNTED - MAX_SHOWN));
    }

    #[test]
    fn each_elicitation_has_the_end_of_its_pause() {
        let pauses = Pauses::default();
        let ended_by = || pauses.shown().iter().map(|shown| shown["ended_by"].clone()).collect::<Vec<_>>();
        let running = |end: PauseEnd| PauseState { last_pause_end: end.into(), ..PauseState::default() };
        pauses.learn(state(1, [0, 1]));
        pauses.learn(state(1, [1]));
        assert_eq!(ended_by(), [Value::Null, Value::Null], "it is open");
        pauses.learn(running(PauseEnd::MaxPause));
        pauses.learn(state(2, [2]));
        pauses.learn(state(3, [3]));
        pauses.learn(running(PauseEnd::Decremented));
        let expected = ["max_pause".into(), "max_pause".into(), Value::Null, "decremented".into()];
        assert_eq!(ended_by(), expected, "the end of the second pause was missed");
        let other = PauseState { thread_id: "other".into(), ..running(PauseEnd::Expired) };
        pauses.learn(state(4, [4]));
        pauses.learn(other);
        assert_eq!(ended_by()[4], Value::Null, "of another thread");
    }
}
