//! Reloads files when they change, or on request, while the server runs.
//!
//! 1. A file has changed if its content has changed, not its date: a link to another file (certbot, Kubernetes) is a
//!    change, and a `touch` is not.
//! 2. If new content is invalid, this is logged once, and everything stays as it was.
//! 3. The digest is computed before the content is loaded: a change in between is found the next time.
use super::named_file;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How often files are checked, which takes a few milliseconds per minute.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A check that takes longer is reported.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

/// The digest of a file; `None`: it cannot be read.
type Digest = Option<[u8; 32]>;

/// The digests of the files before they were loaded (3).
#[derive(Debug)]
pub(super) struct FileDigests(Vec<(PathBuf, Digest)>);

impl FileDigests {
    pub(super) fn before_loading(files: Vec<PathBuf>) -> Self {
        FileDigests(files.into_iter().map(|path| (path.clone(), digest(&path))).collect())
    }

    /// The digest of a file that was never read is `None`, so that the file is loaded.
    fn of(&self, path: &Path) -> Digest {
        self.0.iter().find(|(seen, _)| seen == path).and_then(|(_, digest)| *digest)
    }
}

/// Loads new content.
pub(super) type Load = Box<dyn Fn() -> Result<(), String> + Send>;

/// Files, and how new content is loaded.
pub(super) struct Source {
    /// Their name in the log.
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Vec<Digest>,
    reload: Load,
}

impl Source {
    pub(super) fn new(what: &'static str, files: Vec<PathBuf>, seen: &FileDigests, reload: Load) -> Self {
        let seen = files.iter().map(|path| seen.of(path)).collect();
        Source { what, files, seen, reload }
    }
}

/// Reloads the files of a running server: certificates, keys, tokens.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<Notify>);

impl Reload {
    /// Reads the files again now, whether they have changed or not. A task of the server does it; errors are logged.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Reads `sources` again whenever they change or `reload` requests it. Never returns, unless it fails.
pub(super) async fn keep_current(mut sources: Vec<Source>, reload: Reload) {
    loop {
        let asked = tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY), if !sources.is_empty() => false,
            () = reload.0.notified() => true,
        };
        if asked && sources.is_empty() {
            tracing::info!("reload requested, but there are no files to reload");
        }
        // On another thread, because a disk may be slow.
        let mut looked = tokio::task::spawn_blocking(move || {
            sources.iter_mut().for_each(|source| source.look(asked));
            sources
        });
        let looked = match timeout(LONGEST_LOOK, &mut looked).await {
            Ok(looked) => looked,
            Err(_) => {
                tracing::error!(
                    "files have not been read within {LONGEST_LOOK:?}: their changes take effect when they are"
                );
                looked.await
            }
        };
        match looked {
            Ok(again) => sources = again,
            Err(error) => return tracing::error!(%error, "changes of files are no longer detected: restart the server"),
        }
    }
}

impl Source {
    fn look(&mut self, asked: bool) {
        let content: Vec<_> = self.files.iter().map(|path| digest(path)).collect();
        if content == self.seen && !asked {
            return;
        }
        self.seen = content;
        let what = self.what;
        match (self.reload)() {
            Ok(()) => tracing::info!(what, "reloaded"),
            Err(why) => {
                tracing::error!(what, why, "reload failed; still using the previous files. Fix the file to retry")
            }
        }
    }
}

fn digest(path: &Path) -> Digest {
    let bytes = named_file::read(path).ok()?;
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    Some(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// Warns if others than the owner and the group may read a file with a secret.
pub(super) fn warn_if_open_to_others(what: &str, path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0) {
        tracing::warn!("{what} {}: every user of this machine can read it; run chmod 600", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The contents that were loaded, in turn; one that begins with `!` is wrong.
    fn watched(path: &Path) -> (Source, Arc<Mutex<Vec<String>>>) {
        let loaded = Arc::<Mutex<Vec<_>>>::default();
        let (path, seen) = (path.to_owned(), loaded.clone());
        let files = vec![path.clone()];
        let before = FileDigests::before_loading(files.clone());
        let reload = move || {
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            if text.starts_with('!') {
                return Err(text);
            }
            seen.lock().unwrap().push(text);
            Ok(())
        };
        (Source::new("text", files, &before, Box::new(reload)), loaded)
    }

    #[test]
    fn content_counts_and_not_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("link"), directory.path().join("new"));
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        std::os::unix::fs::symlink(write("a", "one"), &path).unwrap();
        let (mut watched, loaded) = watched(&path);
        let mut look = |asked| {
            watched.look(asked);
            std::mem::take(&mut *loaded.lock().unwrap())
        };
        write("a", "one");
        assert!(look(false).is_empty(), "written, and the same");
        std::os::unix::fs::symlink(write("b", "two"), &other).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(look(false), ["two"], "the link was turned");
        assert!(look(false).is_empty());
        assert_eq!(look(true), ["two"], "asked to reload");
        write("b", "!bad");
        assert!(look(false).is_empty());
        fs::remove_file(directory.path().join("b")).unwrap();
        assert!(look(false).is_empty());
        write("b", "three");
        assert_eq!(look(false), ["three"], "the file is valid again");
    }
}
