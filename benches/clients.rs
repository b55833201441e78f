//! `clients`: the time that each client library adds to a call of its language's bare stub, and how late its timeouts
//! expire.
//!
//! The Rust client is measured here; each other language has its own `clients/*/bench`, which gets the server by
//! `PAUSEWATCH_ADDRESS` and prints one line of JSON for each client (see [`Line`]). All call GetPauseState of one
//! thread over loopback, with stub and client alternating, so that the machine's load affects both.
use crate::client_timeouts;
use crate::measure::Latencies;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::target::{Server, Target};
use pausewatch::client::Client;
use pausewatch::proto::v1::{GetPauseStateRequest, elicitation_service_client::ElicitationServiceClient};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tonic::transport::{Channel, Endpoint};

/// How many calls of one kind are made before the other kind, and how often; the first turns are the warm-up.
const IN_A_ROW: usize = 100;
const TURNS: usize = 60;
const WARM_UP: usize = 10;
/// The maximum time that a client may add.
const GOAL_US: f64 = 1_000.0;

const STUB: &str = "bare stub";
const CLIENT: &str = "client";
const P50: &str = "p50, us";
const ADDED: &str = "added, us";

/// The results of one client: medians in microseconds.
#[derive(Deserialize)]
struct Line {
    client: String,
    stub_us: f64,
    client_us: f64,
}

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let mut table = Table::new("clients: GetPauseState, one call at a time, over loopback; timeouts", [STUB, CLIENT]);
    let mut names = Vec::new();
    for run in 1..=settings.runs {
        eprintln!("clients: run {run} of {}, rust", settings.runs);
        let server = Target::Memory.start(settings)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut lines = vec![runtime.block_on(rust(&server))?];
        for program in programs()? {
            eprintln!("clients: run {run} of {}, {}", settings.runs, program.display());
            match other(&program, server.address()) {
                Ok(measured) => lines.extend(measured),
                Err(error) => table.note(format!("Not measured: {error}")),
            }
        }
        for Line { client, stub_us, client_us } in lines {
            table.add((&client, P50, STUB), stub_us);
            table.add((&client, P50, CLIENT), client_us);
            table.add((&client, ADDED, CLIENT), client_us - stub_us);
            if !names.contains(&client) {
                names.push(client);
            }
        }
        client_timeouts::run(settings, &mut table, CLIENT)?;
    }
    for name in &names {
        table.goal_at_most(&format!("what the client adds, {name}"), (name, ADDED, CLIENT), GOAL_US, "us");
    }
    client_timeouts::goals(&mut table, &names, CLIENT);
    Ok(table)
}

async fn rust(server: &Server) -> Result<Line> {
    let client = Client::new(&server.address().parse()?)?;
    let channel = Endpoint::from_shared(format!("http://{}", server.address()))?.connect().await?;
    let mut stub: ElicitationServiceClient<Channel> = ElicitationServiceClient::new(channel);
    let (mut bare, mut ours) = (Latencies::default(), Latencies::default());
    let request = GetPauseStateRequest { thread_id: "thread".to_owned() };
    for turn in 0..TURNS {
        for _ in 0..IN_A_ROW {
            let sent = Instant::now();
            stub.get_pause_state(request.clone()).await?;
            if turn >= WARM_UP {
                bare.record(sent.elapsed());
            }
        }
        for _ in 0..IN_A_ROW {
            let sent = Instant::now();
            client.get_pause_state(request.clone()).await?;
            if turn >= WARM_UP {
                ours.record(sent.elapsed());
            }
        }
    }
    let ([stub_us], [client_us]) = (bare.percentiles([50.0]), ours.percentiles([50.0]));
    Ok(Line { client: "rust".to_owned(), stub_us, client_us })
}

/// The benchmarks of the other languages: `clients/LANGUAGE/bench`, or `run` in a folder of that name.
fn programs() -> Result<Vec<PathBuf>> {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let mut folders: Vec<_> = std::fs::read_dir(clients)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.sort();
    let program =
        |folder: PathBuf| [folder.join("bench/run"), folder.join("bench")].into_iter().find(|path| path.is_file());
    Ok(folders.into_iter().filter_map(program).collect())
}

fn other(program: &Path, address: &str) -> Result<Vec<Line>> {
    let output = Command::new(program).env("PAUSEWATCH_ADDRESS", address).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", program.display(), output.status).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    let parse =
        |line| serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", program.display()).into());
    lines.lines().map(parse).collect()
}
