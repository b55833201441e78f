//! `pausewatch restore`: a store made of a backup.
use super::{count, directory, failed, moment};
use crate::cli::data_dir::DataDir;
use crate::cli::output::finish;
use crate::clock::{Clock, System};
use crate::coordinator::store::restore;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Stop the server first. The backup is checked before anything changes. Elicitations that were closed after the backup are open again, \
until they are closed or their leases end. Revisions continue above every revision that any client has seen.")]
pub struct Args {
    /// The backup; `-`: standard input.
    #[arg(value_name = "FILE")]
    backup: PathBuf,
    /// Replace an existing store: it is moved to a directory replaced-... in the data directory.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    data_dir: DataDir,
}

/// Runs the command.
pub(crate) fn run(args: Args, serve: &clap::Command) -> ExitCode {
    let directory = match directory(args.data_dir, serve, "restore") {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let mut backup: Box<dyn Read> = match args.backup == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => match File::open(&args.backup) {
            Ok(file) => Box::new(BufReader::with_capacity(256 << 10, file)),
            Err(error) => return failed("restore", &format!("{}: {error}", args.backup.display())),
        },
    };
    let clock = System::new();
    match restore(&mut backup, &directory, args.force, clock.boot_id(), clock.now()) {
        Ok(restored) => {
            let mut report = format!(
                "{}: {} and {}, as of {}; revisions continue above {}\n",
                directory.display(),
                count(restored.summary.threads, "thread"),
                count(restored.summary.elicitations, "open elicitation"),
                moment(restored.summary.taken),
                restored.revision
            );
            if let Some(replaced) = restored.replaced {
                report += &format!("what was there before is in {}\n", replaced.display());
            }
            finish("restore", &report)
        }
        Err(why) => failed("restore", &why.to_string()),
    }
}
