//! Which coordinator, and which thread: a flag wins over the environment, that over the config file.
//!
//! 1. A variable that is set and empty counts as not set.
use super::config::ConfigFile;
use crate::client::{Address, Client, Config};
use std::{env, path::PathBuf};

const ADDRESS: &str = "PAUSEWATCH_ADDRESS";
const THREAD_ID: &str = "PAUSEWATCH_THREAD_ID";
/// Tries again after a connection that was refused: they outlast a server that restarts in half a second, and somebody
/// who forgot to start one does not wait longer.
const RETRIES: usize = 4;

/// The options of every command that calls a coordinator.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Connection {
    /// Where the coordinator listens: HOST:PORT, http://HOST:PORT or unix:PATH [env: PAUSEWATCH_ADDRESS] [default:
    /// 127.0.0.1:7420].
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Address>,
    /// The config file, TOML with address and thread_id [env: PAUSEWATCH_CONFIG] [default:
    /// $XDG_CONFIG_HOME/pausewatch/config.toml, else ~/.config/pausewatch/config.toml].
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

/// What was configured.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The coordinator; `None`: nobody said one.
    pub(crate) address: Option<Address>,
    /// The thread, by environment or config file.
    thread_id: Option<String>,
}

impl Connection {
    /// Looks at the flags, the environment and the config file.
    ///
    /// # Errors
    /// One of them is wrong; the text says which.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let file = ConfigFile::load(self.config.as_deref())?;
        let from_env = || variable(ADDRESS)?.map(|text| text.parse()).transpose().map_err(in_variable(ADDRESS));
        let address = match &self.address {
            Some(address) => Some(address.clone()),
            None => from_env()?.or(file.address),
        };
        Ok(Settings { address, thread_id: variable(THREAD_ID)?.or(file.thread_id) })
    }
}

impl Settings {
    /// The thread that the flag names, else the configured one.
    pub(crate) fn thread_id(&self, flag: &Thread) -> Option<String> {
        flag.thread_id.clone().or_else(|| self.configured_thread_id())
    }

    /// The thread that the environment or the config file names.
    pub(crate) fn configured_thread_id(&self) -> Option<String> {
        self.thread_id.clone()
    }

    /// A client with the patience of a program that a person or a script waits for. Needs a tokio runtime.
    pub(crate) fn client(&self) -> Client {
        Client::with_config(&Config { address: self.address(), retries: RETRIES, ..Config::default() })
    }

    /// The configured coordinator, or the default one.
    pub(crate) fn address(&self) -> Address {
        self.address.clone().unwrap_or_default()
    }
}

/// What to say when a command needs a thread and has none.
pub(crate) const NO_THREAD: &str = "no thread: name one with --thread-id or PAUSEWATCH_THREAD_ID";

fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(format!("{name}: not UTF-8")),
    }
}

fn in_variable<E: std::fmt::Display>(name: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{name}: {error}")
}
