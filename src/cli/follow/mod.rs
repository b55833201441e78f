//! `pausewatch follow --stdio`: timeouts for a program in any language, by JSON lines.
//!
//! 1. An invalid line is answered with an error, and changes nothing else.
//! 2. Unread output delays no timeout. Each timeout has at most one waiting line, its latest; errors beyond [`QUEUE`]
//!    lines are dropped.
//! 3. It ends when standard input ends; timeouts that are still open end without a line. If output cannot be written,
//!    it fails, because its parent would wait for lines that are lost. A reader that has gone away is not a failure.
mod command;
mod timeout;

use super::{call, connection::Connection, failure, failure::Failure, lost_link, output};
use crate::client::{Address, Client, stopwatch::StopwatchController};
use command::Command;
use serde_json::json;
use std::{collections::HashMap, process::ExitCode, sync::Arc, time::Duration};
use timeout::{Timeout, follow};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    sync::{Notify, mpsc},
    task::{Id, JoinError, JoinSet},
};

/// The maximum number of open timeouts.
const MAX_TIMEOUTS: usize = 10_000;
/// The maximum number of different graces; each has a connection of its own.
const MAX_GRACES: usize = 16;
/// The maximum length of a line, in bytes.
const MAX_LINE: u64 = 64 << 10;
/// Lines that wait for a reader.
const QUEUE: usize = 1_024;
/// How long lines are still written after standard input has ended.
const LAST_LINES: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line on standard input is a JSON object:
  {\"do\": \"start\", \"id\": \"1\", \"thread_id\": \"t\", \"limit\": \"30s\", \"max_wall\": \"1h\", \"grace\": \"30s\"}
  {\"do\": \"stop\", \"id\": \"1\"}
max_wall and grace are optional; 0 is no limit. The answers are lines too, with `event` and `id`: `started`; `frozen` and `running` when the clock \
stops and goes on; `expired` and `stopped`, the last one, with `charged_ms` and `wall_ms`; `expired` also has `ended_by` (limit or \
max_wall); `error` with a `message`. The first loss of the coordinator is a warning on standard error.
At most 10,000 timeouts are open at once, with at most 16 different graces. A line has at most 64 KiB. Ends with the end of standard \
input.")]
pub struct Args {
    /// Read from standard input and write to standard output.
    #[arg(long, required = true)]
    stdio: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(args: Args) -> ExitCode {
    call::run("follow", &args.connection, async |client, settings| {
        serve(client, settings.address.clone().unwrap_or_default()).await
    })
}

async fn serve(client: Client, address: Address) -> Result<(), Failure> {
    let (output, lines) = mpsc::channel(QUEUE);
    let mut writer = tokio::spawn(write(lines));
    let mut server =
        Server { client, address, output, controllers: HashMap::new(), open: HashMap::new(), tasks: JoinSet::new() };
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    loop {
        let mut limited = (&mut input).take(MAX_LINE + 1 - line.len() as u64);
        tokio::select! {
            read = limited.read_until(b'\n', &mut line) => {
                let read = read.map_err(|error| Failure::System("read standard input".into(), error))?;
                if read == 0 && line.len() as u64 <= MAX_LINE {
                    break;
                }
                if line.len() as u64 > MAX_LINE && line.last() != Some(&b'\n') {
                    server.refuse(None, &format!("the line is longer than {MAX_LINE} bytes"));
                    skip_line(&mut input).await.map_err(|error| Failure::System("read standard input".into(), error))?;
                } else {
                    server.handle(&line);
                }
                line.clear();
            }
            // Only a failure ends it before `server`, which has a sender.
            written = &mut writer => return joined(written),
            Some(ended) = server.tasks.join_next_with_id() => {
                server.remove(ended.map_or_else(|error| error.id(), |(task, ())| task));
            }
        }
    }
    drop(server);
    // They may have no reader.
    tokio::time::timeout(LAST_LINES, writer).await.map_or(Ok(()), joined)
}

fn joined(written: Result<Result<(), Failure>, JoinError>) -> Result<(), Failure> {
    written.unwrap_or_else(|error| Err(Failure::System("write to standard output".into(), error.into())))
}

async fn skip_line(input: &mut BufReader<tokio::io::Stdin>) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf().await?;
        let (length, found) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(length);
        if found {
            return Ok(());
        }
    }
}

async fn write(mut lines: mpsc::Receiver<String>) -> Result<(), Failure> {
    let mut out = tokio::io::stdout();
    let mut has_reader = true;
    while let Some(line) = lines.recv().await {
        has_reader = has_reader && output::print_part(&mut out, &line).await?;
    }
    Ok(())
}

/// An open timeout.
struct Open {
    task: Id,
    stop: Arc<Notify>,
    grace: Duration,
}

struct Server {
    client: Client,
    address: Address,
    output: mpsc::Sender<String>,
    controllers: HashMap<Duration, StopwatchController>,
    open: HashMap<String, Open>,
    tasks: JoinSet<()>,
}

impl Server {
    fn handle(&mut self, line: &[u8]) {
        // An id is free again with the last line of its timeout.
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.remove(ended.map_or_else(|error| error.id(), |(task, ())| task));
        }
        let refused = match Command::parse(line) {
            Err((id, why)) => Some((id, why)),
            Ok(Command::Stop { id }) => match self.open.get(&id) {
                Some(open) => {
                    open.stop.notify_one();
                    None
                }
                None => Some((Some(id), "no timeout with this id is open".to_owned())),
            },
            Ok(Command::Start { id, thread_id, limit, max_wall, grace }) => {
                let started = self.controller(grace).and_then(|controller| {
                    if self.open.contains_key(&id) {
                        return Err("a timeout with this id is open".to_owned());
                    }
                    if self.open.len() >= MAX_TIMEOUTS {
                        return Err(format!("{MAX_TIMEOUTS} timeouts are open"));
                    }
                    Timeout::start(&controller, id.clone(), &thread_id, limit, max_wall)
                });
                match started {
                    Ok(timeout) => {
                        let stop = timeout.stop.clone();
                        let task = self.tasks.spawn(follow(timeout, self.output.clone())).id();
                        self.open.insert(id, Open { task, stop, grace });
                        None
                    }
                    Err(why) => Some((Some(id), why)),
                }
            }
        };
        if let Some((id, why)) = refused {
            self.refuse(id.as_deref(), &why);
        }
    }

    fn refuse(&self, id: Option<&str>, why: &str) {
        // Full: nobody reads it.
        let _ = self.output.try_send(format!("{}\n", json!({"event": "error", "id": id, "message": why})));
    }

    fn controller(&mut self, grace: Duration) -> Result<StopwatchController, String> {
        if !self.controllers.contains_key(&grace) && self.controllers.len() >= MAX_GRACES {
            // Those without open timeouts make room.
            self.controllers.retain(|grace, _| self.open.values().any(|open| open.grace == *grace));
        }
        if !self.controllers.contains_key(&grace) && self.controllers.len() >= MAX_GRACES {
            return Err(format!("{MAX_GRACES} different graces are in use"));
        }
        let make = || {
            let controller = StopwatchController::with_disconnect_grace(self.client.clone(), grace);
            let say = |message: &str| failure::say("follow", message);
            lost_link::warn(&self.address, &controller, grace, say);
            controller
        };
        Ok(self.controllers.entry(grace).or_insert_with(make).clone())
    }

    fn remove(&mut self, ended: Id) {
        self.open.retain(|_, open| open.task != ended);
    }
}
