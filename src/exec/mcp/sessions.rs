//! The tools for running commands: `write_stdin`, `kill` and `sessions`.
use super::{
    clock::Clock,
    command::Command,
    handler::Caller,
    refusal::{Refusal, cancelled},
    request_key::RequestKey,
    running_call::RunningCall,
    scope::Context,
    shell::{DEFAULT_YIELD_TIME, max_output, yield_time},
    tools::{DEFAULT_MAX_OUTPUT, Kill, NoParameters, Outcome, Session, Sessions, WriteStdin, parse},
};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use std::{sync::Arc, time::Duration};
use tokio::io::AsyncWriteExt;

/// The default of `yield_time_ms` for a call that writes.
const DEFAULT_YIELD_TIME_AFTER_WRITE: Duration = Duration::from_secs(1);

impl Caller {
    pub(super) async fn write_stdin(
        &self,
        mut request: CallToolRequestParams,
        context: &Context,
    ) -> Result<CallToolResponse, Refusal> {
        let named = request.arguments.take().unwrap_or_default();
        let arguments: WriteStdin = parse(&named)?;
        let max_bytes = max_output(arguments.max_output_bytes);
        let key = RequestKey::new("write_stdin", context, &named)?;
        if let Some(call) = self.server.answered_exec(&mut request, &key) {
            // The earlier call has written already.
            return self.wait(call, context, max_bytes, key).await;
        }
        // A `requestState` that answers no question is refused.
        self.server.answered_start(&mut request, &key)?;
        let command = self.find(&arguments.session_id, context)?;
        let default = if arguments.chars.is_empty() { DEFAULT_YIELD_TIME } else { DEFAULT_YIELD_TIME_AFTER_WRITE };
        let limit = Some(yield_time(arguments.yield_time_ms, default));
        let until = Clock::start(&self.server.config.controller, command.clock.thread_id(), limit)?;
        let note = {
            let _in_use = command.idle.in_use();
            tokio::select! {
                biased;
                note = write(&command, arguments.chars.as_bytes(), arguments.close.unwrap_or(false), &until) => note,
                () = context.ct.cancelled() => None,
            }
        };
        note.into_iter().for_each(|note| command.notes.add(note));
        self.wait(RunningCall { command, stop: None, until: Some(until) }, context, max_bytes, key).await
    }

    pub(super) async fn kill(&self, request: CallToolRequestParams, context: &Context) -> Result<Outcome, Refusal> {
        let Kill { session_id } = parse(&request.arguments.unwrap_or_default())?;
        let command = self.find(&session_id, context)?;
        let _in_use = command.idle.in_use();
        command.kill.cancel();
        tokio::select! {
            biased;
            // Its output stays there for another call.
            () = context.ct.cancelled() => return Err(cancelled()),
            _ = command.ended() => {}
        }
        let outcome = Outcome::of(&command, DEFAULT_MAX_OUTPUT);
        self.server.commands.remove(&command);
        Ok(outcome)
    }

    pub(super) fn sessions(&self, request: CallToolRequestParams, context: &Context) -> Result<Sessions, Refusal> {
        let NoParameters {} = parse(&request.arguments.unwrap_or_default())?;
        let commands = self.server.commands.list(self.scope(context).id);
        Ok(Sessions { sessions: commands.iter().map(|command| Session::of(command)).collect() })
    }

    fn find(&self, session_id: &str, context: &Context) -> Result<Arc<Command>, Refusal> {
        self.server.commands.find(session_id, self.scope(context).id).ok_or_else(|| {
            Refusal(format!(
                "no session {session_id:?}: its end was already reported, or nobody asked for it in time, or it never existed; \
                 `sessions` lists the existing ones"
            ))
        })
    }
}

/// Writes until everything is written or `until` expires. Returns a note about what was not written or closed.
async fn write(command: &Command, chars: &[u8], close: bool, until: &Clock) -> Option<String> {
    if chars.is_empty() && !close {
        return None;
    }
    let mut rest = chars;
    let writing = async {
        let mut writer = command.writer.lock().await;
        while let Some(open) = writer.as_mut().filter(|_| !rest.is_empty()) {
            match open.write(rest).await {
                Ok(written) => rest = &rest[written..],
                Err(_) => *writer = None,
            }
        }
        if writer.is_none() && !rest.is_empty() {
            return Some("its standard input is closed: nothing more can be written".to_owned());
        }
        if close && command.spec.tty {
            return Some("a terminal cannot be closed: write \\u0004 (Ctrl-D) instead".to_owned());
        }
        if close {
            *writer = None;
        }
        None
    };
    tokio::select! {
        biased;
        note = writing => note,
        _ = command.ended() => None,
        () = until.used_up() => Some(String::new()),
    }
    .map(|note| match note.is_empty() {
        true => format!(
            "only {} of {} bytes were written: the command does not read",
            chars.len() - rest.len(),
            chars.len()
        ),
        false => note,
    })
}
