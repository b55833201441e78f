//! The program that plays each client: from `clients/scenarios/clients.json`, or from the command line.
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tokio::process::Command;

/// The player that is this program itself.
const BUILT_IN: &str = "rust";

pub(crate) struct Clients {
    table: Vec<Client>,
    root: PathBuf,
    instead: Option<String>,
}

/// A line of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) name: String,
    /// The title of its column in clients/README.md.
    pub(crate) title: String,
    /// The path of a program, from the root of the repository; absent for the Rust client.
    #[serde(default)]
    player: Option<PathBuf>,
}

impl Clients {
    pub(crate) fn load(file: &Path, root: PathBuf, instead: Option<String>) -> Result<Self, String> {
        let read = fs::read_to_string(file).map_err(|error| error.to_string());
        let table = read.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        Ok(Clients { table: table.map_err(|error| format!("{}: {error}", file.display()))?, root, instead })
    }

    pub(crate) fn all(&self) -> &[Client] {
        &self.table
    }

    /// The command that starts the player of a client.
    pub(crate) fn command(&self, name: &str) -> Result<Command, String> {
        let Some(client) = self.table.iter().find(|client| client.name == name) else {
            let known: Vec<_> = self.table.iter().map(|client| client.name.as_str()).collect();
            return Err(format!("no client {name:?}; there are {}", known.join(", ")));
        };
        let mut command = match (&self.instead, &client.player) {
            (Some(instead), _) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", instead]);
                shell
            }
            (None, Some(player)) => {
                let program = self.root.join(player);
                if !program.is_file() {
                    return Err(format!("the player of {name} is not there: {}", program.display()));
                }
                Command::new(program)
            }
            (None, None) => {
                debug_assert_eq!(name, BUILT_IN);
                let mut this = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
                this.arg("--player");
                this
            }
        };
        command.current_dir(&self.root);
        // A player must get its addresses only from its steps.
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            if name.starts_with("PAUSEWATCH_") || ["CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"].contains(&&*name) {
                command.env_remove(variable);
            }
        }
        Ok(command)
    }
}
