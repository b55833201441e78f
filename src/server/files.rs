//! Files that are read again when they change, or when somebody says so, while the server runs.
//!
//! 1. What counts is their content, not a date: so a link that was turned to another file (certbot, Kubernetes) is a change, and
//!    a `touch` is none.
//! 2. New content that is wrong is logged once, and all stays as it was.
//! 3. The content is looked at before it is loaded: what changes in between is found the next time.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How often files are looked at: a few milliseconds of work a minute.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Files, and what is done with new content.
pub(super) struct Source {
    /// For the log.
    pub(super) what: &'static str,
    pub(super) files: Vec<PathBuf>,
    pub(super) reload: Box<dyn Fn() -> Result<(), String> + Send>,
}

/// Has a running server read its files again: certificates, keys, tokens.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<Notify>);

impl Reload {
    /// Now, changed or not. It is done by a task of the server; what is wrong is logged.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Reads `sources` again when they change and when `reload` says so, for ever.
pub(super) async fn keep_current(sources: Vec<Source>, reload: Reload) {
    let mut watched: Vec<_> = sources.into_iter().map(Watched::new).collect();
    loop {
        let asked = tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY), if !watched.is_empty() => false,
            () = reload.0.notified() => true,
        };
        if asked && watched.is_empty() {
            tracing::info!("asked to read its files again: there are none");
        }
        // A disk may take its time.
        let looked = tokio::task::spawn_blocking(move || {
            watched.iter_mut().for_each(|watched| watched.look(asked));
            watched
        });
        match looked.await {
            Ok(again) => watched = again,
            Err(error) => return tracing::error!(%error, "files are not looked at any more: start the server again"),
        }
    }
}

struct Watched {
    source: Source,
    seen: Vec<Option<[u8; 32]>>,
}

impl Watched {
    fn new(source: Source) -> Self {
        let seen = content(&source.files);
        Watched { source, seen }
    }

    fn look(&mut self, asked: bool) {
        let content = content(&self.source.files);
        if content == self.seen && !asked {
            return;
        }
        self.seen = content;
        let what = self.source.what;
        match (self.source.reload)() {
            Ok(()) => tracing::info!(what, "read again"),
            Err(why) => {
                tracing::error!(what, why, "not taken over, the old ones stay: mend the file, and it is read again")
            }
        }
    }
}

/// `None`: it cannot be read.
fn content(files: &[PathBuf]) -> Vec<Option<[u8; 32]>> {
    let digest = |bytes: Vec<u8>| {
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
    };
    files.iter().map(|path| fs::read(path).ok().map(digest)).collect()
}

/// Says so when others than the owner and the group of a file with a secret may read it.
pub(super) fn warn_if_open_to_others(what: &str, path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0) {
        tracing::warn!("{what} {}: every user of this machine can read it; chmod 600 it", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// What was loaded, in turn; content that begins with `!` is wrong.
    fn watched(path: &Path) -> (Watched, Arc<Mutex<Vec<String>>>) {
        let loaded = Arc::<Mutex<Vec<_>>>::default();
        let (path, seen) = (path.to_owned(), loaded.clone());
        let files = vec![path.clone()];
        let reload = move || {
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            if text.starts_with('!') {
                return Err(text);
            }
            seen.lock().unwrap().push(text);
            Ok(())
        };
        (Watched::new(Source { what: "text", files, reload: Box::new(reload) }), loaded)
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
        assert_eq!(look(true), ["two"], "told to");
        write("b", "!bad");
        assert!(look(false).is_empty());
        fs::remove_file(directory.path().join("b")).unwrap();
        assert!(look(false).is_empty());
        write("b", "three");
        assert_eq!(look(false), ["three"], "mended");
    }
}
