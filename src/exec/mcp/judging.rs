//! Answers the questions of the supervisor of one command.
use super::exec_questions::ExecQuestions;
use crate::exec::{
    judge::{Link, Report, Verdict},
    policy::{Action, AskingPolicy, EscalationPolicy, Rules},
};
use std::{
    collections::HashMap,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::task::{AbortHandle, JoinSet};

/// The maximum of notes that are kept for one result.
const MAX_NOTES: usize = 10;

/// What the caller of a command should know of the programs in it.
#[derive(Default)]
pub(super) struct Notes(Mutex<Vec<String>>);

impl Notes {
    pub(super) fn add(&self, note: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Those since the last result.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The connection to the supervisor of a command, and the verdicts that are being determined.
pub(super) struct Judging {
    link: Arc<Link>,
    policy: Arc<dyn EscalationPolicy>,
    notes: Arc<Notes>,
    /// By the id of the question.
    open: HashMap<u64, AbortHandle>,
    verdicts: JoinSet<u64>,
}

impl Judging {
    pub(super) fn new(link: Link, rules: Arc<Rules>, questions: Arc<ExecQuestions>, notes: Arc<Notes>) -> Self {
        let policy = Arc::new(AskingPolicy::new(rules, questions));
        Self { link: Arc::new(link), policy, notes, open: HashMap::new(), verdicts: JoinSet::new() }
    }

    /// Answers questions until the command's first process has ended, and returns its status; `None`: the supervisor has ended before.
    ///
    /// # Cancel safety
    /// Dropped, no report is lost, and verdicts are determined further.
    pub(super) async fn ended(&mut self) -> Option<ExitStatus> {
        loop {
            let report = tokio::select! {
                biased;
                Some(id) = self.verdicts.join_next() => {
                    id.iter().for_each(|id| _ = self.open.remove(id));
                    continue;
                }
                report = self.link.report() => report?,
            };
            if let Some(status) = self.on_report(report) {
                return Some(status);
            }
        }
    }

    /// The status of the command's first process, if the supervisor has reported it before it ended.
    pub(super) fn last_status(&mut self) -> Option<ExitStatus> {
        while let Some(report) = self.link.report_now() {
            if let Some(status) = self.on_report(report) {
                return Some(status);
            }
        }
        None
    }

    fn on_report(&mut self, report: Report) -> Option<ExitStatus> {
        match report {
            Report::Ended { status } => return Some(ExitStatus::from_raw(status)),
            Report::Noted(note) => self.notes.add(note),
            Report::Withdrawn { id } => {
                self.open.remove(&id).iter().for_each(AbortHandle::abort);
            }
            Report::Asks { id, exec } => {
                let (link, policy, notes) = (self.link.clone(), self.policy.clone(), self.notes.clone());
                let determined = async move {
                    let action = policy.determine_exec(&exec).await;
                    if let Action::Deny { reason } = &action {
                        notes.add(format!("a program was denied: {reason}"));
                    }
                    link.answer(&Verdict { id, action }).await;
                    id
                };
                self.open.insert(id, self.verdicts.spawn(determined));
            }
        }
        None
    }
}
