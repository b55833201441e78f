//! The arguments: which cases are played, and how.
//!
//! `cargo test` gives every test program the same arguments: those of libtest that mean nothing here are accepted and
//! ignored, and a bare word is a filter.
use clap::Parser;
use std::path::PathBuf;

/// Plays the cases of clients/scenarios with client libraries against a real `pausewatch serve`.
#[derive(Parser)]
#[command(name = "scenarios")]
pub(crate) struct Arguments {
    /// A client of clients/scenarios/clients.json to play with [default: rust]. A case of several languages is played
    /// when all its clients are named.
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Vec<String>,
    /// A case to play: its name or a part of it [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) case: Vec<String>,
    /// How many cases are played at once
    #[arg(long, value_name = "N", default_value_t = 4, visible_alias = "test-threads")]
    pub(crate) jobs: usize,
    /// How often each case is played
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) times: usize,
    /// Prints every line to and from the players
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Prints the cases and plays none
    #[arg(long)]
    pub(crate) list: bool,
    /// The file for the results, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// The directory that contains clients/LANGUAGE [default: this repository]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// A shell command that runs the player, for the only client that is named
    #[arg(long, value_name = "COMMAND")]
    pub(crate) player_command: Option<String>,
    /// Checks the table in FILE against these results; plays nothing
    #[arg(long, value_name = "FILE", num_args = 1)]
    pub(crate) check_table: Option<PathBuf>,
    /// Writes the table of these results into FILE; plays nothing
    #[arg(long, value_name = "FILE", conflicts_with = "check_table")]
    pub(crate) write_table: Option<PathBuf>,

    /// Parts of names, from `cargo test`; with the table, files of results
    pub(crate) words: Vec<String>,

    /// Runs as the player of the Rust client.
    #[arg(long, hide = true)]
    pub(crate) player: bool,
    /// Runs as the program of clients/soak for the Rust client.
    #[arg(long, hide = true)]
    pub(crate) soak: bool,
    /// Prints the thread that the environment names.
    #[arg(long, hide = true)]
    pub(crate) print_thread: bool,
    #[arg(long, hide = true)]
    nocapture: bool,
    #[arg(long, hide = true)]
    show_output: bool,
    #[arg(long, hide = true)]
    exact: bool,
    #[arg(long, hide = true)]
    ignored: bool,
    #[arg(long, hide = true)]
    include_ignored: bool,
    #[arg(long, short, hide = true)]
    quiet: bool,
}

impl Arguments {
    /// Whether a case of this name is to be played.
    pub(crate) fn names(&self, case: &str) -> bool {
        let named = self.case.is_empty() || self.case.iter().any(|part| case.contains(part.as_str()));
        named && (self.words.is_empty() || self.words.iter().any(|part| case.contains(part.as_str())))
    }

    pub(crate) fn clients(&self) -> Vec<String> {
        if self.client.is_empty() { vec!["rust".to_owned()] } else { self.client.clone() }
    }
}
