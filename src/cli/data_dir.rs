//! The data directory of a command: by default the one that `serve` would use.
use super::config_sources;
use clap::Command;
use std::path::{Path, PathBuf};

/// The options that name it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DataDir {
    /// The data directory of the server [env: PAUSEWATCH_DATA_DIR] [default: what the config file says in its table
    /// `[serve]`, else $XDG_STATE_HOME/pausewatch, else ~/.local/state/pausewatch].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The config file [env: PAUSEWATCH_CONFIG] [default: $XDG_CONFIG_HOME/pausewatch/config.toml, else
    /// ~/.config/pausewatch/config.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl DataDir {
    /// Whether the command line names it.
    pub(crate) fn is_given(&self) -> bool {
        self.data_dir.is_some()
    }

    /// The config file that the command line names.
    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The directory. `serve`: the definition of that command, whose options the config file sets.
    ///
    /// # Errors
    /// The problems in the environment and the config file, or that nothing sets a directory.
    pub(crate) fn find(self, serve: &Command) -> Result<PathBuf, Vec<String>> {
        if let Some(directory) = self.data_dir {
            return Ok(directory);
        }
        let set = config_sources::find(serve, "data_dir", self.config.as_deref())?;
        or_default(set.map(PathBuf::from)).map_err(|why| vec![why])
    }
}

/// `named`, else the default directory for the state of this user.
///
/// # Errors
/// The environment sets neither `XDG_STATE_HOME` nor `HOME`.
pub(crate) fn or_default(named: Option<PathBuf>) -> Result<PathBuf, String> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").filter(|path| Path::is_absolute(path));
    let usual = || Some(state.or_else(|| Some(set("HOME")?.join(".local/state")))?.join("pausewatch"));
    named.or_else(usual).ok_or_else(|| "neither XDG_STATE_HOME nor HOME is set: say --data-dir".into())
}
