//! `pausewatch check`: whether a server could start from what is there, and what it would find.
use super::{count, directory, failed, moment};
use crate::cli::data_dir::DataDir;
use crate::clock::{Clock, System};
use crate::coordinator::store::{FORMAT, copy_backup, inspect};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads every page, row and journal entry, as a server does that starts, and changes nothing; a server cannot start meanwhile. Not for \
a store that a server has open: that one is sound, or the server ends. Exit code: 0 sound, 1 not, or it cannot be told.")]
pub struct Args {
    /// A backup to check, instead of a data directory.
    #[arg(value_name = "BACKUP", conflicts_with = "data_dir")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    data_dir: DataDir,
}

/// Checks.
pub(crate) fn run(args: Args, serve: &clap::Command) -> ExitCode {
    if let Some(backup) = args.backup {
        return check_backup(&backup);
    }
    let directory = match directory(args.data_dir, serve, "check") {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let clock = System::new();
    match inspect(&directory, clock.boot_id(), clock.now()) {
        Ok(found) => {
            println!(
                "{}: sound. Format {FORMAT}; {}, {} paused; {}; revisions up to {}; {} bytes",
                directory.display(),
                count(found.threads as u64, "thread"),
                found.paused,
                count(found.elicitations as u64, "open elicitation"),
                found.revision,
                found.database_bytes
            );
            ExitCode::SUCCESS
        }
        Err(why) => failed("check", &why.to_string()),
    }
}

fn check_backup(path: &Path) -> ExitCode {
    let read =
        File::open(path).and_then(|file| copy_backup(&mut BufReader::with_capacity(256 << 10, file), &mut io::sink()));
    match read {
        Ok(summary) => {
            let (threads, open) = (count(summary.threads, "thread"), count(summary.elicitations, "open elicitation"));
            println!("{}: sound. Backup of {}; {threads}; {open}", path.display(), moment(summary.taken));
            ExitCode::SUCCESS
        }
        Err(error) => failed("check", &format!("{}: {error}", path.display())),
    }
}
