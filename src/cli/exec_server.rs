//! `pausewatch exec-server`: MCP tools that run the commands of a thread.
//!
//! 1. Standard output belongs to MCP; messages go to standard error.
//! 2. The runtime has one thread: on Linux, commands die with the thread that started them, which must be the main thread.
use super::{
    connection::{Connection, Thread},
    coordinator::Coordinator,
    default_coordinator,
    exec_http::{HttpArgs, ReadToken},
    exec_reach, exit, failure, output, stderr,
    token::Key,
};
use crate::{
    client::stopwatch::StopwatchController,
    core::types::ThreadId,
    exec::judge,
    exec::mcp::{
        Config, ExecServer, Http, Launcher, Limits, NestedPrograms, Policy, SandboxPolicy, WhenUnable, default_shell,
        serve_http, serve_stdio,
    },
    exec::policy::{Rules, code_paths, warnings_about_allow},
    exec::sandbox::{Sandbox, hard_links},
    exec::supervise::{descriptors::close_inherited, ignored_at_start},
};
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::prelude::*;

/// This program.
const PROGRAM: &str = "/proc/self/exe";

/// The arguments of `exec-server`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("address", |arg| arg.help(ADDRESS_HELP)), mut_arg("thread_id", |arg| arg.help(THREAD_HELP)))]
pub struct Args {
    #[command(flatten)]
    http: HttpArgs,
    /// Rules that allow, prompt for or forbid commands, in the Starlark format of Codex. Repeatable.
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// The action for a command that a person has to approve, if the client cannot ask a person.
    #[arg(long, value_name = "ACTION", default_value = "deny")]
    when_unable: WhenUnable,
    /// A file or directory that commands may change, besides their working directory and those for temporary files. Repeatable.
    #[arg(long, value_name = "DIR")]
    writable: Vec<PathBuf>,
    /// Let commands change every file that the user can change.
    #[arg(long, conflicts_with = "writable")]
    no_sandbox: bool,
    /// The default time limit of `shell` calls; 0: no limit.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "2m")]
    timeout: Duration,
    /// The maximum number of commands at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value = "256")]
    max_commands: u16,
    /// The maximum of unread output that is kept per command, in bytes: its beginning and its end.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..), default_value = "1048576")]
    max_output: u32,
    /// End a command of `exec_command` after this much unpaused time without a call that uses it; 0: never.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "30m")]
    idle_timeout: Duration,
    /// The maximum length of a pause by a question of this server, such as 8h: then the question is withdrawn and counts as a no.
    /// 0: none.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = super::duration::parse_max_pause)]
    max_pause: Duration,
    /// Maximum extra time, in all, while the coordinator is unreachable. A lost connection is noticed
    /// within 30s.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "30s")]
    disconnect_grace: Duration,
    /// Use a private coordinator, even if an address is configured or a coordinator answers at the default address.
    #[arg(long, conflicts_with = "address")]
    private: bool,
    /// Load the rules, print what is enforced on this system, and exit.
    #[arg(long)]
    check: bool,
    /// Print the thread and the coordinator on standard error.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    thread: Thread,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    key: Key,
}

const ADDRESS_HELP: &str = "\
Where the coordinator listens: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH; of several replicas, their addresses with commas between them [env: PAUSEWATCH_ADDRESS] \
[default: with a thread id 127.0.0.1:7420, if a coordinator answers there; else a private one, while this server runs]";
const THREAD_HELP: &str = "\
The default thread of calls, which may name one in `_meta` [env: PAUSEWATCH_THREAD_ID, else CODEX_THREAD_ID, else \
CLAUDE_CODE_SESSION_ID] [default: a new one for each MCP session]";

/// Serves until standard input ends, or until SIGTERM, SIGINT, or SIGHUP if that was not ignored (`nohup`).
pub(crate) fn run(args: Args) -> ExitCode {
    let token = args.http.token();
    close_inherited();
    log();
    let open_files = super::serve::raise_open_files();
    let runtime = match super::runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("start: {error}")),
    };
    let served = match args.check {
        true => check(&args),
        false => runtime.block_on(serve(args, token, open_files)),
    };
    // This does not wait for a pending read of standard input.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}

/// `open_files`: the soft limit of open files for commands, if this process has another.
async fn serve(args: Args, token: Result<Option<ReadToken>, String>, open_files: Option<u64>) -> Result<(), String> {
    let handler = |kind| signal(kind).map_err(|error| format!("handle signals: {error}"));
    let (mut terminate, mut interrupt) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
    // Handled in any case, so that commands do not ignore it.
    let mut hangup = handler(SignalKind::hangup())?;
    let ends_at_hangup = ignored_at_start() & 1 << (SignalKind::hangup().as_raw_value() - 1) == 0;
    let settings = if args.private { args.connection.without_coordinator() } else { args.connection.settings() };
    let mut settings = settings.map_err(|why| why.to_string())?;
    let (thread_id, thread_source) = (args.thread.or(&settings), args.thread.source(&settings));
    if let Some(thread_id) = &thread_id {
        ThreadId::parse("thread_id", thread_id).map_err(|error| error.to_string())?;
    }
    let policy = policy(&args)?;
    let is_sandboxed = policy.sandbox.as_ref().is_some_and(|sandbox| sandbox.enforcement.is_any());
    let http = args.http.listen(token?, is_sandboxed && !policy.rules.allow_any()).await?;
    default_coordinator::choose("exec-server", &mut settings, thread_id.as_deref(), args.private).await;
    let coordinator = match settings.address {
        Some(_) => Coordinator::configured_for_all(settings, args.key.signer()?)?,
        None => {
            let coordinator = Coordinator::private_for_all(&always_writable(&policy)).await;
            coordinator.map_err(|why| format!("start a private coordinator: {why}"))?
        }
    };
    if args.verbose {
        failure::say("exec-server", &coordinator.described(thread_id.as_deref().zip(thread_source)));
    }
    let coordinator = Arc::new(coordinator);
    let environment = coordinator.clone();
    let limits = Limits {
        timeout: or_none(args.timeout),
        commands: args.max_commands.into(),
        output: args.max_output.try_into().unwrap_or(usize::MAX),
        idle: or_none(args.idle_timeout),
        max_pause: or_none(args.max_pause),
        ..Limits::default()
    };
    let server = ExecServer::new(Config {
        controller: StopwatchController::with_disconnect_grace(coordinator.client(), args.disconnect_grace),
        environment: Arc::new(move |thread_id| environment.environment(thread_id)),
        launcher: Launcher { program: PROGRAM.into(), shell: default_shell(policy.sandbox.as_ref()), open_files },
        policy,
        thread_id,
        limits,
    });
    let served = tokio::select! {
        served = serve_clients(&server, http) => served.map_err(|error| error.to_string()),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = hangup.recv(), if ends_at_hangup => Ok(()),
    };
    server.shutdown().await;
    drop(coordinator);
    served
}

