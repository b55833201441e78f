//! Symbolic links to files that are replaced: the link stays, and its target is replaced.
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The target at the end of a chain of links; it need not exist. For a circle of links, returns the path itself:
/// opening it fails.
pub(super) fn end_of_links(path: PathBuf) -> PathBuf {
    let mut end = path.clone();
    for _ in 0..40 {
        match fs::read_link(&end) {
            Ok(target) => end = end.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return end,
        }
    }
    path
}
