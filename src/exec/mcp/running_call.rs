//! A call that waits for a running command, and asks the person about its programs meanwhile.
use super::{
    ask::AskMethod, clock::Clock, command::Command, config::Config, exec_questions::TakenQuestion, scope::Context,
};
use std::{pin::pin, sync::Arc};
use tokio_util::sync::DropGuard;

/// A command that runs, and what a call that waits for it needs.
pub(super) struct RunningCall {
    pub(super) command: Arc<Command>,
    /// Dropping it ends the command; `None`: the command outlives this call.
    pub(super) stop: Option<DropGuard>,
    /// The clock of `yield_time_ms`; `None`: the call waits for the command's end.
    pub(super) until: Option<Clock>,
}

impl RunningCall {
    /// Waits until the command has ended or `until` has expired, and asks the person about the programs that the command is about to execute
    /// meanwhile.
    ///
    /// # Errors
    /// The question that the response to the call has to ask.
    ///
    /// # Cancel safety
    /// If the future is dropped, a question that was being asked waits for another call.
    pub(super) async fn wait(&self, context: &Context, config: &Config) -> Result<(), TakenQuestion> {
        let method = AskMethod::of(context, None, config.limits.max_pause);
        let stopwatches: Vec<_> = self.until.iter().map(|until| until.stopwatch().clone()).collect();
        let expired = async {
            match &self.until {
                Some(until) => until.used_up().await,
                None => std::future::pending().await,
            }
        };
        let mut waited = pin!(async {
            tokio::select! {
                biased;
                _ = self.command.ended() => {}
                () = expired => {}
            }
        });
        loop {
            let mut question = tokio::select! {
                biased;
                () = &mut waited => return Ok(()),
                question = self.command.questions.next() => question,
            };
            let prompt = question.prompt().clone();
            let asked = tokio::select! {
                biased;
                () = &mut waited => return Ok(()),
                () = question.withdrawn() => continue,
                asked = method.ask(&prompt, config.policy.when_unable, &stopwatches) => asked,
            };
            match asked {
                Some(asked) => question.answer(asked),
                None => return Err(question),
            }
        }
    }
}
