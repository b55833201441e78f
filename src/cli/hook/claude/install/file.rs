//! A settings file that is read, and replaced as a whole.
//!
//! 1. At every moment the file has the old or the new content: a temporary file beside it is synced and renamed over it.
//! 2. A symbolic link stays one: its target is replaced. The permissions stay.
//! 3. A change that another program made meanwhile is not lost: the file is then not written.
use crate::server::links::end_of_links;
use std::{
    fs::{self, File, Permissions},
    io::{ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The content of a file that does not exist.
const EMPTY: &str = "{}\n";

/// The settings file and its content.
pub(super) struct SettingsFile {
    path: PathBuf,
    /// `None`: the file does not exist.
    text: Option<String>,
}

impl SettingsFile {
    pub(super) fn read(path: PathBuf) -> Result<Self, String> {
        // A link is followed, also one whose target does not exist yet.
        let path = end_of_links(path).map_err(|error| format!("write the settings: {error}"))?;
        let text = read(&path)?;
        Ok(Self { path, text })
    }

    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(EMPTY)
    }

    pub(super) fn exists(&self) -> bool {
        self.text.is_some()
    }

    /// The path, for people.
    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn write(&self, new: &str) -> Result<(), String> {
        let failed = |why: &dyn std::fmt::Display| format!("write {}: {why}", self.shown());
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        let permissions = match fs::metadata(&self.path) {
            Ok(metadata) => metadata.permissions(),
            Err(_) => Permissions::from_mode(0o600),
        };
        let mut temporary = tempfile::Builder::new()
            .prefix(".settings.json.")
            .tempfile_in(directory)
            .map_err(|error| failed(&error))?;
        let prepared = temporary
            .write_all(new.as_bytes())
            .and_then(|()| temporary.as_file().set_permissions(permissions))
            .and_then(|()| temporary.as_file().sync_all());
        prepared.map_err(|error| failed(&error))?;
        if read(&self.path)? != self.text {
            return Err(failed(&"another program has changed it meanwhile; it was not overwritten, run this again"));
        }
        temporary.persist(&self.path).map_err(|error| failed(&error.error))?;
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("read {}: {error}", path.display())),
    }
}
