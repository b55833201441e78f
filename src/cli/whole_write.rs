//! Writes to small files that other programs read. A write is complete or has no effect: a failed write, such as on a
//! full disk, leaves nothing behind.
use crate::server::links::{end_of_links, no_follow};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Appends `text`, and makes it durable. A file that does not exist is created with `mode`.
pub(super) fn append(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = open(path, OpenOptions::new().append(true).create(true).mode(mode))?;
    let length = file.metadata()?.len();
    // In one write: a concurrent reader sees all of it or nothing.
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.inspect_err(|_| _ = file.set_len(length))
}

/// Writes `new` to a file that contains `old`, and makes it durable.
pub(super) fn rewrite(path: &Path, old: &str, new: &str) -> io::Result<()> {
    let mut file = open(path, OpenOptions::new().write(true).create(true).truncate(true))?;
    let written = file.write_all(new.as_bytes()).and_then(|()| file.sync_all());
    // The disk has space for the old text, because it was there before.
    written.inspect_err(|_| _ = file.set_len(0).and_then(|()| std::fs::write(path, old)))
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let end = end_of_links(path.to_owned())?;
    options.custom_flags(no_follow(&end)).open(end)
}
