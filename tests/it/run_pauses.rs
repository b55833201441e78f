//! `pausewatch run` and the pauses of its thread. The command reads its standard input, so that the test decides when
//! it ends.
use crate::program::{Coordinator, Process, ended, program};
use crate::shell::{End, Run, pausewatch};
use pausewatch::{
    client::{Client, Config, IncrementElicitationRequest, Token},
    server::{self, Listen, Server, StoreConfig},
};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Prints the address and the thread, and ends when it gets a line, or when its standard input is closed.
const TELL_AND_READ: &str =
    "echo $PAUSEWATCH_ADDRESS; echo $PAUSEWATCH_THREAD_ID; echo $PAUSEWATCH_TOKEN; read code; exit $code";

/// A command under `run`, and a client of its coordinator.
struct Told {
    run: Run,
    client: Client,
    address: String,
    thread_id: String,
    token: String,
}

impl Told {
    fn start(run: &mut Command) -> Self {
        Self::try_start(run).expect("the command tells its thread")
    }

    /// `None`: the command was killed before it told its thread.
    fn try_start(run: &mut Command) -> Option<Self> {
        let mut run = Run::spawn_with_input(run);
        let (address, thread_id, token) = (run.line(), run.line(), run.line());
        let token_of_run = Token::new(&token).ok();
        let config = Config { address: address.parse().ok()?, token: token_of_run, ..Config::default() };
        Some(Self { run, client: Client::with_config(&config).unwrap(), address, thread_id, token })
    }

    async fn pause(&self) {
        pause(&self.client, &self.thread_id).await.unwrap();
    }

    async fn resume(&self) {
        let request =
            pausewatch::client::DecrementElicitationRequest { thread_id: self.thread_id.clone(), ..Default::default() };
        self.client.decrement_elicitation(request).await.unwrap();
    }
}

async fn pause(client: &Client, thread_id: &str) -> Result<(), pausewatch::client::Error> {
    let request = IncrementElicitationRequest { thread_id: thread_id.to_owned(), ..Default::default() };
    client.increment_elicitation(request).await.map(drop)
}

fn run(args: &[&str]) -> Command {
    let mut command = pausewatch();
    command.arg("run").args(args);
    command
}

