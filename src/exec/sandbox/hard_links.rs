//! Files of a directory that have a name elsewhere too. The sandbox goes by paths: who may write one name of a file
//! writes the file.
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The maximum number of files and directories that are looked at.
const MAX_ENTRIES: usize = 200_000;

/// The files below a directory that have another name outside it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HardLinks {
    pub(crate) count: usize,
    pub(crate) example: PathBuf,
}

/// `None`: among the first 200,000 entries, on the file system of the directory, there is none.
pub(crate) fn hard_links(root: &Path) -> Option<HardLinks> {
    let device = fs::metadata(root).ok()?.dev();
    // By inode: the names that were not found, and one that was.
    let mut missing: HashMap<u64, (u64, PathBuf)> = HashMap::new();
    let (mut left, mut entries) = (vec![root.to_owned()], 0);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                left.clear();
                break;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != device {
                continue;
            }
            if metadata.is_dir() {
                left.push(entry.path());
            } else if metadata.is_file() && metadata.nlink() > 1 {
                let (names, _) = missing.entry(metadata.ino()).or_insert_with(|| (metadata.nlink(), entry.path()));
                *names = names.saturating_sub(1);
            }
        }
    }
    missing.retain(|_, (names, _)| *names > 0);
    let example = missing.values().map(|(_, path)| path.clone()).min()?;
    Some(HardLinks { count: missing.len(), example })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_with_a_name_outside_the_directory_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("root/below")).unwrap();
        fs::write(path("root/a"), "").unwrap();
        fs::hard_link(path("root/a"), path("root/below/b")).unwrap();
        assert_eq!(hard_links(&path("root")), None, "both names are in the directory");
        fs::write(path("outside"), "").unwrap();
        fs::hard_link(path("outside"), path("root/below/c")).unwrap();
        let found = HardLinks { count: 1, example: path("root/below/c") };
        assert_eq!(hard_links(&path("root")), Some(found));
    }
}
