//! `pausewatch token add`: a static token.
use super::grants::Grants;
use super::problem::{Problem, failed};
use super::signing_key::now;
use crate::cli::whole_write;
use crate::server::access::mint;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `token add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file contains the digest of the token, not the token, so the token cannot be shown again. A running server reloads the file \
by itself. To revoke a token, remove its [[token]] from the file:
  pausewatch serve --tokens tokens.toml &
  export PAUSEWATCH_TOKEN=$(pausewatch token add --prefix team-a/ tokens.toml)")]
pub(super) struct Args {
    #[command(flatten)]
    grants: Grants,
    /// How long the token is valid, such as 10m, 1h or 30d [default: until it is removed from the file].
    #[arg(long, value_name = "DURATION", value_parser = super::super::duration::parse_validity)]
    ttl: Option<Duration>,
    /// The token file of the server (serve --tokens). It is created if it does not exist.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Rounds the expiry time up to whole seconds, so that the token does not expire too early.
const ALMOST_A_SECOND: Duration = Duration::from_nanos(999_999_999);

pub(super) fn run(args: Args) -> Result<String, Problem> {
    let token = args.grants.token()?;
    let expires = args.ttl.map(|ttl| {
        let seconds =
            i64::try_from(now().saturating_add(ttl).saturating_add(ALMOST_A_SECOND).as_secs()).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_second(seconds);
        time.map(|time| time.to_string())
            .map_err(|_| Problem::Usage("--ttl: expected less than thousands of years".into()))
    });
    let secret = mint::secret().map_err(Problem::Failed)?;
    let mut entry = mint::entry(&secret, &token, expires.transpose()?.as_deref()).map_err(Problem::Usage)?;
    // A server refuses such a file too. Reading a pipe could wait forever.
    if fs::metadata(&args.file).is_ok_and(|found| !found.is_file()) {
        return Err(Problem::Failed(format!("token file {}: it is not a regular file", args.file.display())));
    }
    let original = match fs::read_to_string(&args.file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        original => original.map_err(|error| failed("read", &args.file, &error))?,
    };
    // `token = []` is the file after the last token was revoked. TOML does not allow it beside `[[token]]`.
    let is_empty_list = |line: &str| line.split_whitespace().eq(["token", "=", "[]"]);
    let rewrite = original.lines().any(is_empty_list);
    let before: String = match rewrite {
        true => original.lines().filter(|line| !is_empty_list(line)).flat_map(|line| [line, "\n"]).collect(),
        false => original.clone(),
    };
    if !before.is_empty() {
        // This also ends a last line without a newline.
        entry.insert(0, '\n');
    }
    // Without this check, another file, such as a client's config file, would be damaged, and no server would accept
    // the token.
    let whole = before + &entry;
    mint::check_file(&whole).map_err(|why| {
        Problem::Failed(format!(
            "token file {}: {why}; it is unchanged: correct it, or name another",
            args.file.display()
        ))
    })?;
    let written = match rewrite {
        true => whole_write::rewrite(&args.file, &original, &whole),
        false => whole_write::append(&args.file, &entry, 0o600),
    };
    written.map_err(|error| failed("write", &args.file, &error))?;
    Ok(secret)
}