/// G1, G3. If the stopwatch were not registered, the command would be killed while the thread is paused.
#[tokio::test(flavor = "multi_thread")]
async fn time_does_not_count_while_the_thread_is_paused() {
    // A pause that begins after the limit proves nothing, so longer limits are tried until one begins in time.
    for seconds in ["2", "8", "30"] {
        let limit = Duration::from_secs(seconds.parse().unwrap());
        let started = Instant::now();
        let Some(mut told) = Told::try_start(&mut run(&[seconds, "sh", "-c", TELL_AND_READ])) else { continue };
        let is_paused = pause(&told.client, &told.thread_id).await.is_ok();
        if !is_paused || started.elapsed() >= limit {
            continue;
        }
        let paused = Instant::now();
        // Real time is tested: it passes, and the command must survive.
        tokio::time::sleep(limit + Duration::from_secs(1)).await;
        assert!(told.run.is_running(), "the command was killed while its thread was paused");
        let paused = paused.elapsed();
        told.resume().await;
        assert_eq!(told.run.ended(), End::Code(124));
        let charged = started.elapsed() - paused;
        assert!(charged >= limit - Duration::from_millis(5), "charged for a pause: {charged:?}");
        return;
    }
    panic!("no pause began before the limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ends_while_paused_is_reported_at_once() {
    let mut told = Told::start(&mut run(&["60", "sh", "-c", TELL_AND_READ]));
    told.pause().await;
    told.run.write("7\n");
    assert_eq!(told.run.ended(), End::Code(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_coordinator_is_used_and_passed_on() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", directory.path().join("socket").display());
    let server = Server::start(server::Config {
        listen: vec![address.parse::<Listen>().unwrap()],
        store: StoreConfig::Memory,
        anonymous_ttl: None,
        ..server::Config::default()
    });
    tokio::spawn(server.await.unwrap().run(std::future::pending()));
    let client = Client::with_config(&Config { address: address.parse().unwrap(), ..Config::default() }).unwrap();
    for by_environment in [false, true] {
        // Before the command starts, so that a busy machine cannot end it before the pause.
        pause(&client, "a thread").await.unwrap();
        let mut command = match by_environment {
            false => run(&["--address", &address, "--thread-id", "a thread", "1", "sh", "-c", TELL_AND_READ]),
            true => run(&["1", "sh", "-c", TELL_AND_READ]),
        };
        if by_environment {
            command.env("PAUSEWATCH_ADDRESS", &address).env("PAUSEWATCH_THREAD_ID", "a thread");
        }
        let mut told = Told::start(&mut command);
        assert_eq!((told.address.as_str(), told.thread_id.as_str()), (address.as_str(), "a thread"));
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(told.run.is_running(), "the command was killed while its thread was paused");
        told.run.write("0\n");
        assert_eq!(told.run.ended(), End::Code(0));
        told.resume().await;
    }
}

/// A question of the inner command must not use up the outer command's limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_within_a_run_uses_the_same_thread() {
    let program = env!("CARGO_BIN_EXE_pausewatch");
    let script = "echo $PAUSEWATCH_ADDRESS; echo $PAUSEWATCH_THREAD_ID; echo $PAUSEWATCH_TOKEN; exec \"$@\"";
    let mut told =
        Told::start(&mut run(&["60", "sh", "-c", script, "sh", program, "run", "60", "sh", "-c", TELL_AND_READ]));
    told.run.expect(&told.address.clone());
    told.run.expect(&told.thread_id.clone());
    told.run.expect(&told.token.clone());
    told.run.write("3\n");
    assert_eq!(told.run.ended(), End::Code(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_has_a_thread_of_its_own() {
    let ids =
        [0, 1].map(|_| Told::start(&mut run(&["60", "sh", "-c", TELL_AND_READ]))).map(|told| told.thread_id.clone());
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_coordinator_is_private_and_removes_its_socket() {
    let alone = tempfile::tempdir().unwrap();
    let entries = || fs::read_dir(alone.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let cases: &[(&[&str], Option<&str>, End)] = &[
        (&["60"], None, End::Code(0)),
        (&["60"], Some("TERM"), End::Signal(15)),
        (&["60"], Some("USR1"), End::Signal(10)),
        (&["60"], Some("ALRM"), End::Code(124)),
        (&["-s", "KILL", "60"], Some("ALRM"), End::Signal(9)),
        (&["-f", "-s", "KILL", "60"], Some("ALRM"), End::Code(137)),
    ];
    for (options, signal, end) in cases {
        let mut command = run(&[*options, &["sh", "-c", TELL_AND_READ]].concat());
        let mut told = Told::start(command.env("TMPDIR", alone.path()));
        let socket = Path::new(told.address.strip_prefix("unix:").unwrap());
        assert!(fs::metadata(socket).unwrap().file_type().is_socket());
        assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        match signal {
            Some(signal) => told.run.signal(signal),
            None => told.run.write("0\n"),
        }
        assert_eq!(told.run.ended(), *end);
        assert_eq!(entries(), <Vec<std::path::PathBuf>>::new(), "{options:?} {signal:?}");
    }
    // A command that is not found leaves nothing behind either.
    let status = run(&["60", "no-such-command"]).env("TMPDIR", alone.path()).stderr(Stdio::null()).status();
    assert_eq!(End::from(status.unwrap()), End::Code(127));
    assert!(entries().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_coordinator_starts_with_a_long_or_missing_temporary_directory() {
    let long = tempfile::Builder::new().prefix(&"long".repeat(40)).tempdir().unwrap();
    for directory in [long.path(), Path::new("/no/such/directory")] {
        let mut told = Told::start(run(&["60", "sh", "-c", TELL_AND_READ]).env("TMPDIR", directory));
        let socket = Path::new(told.address.strip_prefix("unix:").unwrap());
        assert!(socket.exists() && !socket.starts_with(directory), "{}", told.address);
        told.run.write("0\n");
        assert_eq!(told.run.ended(), End::Code(0));
    }
    assert_eq!(fs::read_dir(long.path()).unwrap().count(), 0);
}

#[test]
fn a_private_coordinator_does_not_need_the_configured_one() {
    for (name, value) in [("ADDRESS", "junk::"), ("TOKEN", "two words"), ("TLS_CERT", "/no/such/file")] {
        let mut command = run(&["--private", "--thread-id", "t", "60", "sh", "-c", "exit 3"]);
        let output = command.env(format!("PAUSEWATCH_{name}"), value).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(3), &[][..]), "{name}: {output:?}");
    }
}

#[test]
fn the_limit_holds_without_the_coordinator() {
    let unreachable = |grace: &str, limit: &str| {
        let started = Instant::now();
        let args = ["--address", "unix:/no/such/socket", "--disconnect-grace", grace, limit, "sleep", "60"];
        let output = run(&args).output().unwrap();
        let warnings = String::from_utf8(output.stderr).unwrap();
        assert_eq!(End::from(output.status), End::Code(124));
        assert_eq!(warnings.lines().count(), 1, "{warnings}");
        assert!(
            warnings.starts_with("pausewatch run: warning: no coordinator at unix:/no/such/socket: "),
            "{warnings}"
        );
        started.elapsed()
    };
    unreachable("0", ".2");
    assert!(unreachable("1s", ".2") >= Duration::from_millis(1_195), "it waits for the connection first");
}

#[test]
fn a_thread_that_the_coordinator_refuses_and_its_later_loss_are_each_reported() {
    let directory = tempfile::tempdir().unwrap();
    let added = ended(program().args(["token", "add", "--thread-id", "mine", "t.toml"]).current_dir(directory.path()));
    assert_eq!(added.code, Some(0), "{added:?}");
    let tokens = directory.path().join("t.toml");
    let options = ["--store", "memory", "--listen", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()];
    let coordinator = Coordinator::start_with(options);
    let address = coordinator.address.clone();

    let mut command = coordinator.command(["run", "60", "cat"]);
    command.env("PAUSEWATCH_TOKEN", added.out.trim()).stdin(Stdio::piped());
    let mut run = Process::start(command);
    let refused = run.error_line();
    let expected = format!("pausewatch run: warning: the coordinator at {address} refuses thread t: ");
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(refused.ends_with(". The time limit holds, plus at most 30s"), "{refused}");
    drop(coordinator);
    let lost = run.error_line();
    assert!(lost.starts_with(&format!("pausewatch run: warning: no coordinator at {address}: ")), "{lost}");
    run.close_stdin();
    let ended = run.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[test]
fn an_invalid_address_or_thread_is_bad_usage() {
    for args in [["--address", "nonsense"], ["--thread-id", "a\nb"], ["--disconnect-grace", "x"]] {
        let status = run(&args).args(["5", "true"]).stderr(Stdio::null()).status();
        assert_eq!(End::from(status.unwrap()), End::Code(125), "{args:?}");
    }
    let mut named = run(&["5", "true"]);
    let status = named.env("PAUSEWATCH_ADDRESS", "nonsense").stderr(Stdio::null()).status();
    assert_eq!(End::from(status.unwrap()), End::Code(125));
    let mut empty = run(&["5", "true"]);
    empty.env("PAUSEWATCH_ADDRESS", "").env("PAUSEWATCH_THREAD_ID", "");
    assert_eq!(End::from(empty.status().unwrap()), End::Code(0), "an empty variable counts as not set");
}
