//! The policy about commands: the rules, and the sandbox.
use super::ask::WhenUnable;
use super::nested_programs::NestedPrograms;
use crate::exec::policy::{Exposed, Reach, Rules};
use crate::exec::sandbox::{Enforcement, Sandbox};
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The maximum of directories outside the project that are remembered. After more, all files count as exposed.
const MAX_USED: usize = 1_000;

/// The permissions of commands, and how people are asked.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Which commands are allowed, prompted or forbidden.
    pub rules: Arc<Rules>,
    /// The action for callers that cannot ask a person.
    pub when_unable: WhenUnable,
    /// `None`: commands run without a sandbox.
    pub sandbox: Option<SandboxPolicy>,
    pub nested: NestedPrograms,
}

/// The sandbox of commands that no rule or person allows to run outside it. Its paths have no symbolic links, because commands
/// can change links.
#[derive(Debug, Clone)]
pub(crate) struct SandboxPolicy {
    /// The working directory of the server at its start. Within it, a caller may choose the working directory
    /// without a question.
    project: PathBuf,
    /// The paths that every command can write: those of `--writable`, and the directories for temporary files.
    writable: Vec<PathBuf>,
    /// The working directories of commands so far, if they are not in `project`; at most [`MAX_USED`].
    used: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// How much of it the kernel enforces.
    pub enforcement: Enforcement,
}

impl SandboxPolicy {
    /// # Errors
    /// One of the paths, or the working directory of this process, does not exist; or one leads through a link that commands can change: a
    /// message that names it.
    pub(crate) fn new(writable: &[PathBuf], enforcement: Enforcement) -> Result<Self, String> {
        let message = |what: &str, error: io::Error| format!("{what}: {error}");
        let project = Path::new(".").canonicalize().map_err(|error| message("the working directory", error))?;
        let temporary = Sandbox::temporary_directories().filter_map(|path| Some((path.canonicalize().ok()?, path)));
        let mut named: Vec<_> = temporary.collect();
        for path in writable {
            let resolved = path.canonicalize();
            let resolved = resolved.map_err(|error| message(&format!("--writable {}", path.display()), error))?;
            named.push((resolved, path.clone()));
        }
        for (resolved, path) in &named {
            let others = named.iter().map(|(other, _)| other).chain([&project]);
            let others = Reach::new(others.filter(|other| !other.starts_with(resolved)).cloned().collect());
            let path = std::path::absolute(path).map_err(|error| message(&path.display().to_string(), error))?;
            if others.leads_into(&path) && !others.holds(resolved) {
                let (path, resolved) = (path.display(), resolved.display());
                return Err(format!(
                    "{path} leads to {resolved} by a link that commands can change: name {resolved} itself"
                ));
            }
        }
        let mut paths: Vec<_> = named.into_iter().map(|(resolved, _)| resolved).collect();
        paths.sort();
        paths.dedup();
        Ok(Self { project, writable: paths, used: Arc::default(), enforcement })
    }

    /// The paths that every command can write.
    pub(crate) fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// Why a person must be asked before a command runs in this directory, which the sandbox would make writable.
    /// `None`: it is within the directories that the server was started for.
    pub(super) fn objection(&self, workdir: &Path) -> Option<String> {
        let within = [&self.project].into_iter().chain(&self.writable).any(|root| workdir.starts_with(root));
        let (workdir, project) = (workdir.display(), self.project.display());
        (!within).then(|| format!("the command could change files in {workdir}, which is outside of {project}"))
    }

    /// A sandbox in which `workdir` is writable.
    pub(super) fn sandbox_for(&self, workdir: &Path) -> Sandbox {
        let mut always_exposed = self.project().into_iter().chain(self.writable.iter().map(PathBuf::as_path));
        if !always_exposed.any(|root| workdir.starts_with(root)) {
            self.remember(workdir);
        }
        // A command may have removed a directory for temporary files.
        let writable = self.writable.iter().map(PathBuf::as_path).filter(|path| path.exists());
        Sandbox::new([workdir].into_iter().chain(writable).map(Path::to_owned))
    }

    fn remember(&self, workdir: &Path) {
        let mut used = self.used();
        if used.iter().any(|root| workdir.starts_with(root)) {
            return;
        }
        if used.len() < MAX_USED {
            used.insert(workdir.to_owned());
        } else {
            *used = BTreeSet::from(["/".into()]);
        }
    }

    /// Returns what a command in this directory can write, or other commands could write until then: they may have written any file
    /// there.
    pub(super) fn exposed_by(&self, workdir: &Path) -> Exposed {
        let (policy, workdir) = (self.clone(), workdir.to_owned());
        Arc::new(move || Reach::new(policy.exposed(&workdir)))
    }

    fn exposed(&self, workdir: &Path) -> Vec<PathBuf> {
        let known = [Some(workdir), self.project()].into_iter().flatten().map(Path::to_owned);
        known.chain(self.writable.iter().cloned()).chain(self.used().iter().cloned()).collect()
    }

    /// Whether every command could have written this file.
    pub(crate) fn is_exposed(&self, file: &Path) -> bool {
        let roots = self.project().into_iter().map(Path::to_owned).chain(self.writable.iter().cloned());
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Reach::new(roots.collect()).leads_into(&file)
    }

    /// The directory below which any command may have run, also one of an earlier server. A server that was started in
    /// `/` has none.
    fn project(&self) -> Option<&Path> {
        self.project.parent().map(|_| self.project.as_path())
    }

    fn used(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        // Each change is one insertion or replacement.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_too_many_directories_every_file_is_exposed() {
        let policy = SandboxPolicy::new(&[], Enforcement::Full).unwrap();
        let use_directory = |number: usize| _ = policy.sandbox_for(&PathBuf::from(format!("/none/{number}")));
        (0..MAX_USED).for_each(use_directory);
        policy.sandbox_for(Path::new("/none/7/below"));
        assert_eq!(policy.used().len(), MAX_USED);
        assert!(!policy.exposed(Path::new("/work")).contains(&"/".into()));
        (MAX_USED..MAX_USED + 2).for_each(use_directory);
        assert_eq!(policy.used().len(), 1);
        assert!(policy.exposed(Path::new("/work")).contains(&"/".into()));
    }

    /// A command could make it lead elsewhere before the next start.
    #[test]
    fn a_writable_directory_behind_a_link_that_commands_can_change_is_refused() {
        // Below the directory for temporary files, which commands can write.
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        let new = |to: &str| {
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(to, &link).unwrap();
            SandboxPolicy::new(std::slice::from_ref(&link), Enforcement::Full)
        };
        let refused = new("/usr").unwrap_err();
        assert!(refused.ends_with("leads to /usr by a link that commands can change: name /usr itself"), "{refused}");
        new(directory.path().to_str().unwrap()).unwrap();
        SandboxPolicy::new(&["/usr".into()], Enforcement::Full).unwrap();
    }
}
