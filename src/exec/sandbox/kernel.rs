//! The sandbox by Landlock: denies the rights to change files everywhere except below the writable roots.
//!
//! A Landlock ruleset restricts only the rights that it names, so reading needs no exception. It also keeps the process from sending signals, and from
//! connecting to abstract sockets, outside the sandbox: SIGUSR1 makes every Node.js program open a debugger.
use super::enforcement::{Enforcement, Missing, SandboxError};
use super::resolved::open_resolved;
use landlock::{
    ABI, AccessFs, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use std::{os::fd::OwnedFd, path::PathBuf};

/// The version that has all rights to write, create, remove, rename and truncate files. Later versions add only rights that do
/// not concern files.
const RIGHTS: ABI = ABI::V4;
/// The version that has all rights to write files, truncating them among these.
const FILES: ABI = ABI::V3;
/// Devices that store nothing.
const DEVICES: [&str; 8] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"];

pub(super) fn enforce(writable: &[PathBuf]) -> Result<Enforcement, SandboxError> {
    let rights = AccessFs::from_write(RIGHTS);
    let mut roots = Vec::new();
    for path in writable {
        let directory = open_resolved(path).map_err(|cause| SandboxError::Writable { path: path.clone(), cause })?;
        // Not the making of devices, which are no files of the directory: root could make one of a disk.
        let granted = rights & !(AccessFs::MakeBlock | AccessFs::MakeChar);
        let rights = if path.is_dir() { granted } else { granted & AccessFs::from_file(RIGHTS) };
        roots.push(PathBeneath::new(directory, rights));
    }
    restrict(rights, roots).map_err(|error| SandboxError::Refused(error.to_string()))
}

fn restrict(rights: BitFlags<AccessFs>, roots: Vec<PathBeneath<OwnedFd>>) -> Result<Enforcement, RulesetError> {
    let status = Ruleset::default()
        .handle_access(rights)?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?
        .add_rules(path_beneath_rules(DEVICES, rights))?
        .add_rules(roots.into_iter().map(Ok::<_, RulesetError>))?
        .restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced, _) => Enforcement::Full,
        (RulesetStatus::PartiallyEnforced, LandlockStatus::Available { effective_abi, .. })
            if effective_abi >= FILES =>
        {
            Enforcement::Files
        }
        (RulesetStatus::PartiallyEnforced, _) => Enforcement::Partial,
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => Enforcement::None(Missing::NotEnabled),
        (RulesetStatus::NotEnforced, _) => Enforcement::None(Missing::NotImplemented),
    })
}
