//! The environment of the Bash commands of a session, which Claude Code reads from a file that this hook writes.
//!
//! 1. A variable that is set already, or that the config file sets, is not written.
use super::private_socket;
use crate::{cli::whole_write, client::Settings, core::types::ThreadId};
use std::{env, fs, path::PathBuf};

/// Writes the thread and, without a configured coordinator, the address of a private one. `thread_id`: the value of the
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
    let file = env::var_os("CLAUDE_ENV_FILE").filter(|path| !path.is_empty()).map(PathBuf::from).ok_or(
        "CLAUDE_ENV_FILE is not set: this version of Claude Code gives its commands no variables; set \
         PAUSEWATCH_THREAD_ID and PAUSEWATCH_ADDRESS before you start it",
    )?;
    let before = fs::read(&file).unwrap_or_default();
    if before.ends_with(lines.as_bytes()) {
        return Ok(());
    }
    // Another hook may have written a last line without a newline.
    if before.last().is_some_and(|last| *last != b'\n') {
        lines.insert(0, '\n');
    }
    whole_write::append(&file, &lines, 0o666).map_err(|error| format!("write {}: {error}", file.display()))
}
