//! The process for which gpg-agent asks: `OPTION owner=PID/UID HOST`, which gpg-agent sends to each pinentry. The process id
//! is that of the other end of gpg-agent's socket, as the kernel tells it.
//!
//! 1. Its variables name the thread, as in its own calls. gpg-agent's own variables are those of whoever started it.
//! 2. Its variables are read if the kernel lets this process read them: it is a process of the same user, on this machine.
//! 3. A process that got the id later is not mistaken for it: the process is older than this one, and was alive after its
//!    variables were read.
use crate::cli::other_process::OtherProcess;
use crate::client::Settings;
use rustix::process::{Pid, getpid, getuid};
use std::{collections::HashMap, ffi::OsString, fs, os::unix::ffi::OsStringExt};

/// The process, and what its variables say.
pub(super) struct Owner {
    pub(super) process: OtherProcess,
    pub(super) settings: Result<Settings, String>,
}

impl Owner {
    /// `None`: the line is another one, or the process cannot be known.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        let pid = parse(line, getuid().as_raw(), &rustix::system::uname().nodename().to_string_lossy())?;
        let process = OtherProcess::of(pid).ok()?;
        let is_older = start_time(pid)? <= start_time(getpid())?;
        let variables = variables(pid)?;
        if !is_older || process.has_ended() {
            return None;
        }
        let settings = Settings::of_other_process(&|name| variables.get(name.as_bytes()).cloned());
        let settings = settings.map_err(|why| format!("process {}, which needs the key: {why}", pid.as_raw_pid()));
        Some(Self { process, settings })
    }
}

/// The process id, if the line says that it is a process of this user on this host. gpg-agent before 2.2.6 does not say the user.
fn parse(line: &[u8], own_user: u32, own_host: &str) -> Option<Pid> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    if !words.next()?.eq_ignore_ascii_case("OPTION") {
        return None;
    }
    let owner = words.next()?.strip_prefix("owner=")?;
    let (pid, user) = owner.split_once('/').map_or((owner, None), |(pid, user)| (pid, Some(user)));
    let is_ours =
        user.is_none_or(|user| user.parse() == Ok(own_user)) && words.next().is_none_or(|host| host == own_host);
    // 0: a process outside gpg-agent's namespace of process ids.
    Pid::from_raw(pid.parse().ok().filter(|pid| is_ours && *pid > 0)?)
}

/// The first value of each variable, as for `getenv(3)`.
fn variables(pid: Pid) -> Option<HashMap<Vec<u8>, OsString>> {
    let text = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let mut variables = HashMap::new();
    for entry in text.split(|byte| *byte == 0) {
        if let Some(at) = entry.iter().position(|byte| *byte == b'=') {
            let value = || OsString::from_vec(entry[at + 1..].to_vec());
            variables.entry(entry[..at].to_vec()).or_insert_with(value);
        }
    }
    Some(variables)
}

/// The 22nd field of `/proc/PID/stat`, in clock ticks since the start of the system. The second one, the name, is in
/// parentheses and may contain any character (`proc_pid_stat(5)`).
fn start_time(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_gpg_agent_names_the_process_that_needs_the_key() {
        let pid = |line: &str| parse(line.as_bytes(), 1_000, "h").map(Pid::as_raw_pid);
        for line in ["OPTION owner=42/1000 h\n", "option owner=42 h", "OPTION owner=42/1000"] {
            assert_eq!(pid(line), Some(42), "{line}");
        }
        for line in [
            "OPTION owner=42/1001 h",
            "OPTION owner=42/1000 other",
            "OPTION owner=0/1000 h",
            "OPTION owner=-1/1000 h",
            "OPTION owner=/1000 h",
            "OPTION owner=99999999999/1000 h",
            "OPTION ttyname=owner=42",
            "SETDESC owner=42/1000 h",
            "OPTION",
            "",
        ] {
            assert_eq!(pid(line), None, "{line}");
        }
    }
}
