//! Questions about programs that a running command is about to execute: each waits for a call that can ask the person.
//!
//! 1. The command's clock is paused while one of its questions waits or is being asked. Only the thread that executes the program waits.
//! 2. An answer is valid for the same program with the same contents, arguments, directory and environment until the command ends, so that a loop asks once. A question that
//!    failed or was cancelled has no answer.
//! 3. At most [`MAX_WAITING`] wait; more are denied (G7).
//! 4. A question that has no answer after `--max-pause` is denied and withdrawn, also if it still waits for a call (G2).
//! 5. After the end of the command nobody is asked: a program of a daemon that would need a question is denied.
use super::ask::{Asked, NO_ANSWER_IN_TIME, within};
use crate::{
    client::stopwatch::Stopwatch,
    exec::policy::{Action, Asker, Prompt, Question},
};
use async_trait::async_trait;
use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, oneshot};

/// The maximum of open questions of one command.
const MAX_WAITING: usize = 100;
/// The maximum of answers that are remembered for one command.
const MAX_ANSWERS: usize = 1_000;

/// The file of a program, its arguments and its directory as texts, and the number that identifies them and the
/// environment.
type Key = (PathBuf, Vec<String>, PathBuf, u64);

/// The open questions of one command.
pub(super) struct ExecQuestions {
    line: String,
    /// The stopwatch of the command.
    stopwatch: Stopwatch,
    /// The maximum time until the answer.
    max_pause: Option<Duration>,
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ExecQuestion>,
    answers: HashMap<Key, Action>,
    has_ended: bool,
}

struct ExecQuestion {
    prompt: Prompt,
    /// `None`: the answer must not be used again.
    key: Option<Key>,
    answer: oneshot::Sender<Action>,
}

impl ExecQuestions {
    pub(super) fn new(line: String, stopwatch: Stopwatch, max_pause: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { line, stopwatch, max_pause, state: Mutex::default(), added: Notify::new() })
    }

    /// The next question. Two calls never get the same one.
    ///
    /// # Cancel safety
    /// If the future is dropped, no question is lost.
    pub(super) async fn next(self: &Arc<Self>) -> TakenQuestion {
        loop {
            let added = self.added.notified();
            if let Some(question) = self.take() {
                return TakenQuestion { question: Some(question), questions: self.clone() };
            }
            added.await;
        }
    }

    /// Denies the open questions and all later ones.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.has_ended = true;
        for ExecQuestion { prompt, answer, .. } in state.waiting.drain(..) {
            let _ = answer.send(prompt.deny("the command has ended"));
        }
    }

    fn take(&self) -> Option<ExecQuestion> {
        let mut state = self.state();
        while let Some(question) = state.waiting.pop_front() {
            match question.key.as_ref().and_then(|key| state.answers.get(key)) {
                // It was answered while this one waited.
                Some(action) => _ = question.answer.send(action.clone()),
                None if question.answer.is_closed() => {}
                None => return Some(question),
            }
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion or removal.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Asker for ExecQuestions {
    async fn ask(&self, question: &Question<'_>) -> Action {
        let Some(exec) = question.exec else {
            return Action::Deny { reason: "only programs of a running command are asked about here".to_owned() };
        };
        let prompt = Prompt::about_program(question, exec, &self.line);
        let key = || (exec.file.clone(), exec.argv.clone(), exec.workdir.clone(), exec.identity);
        let key = exec.is_complete.then(key);
        let (answer, answered) = oneshot::channel();
        let _pause = self.stopwatch.pause();
        {
            let mut state = self.state();
            if let Some(action) = key.as_ref().and_then(|key| state.answers.get(key)) {
                return action.clone();
            }
            state.waiting.retain(|question| !question.answer.is_closed());
            if state.has_ended {
                return prompt.deny("the command has ended, so nobody can be asked");
            }
            if state.waiting.len() >= MAX_WAITING {
                return prompt.deny(&format!("more than {MAX_WAITING} programs of the command wait for an answer"));
            }
            state.waiting.push_back(ExecQuestion { prompt: prompt.clone(), key, answer });
        }
        self.added.notify_one();
        match within(self.max_pause, answered).await {
            Some(answer) => answer.unwrap_or_else(|_| prompt.deny("the question was dropped")),
            None => prompt.deny(NO_ANSWER_IN_TIME),
        }
    }
}

/// A question that one call asks. Dropped without an answer, it waits for another call.
pub(super) struct TakenQuestion {
    question: Option<ExecQuestion>,
    questions: Arc<ExecQuestions>,
}

impl TakenQuestion {
    pub(super) fn prompt(&self) -> &Prompt {
        &self.question.as_ref().expect("it is there until it is answered").prompt
    }

    /// Waits until no answer is needed any more.
    pub(super) async fn withdrawn(&mut self) {
        if let Some(question) = &mut self.question {
            question.answer.closed().await;
        }
    }

    pub(super) fn answer(mut self, Asked { action, is_decided }: Asked) {
        let Some(ExecQuestion { key, answer, .. }) = self.question.take() else { return };
        let mut state = self.questions.state();
        if let Some(key) = key.filter(|_| is_decided && state.answers.len() < MAX_ANSWERS) {
            state.answers.insert(key, action.clone());
        }
        let _ = answer.send(action);
    }
}

impl Drop for TakenQuestion {
    fn drop(&mut self) {
        let Some(question) = self.question.take() else { return };
        let mut state = self.questions.state();
        if state.has_ended {
            let _ = question.answer.send(question.prompt.deny("the command has ended"));
        } else {
            state.waiting.push_front(question);
            drop(state);
            self.questions.added.notify_one();
        }
    }
}
