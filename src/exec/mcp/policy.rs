//! The policy about commands: the rules, and the sandbox.
use super::ask::WhenUnable;
use super::command::CommandSpec;
use crate::exec::policy::Rules;
use crate::exec::sandbox::{Enforcement, Sandbox};
use std::{path::PathBuf, sync::Arc};

/// What commands may do, and how people are asked.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Which commands are allowed, prompted or forbidden.
    pub rules: Arc<Rules>,
    /// For callers that cannot ask.
    pub when_unable: WhenUnable,
    /// `None`: commands run without a sandbox.
    pub sandbox: Option<SandboxPolicy>,
}

/// The sandbox of commands that no rule or person allows to run outside it.
#[derive(Debug, Clone)]
pub(crate) struct SandboxPolicy {
    /// The writable paths besides the working directory and the directories for temporary files.
    pub writable: Vec<PathBuf>,
    /// How much of it the kernel enforces.
    pub enforcement: Enforcement,
}

impl SandboxPolicy {
    pub(super) fn sandbox_for(&self, spec: &CommandSpec) -> Sandbox {
        let default = Sandbox::for_workdir(&spec.workdir);
        Sandbox::new(default.writable().iter().chain(&self.writable).cloned())
    }
}
