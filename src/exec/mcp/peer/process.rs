//! The processes that hold a socket, as `/proc` shows them.
use rustix::{
    fs::{CWD, Mode, OFlags, openat, readlinkat},
    process::getpid,
};
use std::{fs, sync::LazyLock};

/// The maximum of ancestors that are looked at: more than any real process has.
const MAX_ANCESTORS: usize = 1_000;

/// The maximum of scans: one is repeated if a holder ends during it.
const MAX_SCANS: usize = 3;

/// A process that holds a socket.
#[derive(Debug, Default)]
pub(super) struct Holder {
    pub(super) id: i32,
    /// When it started, in ticks since the boot.
    pub(super) start: u64,
    /// Whether it has `no_new_privs`. Nothing is known of a process that has ended: it may have passed the descriptor on.
    no_new_privs: Option<bool>,
}

/// All processes that have a descriptor of this socket and that this process may look into.
pub(super) fn holders(inode: u64) -> Vec<Holder> {
    let link = format!("socket:[{inode}]").into_bytes();
    let mut found = Vec::new();
    for _ in 0..MAX_SCANS {
        let Ok(entries) = fs::read_dir("/proc") else { break };
        let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        found = ids.filter(|id| has_link(*id, &link).unwrap_or(false)).map(Holder::of).collect::<Vec<_>>();
        if found.iter().all(|holder| holder.no_new_privs.is_some()) {
            break;
        }
    }
    found
}

fn has_link(process: i32, link: &[u8]) -> rustix::io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, format!("/proc/{process}/fd"), flags, Mode::empty())?;
    let mut name = Vec::with_capacity(link.len() + 32);
    for entry in rustix::fs::Dir::read_from(&directory)? {
        name =
            readlinkat(&directory, entry?.file_name(), name).map_or_else(|_| Vec::new(), |target| target.into_bytes());
        if name == link {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Holder {
    fn of(id: i32) -> Self {
        let start = Stat::of(id).map(|stat| stat.start);
        Self { id, start: start.unwrap_or_default(), no_new_privs: start.and(has_no_new_privs(&id.to_string())) }
    }

    /// Whether it is in a sandbox that this process is not in, as far as `no_new_privs` shows.
    pub(super) fn is_confined(&self) -> bool {
        static OWN: LazyLock<bool> = LazyLock::new(|| has_no_new_privs("self").unwrap_or(false));
        !*OWN && self.no_new_privs.unwrap_or(true)
    }

    /// Whether it descends from this process, or from the supervisor of a command.
    pub(super) fn is_command(&self) -> bool {
        let own = getpid().as_raw_pid();
        let parent = |id: &i32| Stat::of(*id).map(|stat| stat.parent).filter(|parent| *parent > 0);
        let mut ancestors = std::iter::successors(Some(self.id), parent).take(MAX_ANCESTORS);
        ancestors.any(|id| id == own || is_supervisor(id))
    }
}

fn has_no_new_privs(process: &str) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("NoNewPrivs:"))?;
    Some(value.trim() != "0")
}

/// Whether its command line is that of the supervisor of an exec server's command (`exec::mcp::launch`). A supervisor of `run` names no parent.
fn is_supervisor(process: i32) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    words.next() == Some(b"exec-supervisor") && words.take_while(|word| word != b"--").any(|word| word == b"--parent")
}

/// The fields of `/proc/PID/stat` that matter here: proc_pid_stat(5).
struct Stat {
    parent: i32,
    start: u64,
}

impl Stat {
    fn of(process: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // State, parent and the rest follow the name, which may contain any character. The start is field 22.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        Some(Self { parent, start: fields.nth(17)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::metadata, os::fd::AsRawFd, os::unix::fs::MetadataExt, process::Command};

    #[test]
    fn the_holders_of_a_socket_are_found_with_their_ancestors() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let inode = metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino();
        let own = getpid().as_raw_pid();
        let alone = holders(inode);
        assert!(alone.iter().any(|holder| holder.id == own && holder.start > 0), "{alone:?}");
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(std::os::fd::OwnedFd::from(socket.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let both = holders(inode);
        let inherited = both.iter().find(|holder| holder.id == child.id().cast_signed()).expect("it holds it too");
        assert!(inherited.is_command() && inherited.start >= alone[0].start, "it descends from this process");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!Holder::of(1).is_command() || own == 1, "the first process does not");
    }
}
