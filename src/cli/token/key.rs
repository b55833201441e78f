//! `pausewatch token key`: creates a key pair.
use super::problem::{Problem, failed};
use crate::server::access::mint::Pair;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The arguments of `token key`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keep FILE secret: its owner can sign tokens. FILE.pub is for servers (serve --jwt-keys FILE.pub). Prints the name FILE.pub. \
The keys are Ed25519; keys of `openssl genpkey` work as well.")]
pub(super) struct Args {
    /// The file for the private key. It must not exist yet.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<String, Problem> {
    let pair = Pair::generate().map_err(Problem::Failed)?;
    let mut public_path = args.file.clone().into_os_string();
    public_path.push(".pub");
    let public_path = PathBuf::from(public_path);
    let mut made = Vec::new();
    for (path, text, mode) in [(&args.file, &pair.private, 0o600), (&public_path, &pair.public, 0o644)] {
        let written = new_file(path, mode).and_then(|mut file| {
            made.push(path);
            file.write_all(text.as_bytes()).map_err(|error| failed("write", path, &error))
        });
        if let Err(why) = written {
            // One file of a pair is useless, and would make the next attempt fail.
            made.iter().for_each(|path| _ = fs::remove_file(path));
            return Err(why);
        }
    }
    Ok(public_path.display().to_string())
}

/// Creates a file that must not exist yet.
fn new_file(path: &Path, mode: u32) -> Result<File, Problem> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.map_err(|error| failed("make", path, &error))
}
