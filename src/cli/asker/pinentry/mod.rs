//! `pausewatch pinentry`: relays between gpg-agent and the real pinentry, and pauses the thread while a person is
//! asked.
//!
//! 1. Every byte is passed on unchanged, in both directions. No line is logged. Only the description of a question
//!    leaves this process, as the reason of the pause.
//! 2. A problem with the pause is a warning on standard error: the person is asked anyway.
//! 3. The exit code is that of the real pinentry.
//! 4. The coordinator and the thread are those of the program that needs the key, never those of the program that started
//!    gpg-agent. What that program says is not trusted: see `client/settings/of_others.rs`.
//! 5. When gpg-agent, or the program that needs the key, has ended during a question, the real pinentry is ended.
mod owner;
mod question;
mod user_data;

use super::{real_program, reason::reason};
use crate::cli::{config_file, connection, exit, failure, hold, other_process::OtherProcess};
use crate::client::{Hold, Settings};
use crate::exec::supervise::{ExitAction, SignalListener};
use owner::Owner;
pub use question::Questions;
use rustix::process::{Pid, Signal};
use std::{env, ffi::OsString, io, path::Path, process::ExitCode, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout},
    process::{Child, Command},
    task::JoinSet,
};

const NAMES: [&str; 7] =
    ["pinentry", "pinentry-gnome3", "pinentry-qt", "pinentry-gtk-2", "pinentry-mac", "pinentry-curses", "pinentry-tty"];
const DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];
const TTL: Duration = Duration::from_secs(30);
const PASSED_ON: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// The arguments of `pinentry`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The arguments of the real pinentry.
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

const AFTER_HELP: &str = "\
A link to pausewatch named pausewatch-pinentry is this command, for pinentry-program in gpg-agent.conf. The pinentry that \
PAUSEWATCH_PINENTRY names asks the person, else pinentry or another usual one.

gpg-agent is a daemon, so the coordinator and the thread come from PINENTRY_USER_DATA of the program that uses the key: \
PAUSEWATCH_ADDRESS=...,PAUSEWATCH_THREAD_ID=...,PAUSEWATCH_TOKEN=... Every process of the same user can read it there: use a token \
for this thread only. On Linux, what is not in it comes from the environment of that program. Files that either of them names are \
ignored. The environment of gpg-agent and the config file apply last; a thread comes from the config file only, and credentials are \
used only with the address there.";

/// Relays the lines of gpg-agent and the real pinentry, and returns the exit code of the real pinentry.
pub(crate) fn run(args: Args) -> ExitCode {
    let program = match real_program::find("PAUSEWATCH_PINENTRY", &NAMES, &DIRECTORIES) {
        Ok(Some(program)) => program,
        Ok(None) => return fail("there is no pinentry: install one, or name it in PAUSEWATCH_PINENTRY"),
        Err(why) => return fail(&why),
    };
    let runtime = match crate::cli::runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    let ended = runtime.block_on(stand_between(&program, args.arguments));
    runtime.shutdown_background();
    match ended {
        Ok(action) => action.carry_out(),
        Err(error) => fail(&format!("{}: {error}", program.display())),
    }
}

async fn stand_between(program: &Path, arguments: Vec<OsString>) -> io::Result<ExitAction> {
    let agent = OtherProcess::parent();
    let mut listener = SignalListener::catching(&[], &PASSED_ON)?;
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut hold = None;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let result = {
        let talk = pass_on(&mut child, &mut hold, agent);
        tokio::pin!(talk);
        loop {
            tokio::select! {
                result = &mut talk => break result,
                signal = listener.recv() => {
                    // A pinentry that has ended is no problem.
                    let _ = pid.map(|pid| signal.send_and_continue(pid));
                }
            }
        }
    };
    if let (Ok(Talk::Unneeded), Some(pid)) = (&result, pid) {
        failure::say("pinentry", "the program that asked has ended: no longer asking");
        tokio::select! {
            _ = child.wait() => {}
            never = hold::end_unneeded(pid) => match never {},
        }
    }
    if let Some(hold) = hold {
        hold::close(&hold, hold::Reporter("pinentry")).await;
    }
    result?;
    Ok(ExitAction::of(child.wait().await?, false, false))
}

