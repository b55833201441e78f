//! The options that select the coordinator and the thread. An option takes precedence over the environment, and the
//! environment over the config file.
use super::config_file;
use crate::client::{Address, Client, Config, ConfigError, Error, Event, Settings, Token, Watch, is_pipe_or_device};
use crate::trace::Parent;
use std::{convert::Infallible, ffi::OsString, fmt, path::PathBuf, time::Duration};

/// Retries after a refused connection: enough for a server that restarts within half a second. With more retries, a
/// person who forgot to start a server would wait longer.
const RETRIES: usize = 4;

/// How long the first connection of a watch is retried, once every address has failed.
const FIRST_CONNECTION: Duration = Duration::from_secs(1);

/// The message for a command that needs a thread and has none.
pub(crate) const NO_THREAD: &str = "no thread: name one with --thread-id or PAUSEWATCH_THREAD_ID";

/// The options of every command that calls a coordinator.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Connection {
    /// The address of the coordinator: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH; of several replicas,
    /// their addresses with commas between them [env: PAUSEWATCH_ADDRESS] [default: 127.0.0.1:7420].
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Address>,
    /// The token that authenticates this program to the coordinator. Other users can see it in the process list: prefer
    /// the environment, the config file, or a file that PAUSEWATCH_TOKEN_FILE names, which is read again for every call
    /// [env: PAUSEWATCH_TOKEN].
    #[arg(long, value_name = "TOKEN", value_parser = UncheckedToken::new)]
    token: Option<UncheckedToken>,
    /// The certificate authorities to trust instead of the system's, a PEM file [env: PAUSEWATCH_TLS_CA].
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The client certificate, a PEM file [env: PAUSEWATCH_TLS_CERT].
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of the client certificate, a PEM file [env: PAUSEWATCH_TLS_KEY].
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The config file, TOML with address, thread_id, token, tls_ca, tls_cert and tls_key [env: PAUSEWATCH_CONFIG]
    /// [default: $XDG_CONFIG_HOME/pausewatch/config.toml, else ~/.config/pausewatch/config.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A token as it was given. clap checks nothing, because its errors would print the value.
#[derive(Clone)]
struct UncheckedToken(String);

impl UncheckedToken {
    fn new(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for UncheckedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UncheckedToken(..)")
    }
}

/// The option that names the thread.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Thread {
    /// The thread [env: PAUSEWATCH_THREAD_ID, else CODEX_THREAD_ID, else CLAUDE_CODE_SESSION_ID].
    #[arg(long, value_name = "ID")]
    thread_id: Option<String>,
}

impl Thread {
    /// The thread of the flag, else the one of `settings`.
    pub(crate) fn or(&self, settings: &Settings) -> Option<String> {
        self.thread_id.clone().or_else(|| settings.thread_id.clone())
    }

    /// Where [`Self::or`] found the thread, for people.
    pub(crate) fn source(&self, settings: &Settings) -> Option<&'static str> {
        self.thread_id.as_ref().map(|_| "--thread-id").or_else(|| settings.thread_source())
    }
}

impl Connection {
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let Self { address, token, tls_ca, tls_cert, tls_key, config } = self.clone();
        let token = token.map(|token| Token::new(&token.0)).transpose()?;
        let flags = Settings { address, token, tls_ca, tls_cert, tls_key, ..Settings::default() };
        let configured = Settings::from_env_and(config.as_deref())?;
        config_file::warn_if_ignored();
        Ok(flags.or(configured))
    }

    /// The settings for a private coordinator: the configuration of another one is ignored.
    pub(crate) fn without_coordinator(&self) -> Result<Settings, ConfigError> {
        let settings = Settings::without_coordinator(self.config.as_deref())?;
        config_file::warn_if_ignored();
        Ok(settings)
    }
}

/// A client that retries for as long as a person or a script would wait. Needs a tokio runtime.
pub(crate) fn client(settings: &Settings) -> Result<Client, ConfigError> {
    client_of(settings.config()?)
}

fn client_of(config: Config) -> Result<Client, ConfigError> {
    let client = Client::with_config(&Config { retries: RETRIES, ..config })?;
    Ok(match Parent::of_environment() {
        Some(parent) => client.within(parent),
        None => client,
    })
}

/// Like [`client`], for a command that executes another one. Also returns variables for the other command: if
/// `PAUSEWATCH_TOKEN_FILE` is a pipe, it is empty from here on, so the other command gets the token itself.
pub(crate) fn client_and_token(settings: &Settings) -> Result<(Client, Vec<(OsString, OsString)>), ConfigError> {
    let config = settings.config()?;
    let is_pipe = settings.token_file.as_deref().is_some_and(is_pipe_or_device);
    // An invalid token makes the calls fail.
    let token = config.token_source.as_ref().filter(|_| is_pipe).and_then(|source| source.token().ok());
    let variables = |token: Token| {
        [("PAUSEWATCH_TOKEN", token.secret()), ("PAUSEWATCH_TOKEN_FILE", "")]
            .map(|(name, value)| (name.into(), value.into()))
    };
    Ok((client_of(config)?, token.map(variables).into_iter().flatten().collect()))
}

/// The first event of a watch. It must arrive, unlike later ones, because the address may be wrong.
pub(crate) async fn first_event(watch: &mut Watch) -> Result<Event, Error> {
    let error = match watch.next().await {
        Event::Disconnected { error, .. } => error,
        event => return Ok(event),
    };
    if !error.is_transient() {
        return Err(error);
    }
    // A watch reports a disconnect once, so its next event comes from a new connection. A watch gives up a replica that
    // does not answer after less than two times `FIRST_CONNECTION`.
    for _ in 0..=2 * watch.untried_addresses() {
        match tokio::time::timeout(FIRST_CONNECTION, watch.next()).await {
            Ok(event) => return Ok(event),
            Err(_) if watch.untried_addresses() == 0 => break,
            Err(_) => {}
        }
    }
    Err(error)
}
