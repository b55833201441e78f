//! The secrets of a secure server and its callers: an authority with the server's certificate, and a key that signs
//! tokens.
//!
//! The program under test makes the tokens: `pausewatch token`.
#[allow(dead_code, clippy::unwrap_used)] // `it` uses all of it.
#[path = "../it/support/certs.rs"]
mod certs;

use certs::Authority;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tokio::process::Command;

pub(crate) struct Secrets {
    program: PathBuf,
    directory: PathBuf,
    /// The token for the stage's own calls.
    pub(crate) admin: String,
}

impl Secrets {
    pub(crate) async fn make(program: &Path, directory: &Path) -> Result<Self, String> {
        let authority = Authority::new("the case's own");
        authority.write(&directory.join("ca.crt"));
        authority.issue().write(directory, "server");
        let (program, directory) = (program.to_owned(), directory.to_owned());
        let mut secrets = Secrets { program, directory, admin: String::new() };
        secrets.run(&["token", "key", &secrets.path("issuer.key")]).await?;
        secrets.admin = secrets.token("admin", None, None, None).await?;
        Ok(secrets)
    }

    /// The certificate of the authority.
    pub(crate) fn ca(&self) -> String {
        self.path("ca.crt")
    }

    /// The options for `pausewatch serve`.
    pub(crate) fn options(&self) -> Vec<String> {
        let files = [("--tls-cert", "server.crt"), ("--tls-key", "server.key"), ("--jwt-keys", "issuer.key.pub")];
        files.iter().flat_map(|(option, name)| [(*option).to_owned(), self.path(name)]).collect()
    }

    /// Writes a token to a file, atomically; returns the path.
    pub(crate) fn write(&self, name: &str, token: &str) -> Result<String, String> {
        let (path, new) = (self.path(name), self.path(&format!("{name}.new")));
        let written = fs::write(&new, token).and_then(|()| fs::rename(&new, &path));
        written.map(|()| path).map_err(|error| format!("write {name}: {error}"))
    }

    pub(crate) async fn token(
        &self,
        role: &str,
        thread_id: Option<&str>,
        prefix: Option<&str>,
        ttl: Option<&str>,
    ) -> Result<String, String> {
        let key = self.path("issuer.key");
        let mut arguments = vec!["token", "create", "--token-key", &key, "--role", role];
        for (option, value) in [("--thread-id", thread_id), ("--prefix", prefix), ("--ttl", ttl)] {
            arguments.extend(value.into_iter().flat_map(|value| [option, value]));
        }
        Ok(self.run(&arguments).await?.trim().to_owned())
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let done = Command::new(&self.program).args(arguments).kill_on_drop(true).output().await;
        let done = done.map_err(|error| format!("start {}: {error}", self.program.display()))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&done.stderr).trim())),
        }
    }
}
