//! Which coordinator, and which thread: a flag wins over the environment, that over the config file.
use crate::client::{Address, Client, Config, ConfigError, Settings, Token};
use crate::trace::Parent;
use std::path::PathBuf;

/// Tries again after a connection that was refused: they outlast a server that restarts in half a second, and somebody
/// who forgot to start one does not wait longer.
const RETRIES: usize = 4;

/// The options of every command that calls a coordinator.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Connection {
    /// Where the coordinator listens: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH [env:
    /// PAUSEWATCH_ADDRESS] [default: 127.0.0.1:7420].
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Address>,
    /// Proves to the coordinator who calls. Others can see it among the processes of the machine: better in the
    /// environment or the config file [env: PAUSEWATCH_TOKEN].
    #[arg(long, value_name = "TOKEN", value_parser = Token::new)]
    token: Option<Token>,
    /// Certificates to trust instead of the system's, a PEM file [env: PAUSEWATCH_TLS_CA].
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Our own certificate, a PEM file [env: PAUSEWATCH_TLS_CERT].
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its key, a PEM file [env: PAUSEWATCH_TLS_KEY].
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The config file, TOML with address, thread_id, token, tls_ca, tls_cert and tls_key [env: PAUSEWATCH_CONFIG]
    /// [default: $XDG_CONFIG_HOME/pausewatch/config.toml, else ~/.config/pausewatch/config.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The option that names the thread.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Thread {
    /// The thread [env: PAUSEWATCH_THREAD_ID].
    #[arg(long, value_name = "ID")]
    thread_id: Option<String>,
}

impl Thread {
    /// The thread that the flag names, else the one of `settings`.
    pub(crate) fn or(&self, settings: &Settings) -> Option<String> {
        self.thread_id.clone().or_else(|| settings.thread_id.clone())
    }
}

impl Connection {
    /// Looks at the flags, the environment and the config file.
    ///
    /// # Errors
    /// One of them is wrong; the text says which.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let Self { address, token, tls_ca, tls_cert, tls_key, config } = self.clone();
        let flags = Settings { address, thread_id: None, token, tls_ca, tls_cert, tls_key };
        Ok(flags.or(Settings::from_env_and(config.as_deref())?))
    }
}

/// A client with the patience of a program that a person or a script waits for. Needs a tokio runtime.
///
/// # Errors
/// The settings do not go together.
pub(crate) fn client(settings: &Settings) -> Result<Client, ConfigError> {
    let client = Client::with_config(&Config { retries: RETRIES, ..settings.config()? })?;
    Ok(match Parent::of_environment() {
        Some(parent) => client.within(parent),
        None => client,
    })
}

/// What to say when a command needs a thread and has none.
pub(crate) const NO_THREAD: &str = "no thread: name one with --thread-id or PAUSEWATCH_THREAD_ID";