/// Prints what is enforced.
fn check(args: &Args) -> Result<(), String> {
    let policy = policy(args)?;
    let directory = std::env::current_dir().ok().filter(|_| policy.sandbox.is_some());
    let reachable = if policy.sandbox.is_some() { exec_reach::reachable() } else { Vec::new() };
    let sandbox = policy.sandbox.map_or("off (--no-sandbox)".to_owned(), |sandbox| sandbox.enforcement.to_string());
    let mut text = format!("sandbox: {sandbox}\nrules: {}\n", policy.nested);
    for what in reachable {
        text += &format!("commands can act outside the sandbox through: {what}\n");
    }
    if let Some(links) = directory.and_then(|directory| hard_links(&directory)) {
        text += &format!(
            "hard links: {} files in this directory have another name outside it, such as {:?}; commands can change them\n",
            links.count, links.example
        );
    }
    output::print(text.as_bytes()).map_err(|error| error.to_string())
}

/// 0 means no limit, as with GNU `timeout`.
fn or_none(limit: Duration) -> Option<Duration> {
    (!limit.is_zero()).then_some(limit)
}

async fn serve_clients(server: &Arc<ExecServer>, http: Option<(TcpListener, Http)>) -> io::Result<()> {
    match http {
        Some((listener, http)) => serve_http(server, listener, http).await,
        None => {
            output::check_open().map_err(io::Error::other)?;
            serve_stdio(server).await
        }
    }
}

fn policy(args: &Args) -> Result<Policy, String> {
    let rules = Rules::load(&args.rules).map_err(|error| error.to_string())?;
    for warning in rules.warnings().iter().cloned().chain(warnings_about_allow(&rules)) {
        failure::say("exec-server", &format!("warning: {warning}"));
    }
    let sandbox = match args.no_sandbox {
        true => None,
        false => Some(SandboxPolicy::new(&args.writable, Sandbox::probe())?),
    };
    for file in args.rules.iter().filter(|file| sandbox.as_ref().is_some_and(|sandbox| sandbox.is_exposed(file))) {
        let exposed =
            "commands can change these rules, which then hold at the next start: keep them where commands cannot write";
        failure::say("exec-server", &format!("warning: {}: {exposed}", file.display()));
    }
    let code = code_paths(|name| std::env::var_os(name)).into_iter().filter(|_| !rules.is_empty());
    for (name, path) in code.filter(|(_, path)| sandbox.as_ref().is_some_and(|sandbox| sandbox.is_exposed(path))) {
        let kept = "commands can put code or settings there, so what the rules allow stays in the sandbox";
        failure::say("exec-server", &format!("warning: {name} names {path:?}: {kept}"));
    }
    let nested = nested_programs(&rules, sandbox.is_some());
    Ok(Policy { rules: Arc::new(rules), when_unable: args.when_unable, sandbox, nested })
}

fn nested_programs(rules: &Rules, is_sandboxed: bool) -> NestedPrograms {
    if rules.is_empty() {
        return NestedPrograms::Judged { restricted: Arc::default(), has_allowed: false };
    }
    if !is_sandboxed {
        // The filter takes the privileges of set-user-id programs away, as the sandbox does.
        return NestedPrograms::NotJudged("they are only in the sandbox".to_owned());
    }
    match judge::probe(Path::new(PROGRAM)) {
        Ok(()) => {
            NestedPrograms::Judged { restricted: rules.restricted_programs().into(), has_allowed: rules.allow_any() }
        }
        Err(why) => NestedPrograms::NotJudged(why),
    }
}

/// The paths that every sandboxed command can write, whatever its working directory.
fn always_writable(policy: &Policy) -> Vec<PathBuf> {
    let sandbox = policy.sandbox.as_ref().filter(|sandbox| sandbox.enforcement.is_any());
    sandbox.map(|sandbox| sandbox.writable().to_vec()).unwrap_or_default()
}

/// Logs to standard error, as RUST_LOG says, else warnings only: clients show standard error to people.
fn log() {
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr::Log).with_ansi(stderr::has_colors());
    // Fails only if a subscriber is already set.
    let _ = tracing_subscriber::registry().with(stderr::targets("warn,rmcp=error")).with(lines).try_init();
}

fn fail(why: &str) -> ExitCode {
    failure::say("exec-server", why);
    ExitCode::from(exit::FAILED)
}
