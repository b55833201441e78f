//! `pausewatch token`: makes what a server takes as proof, without a server.
//!
//! 1. Standard output has the token and nothing else, for a variable or a file. A token is never in a message.
//! 2. A file with a secret is made so that nobody else can read it, and never over another one.
mod add;
mod create;
mod key;

use super::{exit, failure};
use crate::server::access::mint::{Signer, Token};
use crate::server::access::{AUDIENCE, Role};
use clap::Subcommand;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The arguments of `token`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a JSON web token, signed with a key: no server is asked, and none has to be told.
    Create(create::Args),
    /// Make a key pair: one that signs JSON web tokens, and one by which servers know them.
    Key(key::Args),
    /// Print a new token, and add its digest to a server's file of tokens.
    Add(add::Args),
}

/// What a token grants.
#[derive(Debug, clap::Args)]
struct Grants {
    /// A thread that the token opens. Repeatable.
    #[arg(long = "thread-id", value_name = "ID")]
    threads: Vec<String>,
    /// Every thread whose id begins so; an empty prefix is every thread. Repeatable.
    #[arg(long = "prefix", value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// watcher: reads. holder: reads, and opens, renews and closes elicitations. admin: everything, on every thread.
    #[arg(long, value_name = "ROLE", default_value = "holder", value_parser = role)]
    role: Role,
    /// Who it is for, as logs will name it [default: the one thread or prefix, or the role].
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
}

fn role(name: &str) -> Result<Role, String> {
    let roles = [Role::Watcher, Role::Holder, Role::Admin];
    roles.into_iter().find(|role| role.name() == name).ok_or_else(|| "wanted watcher, holder or admin".into())
}

impl Grants {
    fn token(self) -> Result<Token, Problem> {
        let Self { threads, prefixes, role, subject } = self;
        let subject = subject.unwrap_or_else(|| match (&threads[..], &prefixes[..]) {
            ([one], []) => one.clone(),
            ([], [one]) if !one.is_empty() => one.clone(),
            _ => role.name().into(),
        });
        if role != Role::Admin && threads.is_empty() && prefixes.is_empty() {
            return Err(Problem::Usage("which threads? name them by --thread-id or --prefix".into()));
        }
        let token = Token { subject, role, threads, prefixes };
        token.check().map_err(Problem::Usage)?;
        Ok(token)
    }
}

/// The key that signs, as `create` and `run` are told.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Key {
    /// The private key that signs tokens, a PEM file: `pausewatch token key` makes one [env: PAUSEWATCH_TOKEN_KEY].
    // Not by clap: a variable that is empty counts as not set.
    #[arg(long, value_name = "FILE")]
    token_key: Option<PathBuf>,
    /// The `aud` of the tokens, as the server expects it.
    #[arg(long, value_name = "AUDIENCE", default_value = AUDIENCE)]
    token_audience: String,
    /// The `iss` of the tokens, if the server expects one.
    #[arg(long, value_name = "ISSUER")]
    token_issuer: Option<String>,
}

/// The variable that names the key.
pub(super) const KEY_VARIABLE: &str = "PAUSEWATCH_TOKEN_KEY";

impl Key {
    /// `None`: there is none.
    ///
    /// # Errors
    /// The file has no key that signs.
    pub(super) fn signer(&self) -> Result<Option<Signer>, String> {
        let variable = || std::env::var_os(KEY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let Some(path) = self.token_key.clone().or_else(variable) else { return Ok(None) };
        let text = fs::read_to_string(&path).map_err(|error| error.to_string());
        let signer = text.and_then(|text| Signer::from_pem(&text));
        let mut signer = signer.map_err(|why| format!("token key {}: {why}", path.display()))?;
        (signer.audience, signer.issuer) = (self.token_audience.clone(), self.token_issuer.clone());
        Ok(Some(signer))
    }
}

/// Why there is no token.
enum Problem {
    Usage(String),
    Failed(String),
}

/// Since 1970.
pub(super) fn now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Makes a file that is not there yet.
fn new_file(path: &Path, mode: u32) -> Result<File, Problem> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.map_err(|error| failed("make", path, &error))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::Failed(format!("{what} {}: {}", path.display(), failure::without_number(&error.to_string())))
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let made = match args.command {
        Command::Create(args) => create::run(args),
        Command::Key(args) => key::run(&args),
        Command::Add(args) => add::run(args),
    };
    let (why, code) = match made.and_then(print) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Problem::Usage(why)) => (why, exit::USAGE),
        Err(Problem::Failed(why)) => (why, exit::FAILED),
    };
    failure::say("token", &why);
    ExitCode::from(code)
}

fn print(text: String) -> Result<(), Problem> {
    let written = writeln!(io::stdout(), "{text}");
    written.map_err(|error| Problem::Failed(format!("write to standard output: {error}")))
}
