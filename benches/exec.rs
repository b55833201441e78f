//! `exec`: the cost of judging every program of a command of the exec server: time, and the memory of its supervisor; and that of a program that
//! leaves the sandbox.
use crate::measure::Latencies;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const RULES: &str = "prefix_rule(['rm'], decision = 'forbidden')\nprefix_rule(['git', 'push'], decision = 'prompt')\n";
/// `uname` leaves the sandbox.
const ALLOW: &str = "prefix_rule(['uname'])\n";
const STARTS: usize = 100;
const SUPERVISORS: usize = 10;
const TARGETS: usize = 600;

const TRUE: &str = "1,000 x /bin/true";
const MAKE: &str = "make, 600 programs";
const START: &str = "start of a command";
const MEMORY: &str = "a supervisor";
const WALL: &str = "wall, ms";
const MORE: &str = "more at p50, ms";
const JUDGED: &str = "judged";
const UNJUDGED: &str = "unjudged";
const OUTSIDE: &str = "outside";
const ONE: &str = "one program outside";
const FOUR: &str = "four programs outside";

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let title = format!("exec: {} runs in turn; {STARTS} starts in each", settings.runs);
    let mut table = Table::new(title, [UNJUDGED, JUDGED, OUTSIDE]);
    let data = settings.data_dir()?;
    std::fs::write(data.path().join("bench.rules"), RULES)?;
    std::fs::write(data.path().join("allow.rules"), ALLOW)?;
    let targets: Vec<_> = (0..TARGETS).map(|number| format!("t{number}")).collect();
    let makefile = format!("all: {0}\n.PHONY: all {0}\n{0}:\n\t@/bin/true\n", targets.join(" "));
    std::fs::write(data.path().join("Makefile"), makefile)?;
    let mut servers = [
        (UNJUDGED, Server::start(settings, data.path(), &[])?),
        (JUDGED, Server::start(settings, data.path(), &["--rules", "bench.rules"])?),
    ];
    let mut allowing = Server::start(settings, data.path(), &["--rules", "allow.rules"])?;
    let loops = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done";
    for run in 0..settings.runs {
        eprintln!("exec: run {} of {}", run + 1, settings.runs);
        for (case, line) in [(TRUE, loops), (MAKE, "make -s")] {
            for (column, server) in &mut servers {
                table.add((case, WALL, column), milliseconds(server.shell(line)?));
            }
        }
        let mut times: [Latencies; 2] = Default::default();
        for _ in 0..STARTS {
            for ((_, server), times) in servers.iter_mut().zip(&mut times) {
                times.record(server.shell(":")?);
            }
        }
        let [unjudged, judged] = times.map(|mut times| times.percentiles([50.0])[0] / 1_000.0);
        table.add((START, "p50, ms", UNJUDGED), unjudged);
        table.add((START, "p50, ms", JUDGED), judged);
        table.add((START, MORE, JUDGED), judged - unjudged);
    }
    for _ in 0..settings.runs {
        for (case, line) in [(ONE, "uname"), (FOUR, "uname; uname; uname; uname")] {
            let mut times: [Latencies; 2] = Default::default();
            for _ in 0..STARTS / 4 {
                times[0].record(servers[0].1.shell(line)?);
                times[1].record(allowing.shell(line)?);
            }
            let [inside, outside] = times.map(|mut times| times.percentiles([50.0])[0] / 1_000.0);
            table.add((case, "p50, ms", UNJUDGED), inside);
            table.add((case, "p50, ms", OUTSIDE), outside);
            table.add((case, MORE, OUTSIDE), outside - inside);
        }
    }
    let [_, (_, judged)] = &mut servers;
    for (count, metric) in [(1, "PSS with 1 command, kB"), (SUPERVISORS, PSS)] {
        while judged.supervisors()?.len() < count {
            judged.call("exec_command", json!({"command": ":; sleep 600", "yield_time_ms": 1}))?;
        }
        let memory = judged.supervisors()?.into_iter().map(proportional_kilobytes).collect::<Result<Vec<_>>>()?;
        table.add((MEMORY, metric, JUDGED), memory.iter().sum::<f64>() / memory.len() as f64);
    }
    table.goal_at_most_times(TRUE, (TRUE, WALL, JUDGED), 1.15, UNJUDGED);
    table.goal_at_most_times(MAKE, (MAKE, WALL, JUDGED), 1.15, UNJUDGED);
    table.goal_at_most("a command starts later by", (START, MORE, JUDGED), 2.0, "ms");
    table.goal_at_most("one program that leaves the sandbox takes longer by", (ONE, MORE, OUTSIDE), 30.0, "ms");
    table.goal_at_most("memory of a supervisor, 10 commands", (MEMORY, PSS, JUDGED), 1_024.0, "kB (PSS)");
    table.note("No rule is about any of these programs, except those that leave the sandbox. PSS: a page that N processes share counts as 1/N of it.");
    Ok(table)
}

const PSS: &str = "PSS with 10 commands, kB";

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// An exec server that is used by MCP on its standard input and output.
struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    directory: String,
    last_id: u64,
}

impl Server {
    fn start(settings: &Settings, directory: &Path, options: &[&str]) -> Result<Self> {
        let mut command = Command::new(&settings.program);
        command
            .args(["exec-server", "--private"])
            .args(options)
            .current_dir(directory)
            // Nothing leaves the sandbox if commands can write there.
            .env("HOME", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let directory = directory.to_str().ok_or("the directory is not UTF-8")?.to_owned();
        let mut server = Self { child, stdin, stdout, directory, last_id: 0 };
        let client = json!({"name": "bench", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        server.request("initialize", hello)?;
        writeln!(server.stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        writeln!(self.stdin, "{request}")?;
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err("the exec server has ended".into());
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == self.last_id {
                return Ok(message["result"]["structuredContent"].take());
            }
        }
    }

    fn call(&mut self, tool: &str, mut arguments: Value) -> Result<Value> {
        arguments["workdir"] = self.directory.clone().into();
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The duration of a call that runs this line.
    fn shell(&mut self, line: &str) -> Result<Duration> {
        let begin = Instant::now();
        let outcome = self.call("shell", json!({"command": line}))?;
        let time = begin.elapsed();
        // A note says that an allowed program has stayed in the sandbox.
        match outcome["exit_code"] == 0 && outcome["note"].is_null() {
            true => Ok(time),
            false => Err(format!("`{line}`: {outcome}").into()),
        }
    }

    /// The supervisors of its commands whose shells have started.
    fn supervisors(&self) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for child in children(self.child.id())? {
            let line = std::fs::read_to_string(format!("/proc/{child}/cmdline"))?;
            if line.contains("exec-supervisor") {
                while children(child)?.is_empty() {
                    std::thread::yield_now();
                }
                found.push(child);
            }
        }
        Ok(found)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn children(process: u32) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    Ok(text.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?)
}

fn proportional_kilobytes(process: u32) -> Result<f64> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = maps.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or("no Pss in smaps_rollup")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
