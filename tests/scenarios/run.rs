//! Runs many cases at once, and reports their results.
//!
//! 1. The report of a case is printed in one piece, when the case has ended.
//! 2. A case of several languages is played once, if every client that it names is selected.
use crate::{
    arguments::Arguments,
    case::Case,
    clients::Clients,
    play,
    pool::Pool,
    table::{self, Row},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// No case takes this long; if one does, the stage has an error.
const LONGEST: Duration = Duration::from_secs(180);

/// A case to be played with a client; if it has several languages, the first one stands for all.
type Turn = (Arc<Case>, String);

struct Played {
    turn: Turn,
    result: Result<(), String>,
    took: Duration,
}

/// Plays the selected cases. Returns whether there were any, and all passed.
pub(crate) async fn run(cases: Vec<Case>, clients: Clients, arguments: &Arguments) -> Result<bool, String> {
    let asked = arguments.clients();
    for client in &asked {
        clients.command(client)?;
    }
    let turns = turns(cases, &asked, arguments);
    if turns.is_empty() {
        println!("scenarios: no case is named like that");
        // A bare word comes from `cargo test WORD`, which may mean another test.
        return Ok(!arguments.words.is_empty());
    }
    let begun = Instant::now();
    let turns = Arc::new(Mutex::new(turns));
    let clients = Arc::new(clients);
    let (tell, mut told) = mpsc::unbounded_channel();
    for _ in 0..arguments.jobs.max(1) {
        let (turns, tell, mut pool) = (turns.clone(), tell.clone(), Pool::new(clients.clone(), arguments.verbose));
        tokio::spawn(async move {
            let next = || turns.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some(turn) = next() {
                let played = play_one(turn, &mut pool).await;
                if tell.send(played).is_err() {
                    return;
                }
            }
        });
    }
    drop(tell);
    let mut all = Vec::new();
    while let Some(played) = told.recv().await {
        say(&played);
        all.push(played);
    }
    let failed: Vec<_> = all.iter().filter(|played| played.result.is_err()).map(label).collect();
    println!(
        "\n{} passed, {} failed, in {:.1} s",
        all.len() - failed.len(),
        failed.len(),
        begun.elapsed().as_secs_f64()
    );
    failed.iter().for_each(|label| println!("failed: {label}"));
    if let Some(file) = &arguments.results {
        table::save(file, &rows(&all))?;
    }
    Ok(failed.is_empty())
}

fn turns(cases: Vec<Case>, asked: &[String], arguments: &Arguments) -> VecDeque<Turn> {
    let mut turns = VecDeque::new();
    for case in cases.into_iter().filter(|case| arguments.names(&case.name)).map(Arc::new) {
        let missing = case.players.values().find(|client| !asked.contains(client));
        match (case.players.is_empty(), missing) {
            (true, _) => turns.extend(asked.iter().map(|client| (case.clone(), client.clone()))),
            (false, None) => turns.push_back((case.clone(), "all".to_owned())),
            (false, Some(missing)) => println!("not played: {}, without {missing}", case.name),
        }
    }
    turns.iter().cycle().take(turns.len() * arguments.times).cloned().collect()
}

async fn play_one(turn: Turn, pool: &mut Pool) -> Played {
    let begun = Instant::now();
    let played = tokio::time::timeout(LONGEST, play::play(&turn.0, &turn.1, pool)).await;
    let result = played.unwrap_or_else(|_| Err(format!("it is not over after {LONGEST:?}")));
    Played { turn, result, took: begun.elapsed() }
}

fn label(played: &Played) -> String {
    format!("{} / {}", played.turn.1, played.turn.0.name)
}

fn say(played: &Played) {
    let seconds = played.took.as_secs_f64();
    match &played.result {
        Ok(()) => println!("ok      {} ({seconds:.1} s)", label(played)),
        Err(error) => println!("FAILED  {} ({seconds:.1} s)\n  {}\n  {error}\n", label(played), played.turn.0.why),
    }
}

fn rows(all: &[Played]) -> Vec<Row> {
    let row = |played: &Played, client: &String| Row {
        client: client.clone(),
        feature: played.turn.0.feature.clone(),
        case: played.turn.0.name.clone(),
        passed: played.result.is_ok(),
    };
    let rows = all.iter().flat_map(|played| {
        let players = played.turn.0.players.values();
        let alone = played.turn.0.players.is_empty().then_some(&played.turn.1);
        players.chain(alone).map(|client| row(played, client)).collect::<Vec<_>>()
    });
    rows.collect()
}
