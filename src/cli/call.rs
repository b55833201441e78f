//! Shared by all commands that call a coordinator: options, settings, runtime, client and exit code.
use super::certificate_warnings;
use super::connection::{self, Connection, Thread};
use super::failure::{Failure, exit_code};
use super::output::{Output, check_open};
use super::unanswered;
use crate::client::{Address, Client, Error, Settings};
use prost::Message;
use std::process::ExitCode;

/// The options of a command that makes one call on one thread.
#[derive(Debug, clap::Args)]
pub(crate) struct ThreadCall {
    #[command(flatten)]
    thread: Thread,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

impl ThreadCall {
    /// Makes the call and prints the response, a `response_name` of our package. `text` gets the thread and the response.
    pub(crate) fn run<M: Message>(
        self,
        command: &'static str,
        response_name: &str,
        call: impl AsyncFnOnce(Client, String) -> Result<M, Error>,
        text: impl FnOnce(&str, &M) -> String,
    ) -> ExitCode {
        self.run_with(command, async |client, _, thread_id, output| {
            let response = call(client, thread_id.clone()).await?;
            output.show(response_name, &response, |response| text(&thread_id, response))
        })
    }

    /// As [`run`](Self::run), for a `body` that makes the call and prints the response itself.
    pub(crate) fn run_with(
        self,
        command: &'static str,
        body: impl AsyncFnOnce(Client, &Settings, String, Output) -> Result<(), Failure>,
    ) -> ExitCode {
        run(command, &self.connection, async |client, settings| {
            let thread_id = self.thread.or(settings).ok_or(Failure::NoThread)?;
            body(client, settings, thread_id, self.output).await
        })
    }
}

/// Runs `body` with a client, and reports a failure.
pub(crate) fn run(
    command: &'static str,
    connection: &Connection,
    body: impl AsyncFnOnce(Client, &Settings) -> Result<(), Failure>,
) -> ExitCode {
    let settings = match connection.settings() {
        Ok(settings) => settings,
        Err(error) => return exit_code(command, &Address::default(), Err(error.into())),
    };
    certificate_warnings::report(command, &settings);
    let address = settings.address.clone().unwrap_or_default();
    // This is checked before the call, because nobody could read its answer.
    let result = check_open().and_then(|()| {
        block_on(async {
            match body(connection::client(&settings)?, &settings).await {
                Err(Failure::Call(error)) => Err(unanswered::look_into(error, &settings).await),
                other => other,
            }
        })
    });
    exit_code(command, &address, result)
}

fn block_on(body: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = super::runtime::start();
    let runtime = runtime.map_err(|error| Failure::System("start".into(), error))?;
    let result = runtime.block_on(body);
    // The process does not wait for a write to a blocked terminal.
    runtime.shutdown_background();
    result
}
