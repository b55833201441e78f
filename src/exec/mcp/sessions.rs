//! The tools for commands that run already: `write_stdin`, `kill` and `sessions`.
use super::{
    clock::Clock,
    command::Command,
    handler::Caller,
    refusal::Refusal,
    scope::Context,
    shell::{YIELD, most, yield_time},
    tools::{Kill, Nothing, OUTPUT, Outcome, Session, Sessions, WriteStdin, parse},
};
use rmcp::model::CallToolRequestParams;
use std::{sync::Arc, time::Duration};

/// How long a call that writes waits for what comes of it, unless told otherwise.
const YIELD_AFTER_WRITING: Duration = Duration::from_secs(1);

impl Caller {
    pub(super) async fn write_stdin(
        &self,
        request: CallToolRequestParams,
        context: &Context,
    ) -> Result<Outcome, Refusal> {
        let arguments: WriteStdin = parse(&request.arguments.unwrap_or_default())?;
        let command = self.find(&arguments.session_id, context)?;
        let usual = if arguments.chars.is_empty() { YIELD } else { YIELD_AFTER_WRITING };
        let limit = Some(yield_time(arguments.yield_time_ms, usual));
        let until = Clock::start(&self.server.config.controller, command.clock.thread_id(), limit)?;
        let note = {
            let _in_use = command.idle.in_use();
            tokio::select! {
                biased;
                note = write(&command, arguments.chars.as_bytes(), arguments.close.unwrap_or(false), &until) => note,
                () = context.ct.cancelled() => None,
            }
        };
        let outcome = self.wait(&command, &until, context, most(arguments.max_output_bytes)).await?;
        Ok(Outcome { note: note.or(outcome.note), ..outcome })
    }

    pub(super) async fn kill(&self, request: CallToolRequestParams, context: &Context) -> Result<Outcome, Refusal> {
        let Kill { session_id } = parse(&request.arguments.unwrap_or_default())?;
        let command = self.find(&session_id, context)?;
        let _in_use = command.idle.in_use();
        command.stop.cancel();
        command.ended().await;
        let outcome = Outcome::of(&command, OUTPUT);
        self.server.commands.forget(&command);
        Ok(outcome)
    }

    pub(super) fn sessions(&self, request: CallToolRequestParams, context: &Context) -> Result<Sessions, Refusal> {
        let Nothing {} = parse(&request.arguments.unwrap_or_default())?;
        let commands = self.server.commands.of(self.scope(context).number);
        Ok(Sessions { sessions: commands.iter().map(|command| Session::of(command)).collect() })
    }

    fn find(&self, session_id: &str, context: &Context) -> Result<Arc<Command>, Refusal> {
        self.server.commands.find(session_id, self.scope(context).number).ok_or_else(|| {
            Refusal(format!(
                "no session {session_id:?}: its end has been told, or there never was one; `sessions` lists those there are"
            ))
        })
    }
}

/// Writes until all is written or `until` is over; says what did not go as asked.
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
        if close && command.about.tty {
            return Some("a terminal is not closed: write \\u0004 (Ctrl-D) instead".to_owned());
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
        () = until.stopwatch().expired() => Some(String::new()),
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