/// How a conversation ended.
enum Talk {
    /// Pinentry has closed its output.
    Over,
    /// A question is open, and nobody waits for its answer any more.
    Unneeded,
}

/// Relays lines. `hold` is `Some` while a question is open and the thread is paused.
async fn pass_on(child: &mut Child, hold: &mut Option<Hold>, agent: Option<OtherProcess>) -> io::Result<Talk> {
    let mut to_pinentry = child.stdin.take();
    let mut from_pinentry = BufReader::new(child.stdout.take().expect("it is piped"));
    let (mut from_agent, mut to_agent) = (BufReader::new(stdin()), stdout());
    let mut questions = Questions::default();
    // The ends of those who wait for the answer, and the settings of the one that needs it.
    let (mut ends, mut owner_settings) = (JoinSet::new(), Ok(Settings::default()));
    agent.map(|agent| ends.spawn(end_of(agent)));
    let (mut command, mut answer) = (Vec::new(), Vec::new());
    loop {
        // A read that the other branch cancels keeps the bytes that it has read so far in its buffer.
        tokio::select! {
            read = from_agent.read_until(b'\n', &mut command), if to_pinentry.is_some() => {
                let is_end = read? == 0;
                if let Some(owner) = Owner::of(&command) {
                    owner_settings = owner.settings;
                    ends.spawn(end_of(owner.process));
                }
                if let Some(description) = questions.command(&command) && hold.is_none() {
                    *hold = open(&description, &owner_settings).await;
                }
                if let Some(pinentry) = &mut to_pinentry && (pinentry.write_all(&command).await.is_err() || is_end) {
                    to_pinentry = None;
                }
                command.clear();
            }
            read = from_pinentry.read_until(b'\n', &mut answer) => {
                let is_end = read? == 0;
                // The clock continues only when the answer is known, and before gpg-agent reads the answer.
                if questions.answer(&answer) && let Some(hold) = hold.take() {
                    hold::close(&hold, hold::Reporter("pinentry")).await;
                }
                to_agent.write_all(&answer).await?;
                to_agent.flush().await?;
                answer.clear();
                if is_end {
                    return Ok(Talk::Over);
                }
            }
            Some(_) = ends.join_next(), if questions.is_open() => return Ok(Talk::Unneeded),
        }
    }
}

async fn end_of(process: OtherProcess) {
    if process.ended().await.is_err() {
        std::future::pending().await
    }
}

/// Pauses the thread, or warns.
async fn open(description: &str, of_owner: &Result<Settings, String>) -> Option<Hold> {
    let opened = async {
        let own = Settings::without_thread_of_environment().map_err(|why| why.to_string())?;
        config_file::warn_if_ignored();
        let of_owner = of_owner.clone()?;
        let data = user_data::settings(&env::var("PINENTRY_USER_DATA").unwrap_or_default())?;
        let settings = data.or_at_same_address(of_owner.or_at_same_address(own));
        let thread = settings.thread_id.clone().ok_or("no thread: PAUSEWATCH_THREAD_ID is not in PINENTRY_USER_DATA, nor known from the program that needs the key")?;
        let client = connection::client(&settings).map_err(|why| why.to_string())?;
        let holder = hold::default_holder(&["pinentry".into()]);
        let hold = client.hold(thread).reason(reason(description)).holder(holder).ttl(TTL);
        hold.open().await.map_err(|error| failure::call_error(&error, &settings.address.unwrap_or_default()))
    };
    opened.await.map_err(|why: String| failure::say("pinentry", &format!("{why}; asking without a pause"))).ok()
}

fn fail(why: &str) -> ExitCode {
    failure::say("pinentry", why);
    ExitCode::from(exit::FAILED)
}
