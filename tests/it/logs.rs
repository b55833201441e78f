//! What a server logs about pauses, and that an unread log delays nobody.
use crate::pty::Terminal;
use crate::support::{Process, timed};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

fn serve(options: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--log-format", "json"]).args(options);
    command.env_remove("RUST_LOG");
    Process::start(command)
}

/// The log lines until its end, by target.
fn said(server: Process) -> Vec<Value> {
    server.signal(Signal::TERM);
    let (status, text) = server.end();
    assert!(status.success(), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

fn of_pauses(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["target"] == "pausewatch::pauses").collect()
}

#[test]
fn no_color_holds_for_the_log_on_a_terminal() {
    for no_color in [false, true] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
        command.env_remove("RUST_LOG").env_remove("NO_COLOR");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let mut terminal = Terminal::start(&command, 200, 24);
        terminal.wait_for_text("serving from");
        assert_eq!(terminal.screen.has_colors, !no_color);
    }
}

#[tokio::test]
async fn a_pause_and_its_end_are_a_line_each() {
    let server = serve(&[]);
    let mut api = server.api().await;
    let first = api.increment("t", None).await.elicitation.unwrap().elicitation_id;
    let last = api.increment("t", Some(Duration::from_secs(60))).await.elicitation.unwrap().elicitation_id;
    api.try_decrement("t", "", Some(&first)).await.unwrap();
    api.try_renew("t", &last, Some(Duration::from_secs(1))).await.unwrap();
    timed("the end of the lease", async {
        while api.get("t").await.paused {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let lines = said(server);
    let pauses = of_pauses(&lines);
    let [paused, resumed] = pauses[..] else { panic!("{lines:#?}") };
    for (line, message) in [(paused, "paused"), (resumed, "resumed")] {
        assert_eq!(line["message"], message);
        assert_eq!((&line["level"], &line["thread"]), (&"INFO".into(), &"t".into()));
        assert_eq!((&line["holder"], &line["reason"]), (&"a holder".into(), &"a reason".into()));
    }
    assert_eq!((&paused["caller"], &resumed["caller"]), (&"127.0.0.1".into(), &Value::Null));
    assert_eq!(resumed["ended_by"], "lease");
    let length = resumed["paused_for"].as_f64().unwrap();
    assert!((1.0..30.0).contains(&length), "{length} s, from the first increment to the end of the lease");
}

async fn pause(server: &Process, thread: &str, times: usize) {
    let mut api = server.api().await;
    for _ in 0..times {
        api.increment(thread, None).await;
        api.try_decrement(thread, "", None).await.unwrap();
    }
}

/// Pauses a thread until the log says it: then the lines before are written. At its end, a server waits only shortly for
/// lines that are not written. Returns the number of pauses.
async fn until_written(server: &Process) -> usize {
    timed("the lines", async {
        for pauses in 1.. {
            pause(server, "last", 1).await;
            if server.heard().contains("\"last\"") {
                return pauses;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("the loop has no end")
    })
    .await
}

#[tokio::test]
async fn dropped_lines_of_many_pauses_per_second_are_counted() {
    let mut server = serve(&[]);
    server.listen();
    pause(&server, "t", 500).await;
    let count = 500 + until_written(&server).await;
    let lines = said(server);
    let pauses = of_pauses(&lines);
    let missing: u64 = pauses.iter().filter_map(|line| line["lines"].as_u64()).sum();
    let logged = pauses.iter().filter(|line| line["message"] == "paused" || line["message"] == "resumed").count();
    assert_eq!(logged as u64 + missing, 2 * count as u64);

    let mut server = serve(&["--log-every-pause"]);
    server.listen();
    pause(&server, "t", 500).await;
    let count = 500 + until_written(&server).await;
    assert_eq!(of_pauses(&said(server)).len(), 2 * count);
}

/// Nobody reads standard error, whose pipe takes 64 KiB.
#[tokio::test]
async fn g7_an_unread_log_delays_no_call() {
    let server = serve(&["--log-every-pause"]);
    // Some 500 bytes each: including the pipe, 1.1 MB may wait.
    let thread = "t".repeat(250);
    for _ in 0..3 {
        timed("1,000 calls", pause(&server, &thread, 500)).await;
    }
    let told = of_pauses(&said(server)).len();
    assert!(told > 100 && told < 3_000, "{told}");
}

#[tokio::test]
async fn rust_log_selects_targets_and_says_what_it_does_not_understand() {
    for (rust_log, pauses, complaints) in [("info,pausewatch::pauses=off", 0, 0), ("", 2, 0), ("pausewatch=loud", 2, 1)]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]).env("RUST_LOG", rust_log);
        let server = Process::start(command);
        pause(&server, "t", 1).await;
        server.signal(Signal::TERM);
        let (status, text) = server.end();
        assert!(status.success(), "{text}");
        assert_eq!(text.matches("pausewatch::pauses: ").count(), pauses, "RUST_LOG={rust_log:?}: {text}");
        assert_eq!(text.matches("RUST_LOG is ignored: ").count(), complaints, "RUST_LOG={rust_log:?}: {text}");
    }
}
