//! The open questions of a thread, and which of them have waited so long that somebody should be told.
use crate::client::PauseState;
use std::{collections::HashMap, mem::take, time::Duration};
use tokio::time::Instant;

/// What a command is told of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) reason: String,
    pub(super) holder: String,
}

/// The open questions of one thread, the oldest first.
pub(super) struct Questions {
    /// How long a question waits before somebody is told.
    after: Duration,
    open: Vec<Open>,
}

struct Open {
    elicitation_id: String,
    question: Question,
    due: Option<Instant>,
}

impl Questions {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, open: Vec::new() }
    }

    /// Takes over a state that was seen at `now`.
    pub(super) fn update(&mut self, state: &PauseState, now: Instant) {
        let before = take(&mut self.open).into_iter().map(|open| (open.elicitation_id.clone(), open));
        let mut before: HashMap<_, _> = before.collect();
        let open = state.elicitations.iter().map(|shown| {
            before.remove(&shown.elicitation_id).unwrap_or_else(|| Open {
                elicitation_id: shown.elicitation_id.clone(),
                question: Question { reason: shown.reason.clone(), holder: shown.holder.clone() },
                due: now.checked_add(self.after),
            })
        });
        self.open = open.collect();
    }

    /// The latest question.
    pub(super) fn latest(&self) -> Option<&Question> {
        self.open.last().map(|open| &open.question)
    }

    /// When somebody has to be told of the next question.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.open.iter().filter_map(|open| open.due).min()
    }

    /// The oldest question that is due at `now`. It is due once.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Question> {
        let open = self.open.iter_mut().find(|open| open.due.is_some_and(|due| due <= now))?;
        open.due = None;
        Some(open.question.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Elicitation;

    #[test]
    fn each_question_is_due_once_when_it_has_waited() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let state = |reasons: &[&str]| {
            let shown = |reason: &&str| {
                let (elicitation_id, reason) = (format!("id of {reason}"), (*reason).to_owned());
                Elicitation { elicitation_id, reason, ..Elicitation::default() }
            };
            PauseState { elicitations: reasons.iter().map(shown).collect(), ..PauseState::default() }
        };
        let mut questions = Questions::new(Duration::from_secs(10));
        let mut due = |reasons: &[&str], seconds| {
            questions.update(&state(reasons), at(seconds));
            let due = questions.take_due(at(seconds)).map(|question| question.reason);
            (due, questions.next_due())
        };
        assert_eq!(due(&["a"], 0), (None, Some(at(10))));
        assert_eq!(due(&["a", "b"], 5), (None, Some(at(10))));
        assert_eq!(due(&["a", "b"], 10), (Some("a".into()), Some(at(15))));
        assert_eq!(due(&["a", "b", "short"], 14), (None, Some(at(15))));
        assert_eq!(due(&["a", "b"], 30), (Some("b".into()), None));
        assert_eq!(due(&["b"], 40), (None, None));
        assert_eq!(due(&["b", "a"], 50), (None, Some(at(60))));
    }
}
