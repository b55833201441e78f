//! Answers the questions of the supervisor of one command.
use super::{
    link::Link,
    message::{Report, Verdict},
};
use crate::escape::escaped_lines;
use crate::exec::policy::{Action, EscalationPolicy, Exposed, Reach};
use std::{collections::HashMap, io, os::unix::process::ExitStatusExt, process::ExitStatus, sync::Arc};
use tokio::{
    process::Child,
    task::{AbortHandle, JoinError, JoinSet},
};

/// The maximum length of a reason, in characters: a packet must hold it.
const MAX_REASON: usize = 10_000;

/// Receives notes for the caller of a command about its programs.
pub(crate) type Note = Arc<dyn Fn(String) + Send + Sync>;

/// The connection to the supervisor of a command, and the verdicts that are being determined.
pub(crate) struct Judging {
    link: Arc<Link>,
    policy: Arc<dyn EscalationPolicy>,
    note: Note,
    exposed: Exposed,
    /// The first process of the command.
    process: Option<i32>,
    /// The tasks that determine them, by the id of the question.
    open: HashMap<u64, AbortHandle>,
    verdicts: JoinSet<u64>,
}

impl Judging {
    /// `exposed`: what commands can write.
    pub(crate) fn new(link: Link, policy: Arc<dyn EscalationPolicy>, note: Note, exposed: Exposed) -> Self {
        let (open, verdicts) = (HashMap::new(), JoinSet::new());
        Self { link: Arc::new(link), policy, note, exposed, process: None, open, verdicts }
    }

    /// Answers questions until the command's first process has ended, and returns its status; `None`: the supervisor has ended before.
    ///
    /// # Cancel safety
    /// If the future is dropped, no report is lost, and the tasks that determine verdicts continue.
    async fn ended(&mut self) -> Option<ExitStatus> {
        loop {
            let report = tokio::select! {
                biased;
                Some(answered) = self.verdicts.join_next() => {
                    self.on_answered(answered);
                    continue;
                }
                report = self.link.report() => report?,
            };
            if let Some(status) = self.on_report(report) {
                return Some(status);
            }
        }
    }

    /// Waits until the first process of the command has started, or its supervisor has ended.
    pub(crate) async fn first_process_started(&mut self) {
        while self.process.is_none()
            && let Some(report) = self.link.report().await
        {
            self.on_report(report);
        }
    }

    /// Waits until the first process of the command has ended, or its supervisor was killed. Returns the status of
    /// the one that ended.
    ///
    /// # Cancel safety
    /// As [`ended`](Self::ended).
    pub(crate) async fn first_process_ended(&mut self, supervisor: &mut Child) -> io::Result<ExitStatus> {
        tokio::select! {
            biased;
            Some(status) = self.ended() => Ok(status),
            status = supervisor.wait() => self.last_status().map_or(status, Ok),
        }
    }

    /// Waits until the supervisor has closed its connection: no process of the command executes programs any more. The
    /// supervisor may still be ending.
    ///
    /// # Cancel safety
    /// As [`ended`](Self::ended).
    pub(crate) async fn supervisor_is_done(&mut self) {
        while self.ended().await.is_some() {}
    }

    /// Withdraws the open questions, and waits until the tasks that ask them have ended.
    pub(crate) async fn withdraw_all(&mut self) {
        self.open.clear();
        self.verdicts.shutdown().await;
    }

    /// The status of the command's first process, if the supervisor has reported it before it ended.
    fn last_status(&mut self) -> Option<ExitStatus> {
        while let Some(report) = self.link.report_now() {
            if let Some(status) = self.on_report(report) {
                return Some(status);
            }
        }
        None
    }

    /// The process id of the command's first process; `None`: it has not started yet, or has ended.
    pub(crate) fn process(&self) -> Option<i32> {
        self.process
    }

    /// A task has answered a question, or has failed.
    fn on_answered(&mut self, answered: Result<u64, JoinError>) {
        match answered {
            Ok(id) => _ = self.open.remove(&id),
            Err(error) => {
                // `None`: it was aborted, and nobody needs its answer.
                let failed = self.open.iter().find(|(_, task)| task.id() == error.id()).map(|(id, _)| *id);
                if let Some(id) = failed {
                    let (link, reason) =
                        (self.link.clone(), "the program cannot be judged: an internal error".to_owned());
                    let denied = async move {
                        link.answer(&Verdict { id, action: Action::Deny { reason }, reach: Reach::default() }).await;
                        id
                    };
                    self.open.insert(id, self.verdicts.spawn(denied));
                }
            }
        }
    }

    fn on_report(&mut self, report: Report) -> Option<ExitStatus> {
        match report {
            Report::Started { process } => self.process = Some(process),
            Report::Ended { status } => {
                self.process = None;
                return Some(ExitStatus::from_raw(status));
            }
            Report::Noted(note) => (self.note)(note),
            Report::Withdrawn { id } => {
                self.open.remove(&id).iter().for_each(AbortHandle::abort);
            }
            Report::Asks { id, exec } => {
                let (link, policy, note) = (self.link.clone(), self.policy.clone(), self.note.clone());
                let exposed = self.exposed.clone();
                let determined = async move {
                    let mut action = policy.determine_exec(&exec).await;
                    if let Action::Deny { reason } = &mut action {
                        // The reason contains words of the command, which must not control a terminal.
                        *reason = escaped_lines(reason).replace('\n', "\\n").chars().take(MAX_REASON).collect();
                    }
                    if let Action::Deny { reason } = &action {
                        note(format!("a program was denied: {reason}"));
                    }
                    let reach = match action {
                        Action::Escalate => exposed().for_message(),
                        _ => Reach::default(),
                    };
                    link.answer(&Verdict { id, action, reach }).await;
                    id
                };
                self.open.insert(id, self.verdicts.spawn(determined));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{super::packet, *};
    use crate::exec::policy::Exec;
    use async_trait::async_trait;
    use std::{path::Path, time::Duration};

    struct Panics;

    #[async_trait]
    impl EscalationPolicy for Panics {
        async fn determine_action(&self, _: &str, _: &[String], _: &Path) -> Action {
            unreachable!("only programs are judged")
        }

        async fn determine_exec(&self, _: &Exec) -> Action {
            panic!("a test")
        }
    }

    #[tokio::test]
    async fn a_question_whose_task_panics_is_denied() {
        let (ours, theirs) = super::super::connect(io::stdin()).unwrap();
        packet::receive::<()>(&theirs).unwrap().expect("standard input");
        let mut judging =
            Judging::new(Link::new(ours).unwrap(), Arc::new(Panics), Arc::new(|_| ()), Arc::new(Reach::default));
        packet::send(&theirs, &Report::Asks { id: 7, exec: Box::default() }, &[]).unwrap();
        let supervisor = Link::new(theirs).unwrap();
        let verdict = tokio::time::timeout(Duration::from_secs(10), async {
            tokio::select! {
                _ = judging.ended() => unreachable!("the supervisor has not ended"),
                verdict = supervisor.receive::<Verdict>() => verdict.unwrap(),
            }
        });
        let Verdict { id, action, .. } = verdict.await.expect("nobody answered");
        assert!(id == 7 && matches!(action, Action::Deny { .. }), "{id}: {action:?}");
    }
}
