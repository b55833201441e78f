//! The environment of the Bash commands of a session, which Claude Code reads from a file that this hook writes.
//!
//! 1. A variable that is set already, or that the config file sets, is not written.
//! 2. The private coordinators of a session accept its token only, for its thread only. So other programs of the same user, such as the commands of
//!    another session, cannot pause it.
use super::private_socket;
use crate::{cli::whole_write, client::Settings, core::types::ThreadId, server::access::mint};
use std::{env, fs, path::PathBuf};

/// The line with the token, up to the token.
const TOKEN: &str = "export PAUSEWATCH_TOKEN='";

/// Writes the thread and, without a configured coordinator, the address and the token of a private one. `thread_id`: the value of the
/// option.
///
/// # Errors
/// Nothing was written.
pub(super) fn write(thread_id: Option<&str>, session_id: &str) -> Result<(), String> {
    let settings = Settings::from_env().map_err(|why| why.to_string())?;
    let thread = match thread_id {
        Some(id) => Some(id),
        None => settings.thread_id.is_none().then_some(session_id),
    };
    let mut lines = String::new();
    if let Some(id) = thread {
        ThreadId::parse("thread_id", id).map_err(|error| error.to_string())?;
        lines += &format!("export PAUSEWATCH_THREAD_ID='{}'\n", id.replace('\'', r"'\''"));
    }
    if settings.address.is_none() {
        let directory = private_socket::directory()?;
        let address = private_socket::address_in_shell(&directory, session_id);
        let address = address.ok_or_else(|| format!("directory {}: no plain name", directory.display()))?;
        lines += &format!("export PAUSEWATCH_ADDRESS={address}\n");
    }
    if lines.is_empty() {
        return Ok(());
    }
    let needs_token = settings.address.is_none() && settings.token.is_none() && settings.token_file.is_none();
    let file = env::var_os("CLAUDE_ENV_FILE").filter(|path| !path.is_empty()).map(PathBuf::from).ok_or(
        "CLAUDE_ENV_FILE is not set: this version of Claude Code gives its commands no variables; set \
         PAUSEWATCH_THREAD_ID and PAUSEWATCH_ADDRESS before you start it",
    )?;
    let before = fs::read(&file).unwrap_or_default();
    if is_written(&before, &lines, needs_token) {
        return Ok(());
    }
    if needs_token {
        lines += &format!("{TOKEN}{}'\n", mint::secret()?);
    }
    // Another hook may have written a last line without a newline.
    if before.last().is_some_and(|last| *last != b'\n') {
        lines.insert(0, '\n');
    }
    whole_write::append(&file, &lines, 0o600).map_err(|error| format!("write {}: {error}", file.display()))
}

/// Whether the text ends with these lines, followed by a token if one is needed.
fn is_written(text: &[u8], lines: &str, needs_token: bool) -> bool {
    let lines = match needs_token {
        true => format!("{lines}{TOKEN}"),
        false => lines.to_owned(),
    };
    let Some(at) = text.windows(lines.len()).rposition(|part| part == lines.as_bytes()) else { return false };
    let rest = &text[at + lines.len()..];
    // A token ends its line.
    let rest = if needs_token { rest.strip_suffix(b"\n").filter(|rest| rest.ends_with(b"'")) } else { Some(rest) };
    rest.is_some_and(|rest| !rest.contains(&b'\n') && (needs_token || rest.is_empty()))
}
