//! The stage: plays the cases of `clients/scenarios` with client libraries of any language.
//!
//! `clients/scenarios/README.md` documents the cases, the stage and the players. The files here:
//!
//! ```text
//! case, ops, expect   what is written: cases, possible operations, patterns of answers
//! run, pool           many cases at once, players that are reused, reports
//! play, variables     one case: its steps in order, its saved values
//! stage, race         the operations of the stage itself
//! server, secrets, proxy   the server and what protects it; frames: HTTP/2 in the proxy; refusals: a stopping server
//! player, clients     the peers that exchange lines of JSON; rust_player: the one of this crate
//! rust_soak           the program of clients/soak
//! table               the results, feature by client
//! ```
//!
//! 1. Nothing is played before every case has been parsed, and the comparison and the proxy have been tested.
//! 2. Every client is used through the same pipes; the stage cannot distinguish them.
//! 3. A case shares only idle players that were reset with other cases: it has its own server, data and address.
mod arguments;
mod case;
mod clients;
mod expect;
mod frames;
mod ops;
mod play;
mod player;
mod pool;
mod proxy;
mod race;
mod refusals;
mod run;
mod rust_player;
mod rust_soak;
mod secrets;
mod server;
mod stage;
mod table;
mod variables;
mod wire;

use arguments::Arguments;
use clap::Parser;
use clients::Clients;
use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    if arguments.print_thread {
        rust_player::print_thread();
        return ExitCode::SUCCESS;
    }
    if arguments.player {
        runtime.block_on(rust_player::run());
        // The tasks that still wait have no one to report to.
        runtime.shutdown_background();
        return ExitCode::SUCCESS;
    }
    if arguments.soak {
        runtime.block_on(rust_soak::run());
        return ExitCode::SUCCESS;
    }
    match runtime.block_on(act(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scenarios: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs what the arguments request; returns whether all of it succeeded.
async fn act(arguments: &Arguments) -> Result<bool, String> {
    expect::check_itself();
    frames::check_itself();
    proxy::check_itself().await;
    let root = arguments.root.clone().unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let scenarios = root.join("clients/scenarios");
    if arguments.player_command.is_some() && arguments.client.len() != 1 {
        return Err("--player-command needs exactly one --client".to_owned());
    }
    let clients = Clients::load(&scenarios.join("clients.json"), root, arguments.player_command.clone())?;
    if let Some(file) = &arguments.check_table {
        return table::check(file, &clients, &arguments.words);
    }
    if let Some(file) = &arguments.write_table {
        return table::write(file, &clients, &arguments.words);
    }
    let cases = case::load(&scenarios.join("cases"))?;
    if arguments.list {
        cases
            .iter()
            .filter(|case| arguments.names(&case.name))
            .for_each(|case| println!("{}: {}", case.name, case.why));
        return Ok(true);
    }
    run::run(cases, clients, arguments).await
}
