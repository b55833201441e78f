//! The policy about commands: the rules, and the sandbox.
use super::ask::WhenUnable;
use super::command::CommandSpec;
use super::nested_programs::NestedPrograms;
use crate::exec::policy::Rules;
use crate::exec::sandbox::{Enforcement, Sandbox};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The permissions of commands, and how people are asked.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Which commands are allowed, prompted or forbidden.
    pub rules: Arc<Rules>,
    /// For callers that cannot ask.
    pub when_unable: WhenUnable,
    /// `None`: commands run without a sandbox.
    pub sandbox: Option<SandboxPolicy>,
    pub nested: NestedPrograms,
}

/// The sandbox of commands that no rule or person allows to run outside it. Its paths have no symbolic links, because commands
/// can change links.
#[derive(Debug, Clone)]
pub(crate) struct SandboxPolicy {
    /// In it, a caller may choose the working directory without asking: the working directory of the server at its start.
    project: PathBuf,
    /// The paths that every command can write: those of `--writable`, and the directories for temporary files.
    writable: Vec<PathBuf>,
    /// How much of it the kernel enforces.
    pub enforcement: Enforcement,
}

impl SandboxPolicy {
    /// # Errors
    /// One of the paths, or the working directory of this process, does not exist: a message that names it.
    pub(crate) fn new(writable: &[PathBuf], enforcement: Enforcement) -> Result<Self, String> {
        let message = |what: &str, error: io::Error| format!("{what}: {error}");
        let project = Path::new(".").canonicalize().map_err(|error| message("the working directory", error))?;
        let mut paths: Vec<_> = Sandbox::temporary_directories().filter_map(|path| path.canonicalize().ok()).collect();
        for path in writable {
            let resolved = path.canonicalize();
            paths.push(resolved.map_err(|error| message(&format!("--writable {}", path.display()), error))?);
        }
        paths.sort();
        paths.dedup();
        Ok(Self { project, writable: paths, enforcement })
    }

    /// The paths that every command can write.
    pub(crate) fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// Why a person has to be asked before a command runs in this directory, which the sandbox would make writable; `None`: it
    /// lies within those that the server was started for.
    pub(super) fn objection(&self, workdir: &Path) -> Option<String> {
        let within = [&self.project].into_iter().chain(&self.writable).any(|root| workdir.starts_with(root));
        let (workdir, project) = (workdir.display(), self.project.display());
        (!within).then(|| format!("the command could change files in {workdir}, which is outside of {project}"))
    }

    pub(super) fn sandbox_for(&self, spec: &CommandSpec) -> Sandbox {
        Sandbox::new([&spec.workdir].into_iter().chain(&self.writable).cloned())
    }
}
