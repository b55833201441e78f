//! `pausewatch check`: whether a server could start from a store or a backup, and what it contains.
use super::{count, failed, misused, moment};
use crate::cli::config_sources;
use crate::cli::data_dir::DataDir;
use crate::cli::output::finish;
use crate::clock::{Clock, System};
use crate::coordinator::store::{FORMAT, copy_backup, inspect};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads every page, row and journal entry, as a server does when it starts, and changes nothing. A server cannot start meanwhile, and \
the store of a running server cannot be checked: that server has already checked it. Exit code: 0 sound, 1 damaged or unreadable.")]
pub struct Args {
    /// A backup to check, instead of a data directory; `-`: standard input.
    #[arg(value_name = "BACKUP", conflicts_with = "data_dir")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    data_dir: DataDir,
}

/// Runs the command.
pub(crate) fn run(args: Args, serve: &clap::Command) -> ExitCode {
    if let Some(backup) = args.backup {
        return check_backup(&backup);
    }
    let store = config_sources::find(serve, "store", args.data_dir.config());
    if !args.data_dir.is_given()
        && let Ok(Some(store)) = store
        && store != "embedded"
    {
        let store = store.display();
        let why = format!("the store of `serve` is `{store}`: name a backup, or a data directory with --data-dir");
        return misused("check", &[why]);
    }
    let directory = match args.data_dir.find(serve) {
        Ok(directory) => directory,
        Err(problems) => return misused("check", &problems),
    };
    let clock = System::new();
    match inspect(&directory, clock.boot_id(), clock.now()) {
        Ok(found) => {
            let report = format!(
                "{}: sound. Format {FORMAT}; {}, {} paused; {}; revisions up to {}; {} bytes\n",
                directory.display(),
                count(found.threads as u64, "thread"),
                found.paused,
                count(found.elicitations as u64, "open elicitation"),
                found.revision,
                found.database_bytes
            );
            finish("check", &report)
        }
        Err(why) => failed("check", &why.to_string()),
    }
}

fn check_backup(path: &Path) -> ExitCode {
    if path.is_dir() {
        return failed("check", &format!("{}: is a directory; name a data directory with --data-dir", path.display()));
    }
    let read = match path == Path::new("-") {
        true => copy_backup(&mut io::stdin().lock(), &mut io::sink()),
        false => File::open(path)
            .and_then(|file| copy_backup(&mut BufReader::with_capacity(256 << 10, file), &mut io::sink())),
    };
    match read {
        Ok(summary) => {
            let (threads, open) = (count(summary.threads, "thread"), count(summary.elicitations, "open elicitation"));
            let taken = moment(summary.taken);
            finish("check", &format!("{}: sound. Backup of {taken}; {threads}; {open}\n", path.display()))
        }
        Err(error) => failed("check", &format!("{}: {error}", path.display())),
    }
}
