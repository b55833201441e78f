//! What the commands that call a coordinator have in common: settings, a runtime, a client, and how they end.
use super::connection::{self, Connection, NO_THREAD, Thread};
use super::failure::Failure;
use crate::client::{Address, Client, Settings};
use std::process::ExitCode;

/// A coordinator to call, and how it was found.
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) address: Address,
    settings: Settings,
}

impl Caller {
    /// The thread that the flag names, else the configured one.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn thread_id(&self, flag: &Thread) -> Result<String, Failure> {
        flag.or(&self.settings).ok_or_else(|| Failure::Usage(NO_THREAD.into()))
    }

    /// The thread that the environment or the config file names.
    pub(crate) fn configured_thread_id(&self) -> Option<String> {
        self.settings.thread_id.clone()
    }
}

/// Runs `body` and returns the exit code; a failure is said on standard error.
pub(crate) fn run(
    command: &str,
    connection: &Connection,
    body: impl AsyncFnOnce(&Caller) -> Result<(), Failure>,
) -> ExitCode {
    let settings = match connection.settings() {
        Ok(settings) => settings,
        Err(why) => return Failure::Usage(why.to_string()).report(command, &Address::default()),
    };
    let address = settings.address.clone().unwrap_or_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::System("start", error).report(command, &address),
    };
    let result = runtime.block_on(async {
        let client = connection::client(&settings).map_err(|why| Failure::Usage(why.to_string()))?;
        body(&Caller { client, address: address.clone(), settings }).await
    });
    // A write to a terminal that nobody reads must not hold the process.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(command, &address),
    }
}
