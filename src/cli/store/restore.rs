//! `pausewatch restore`: a store made of a backup.
use super::{count, directory, failed, moment};
use crate::cli::data_dir::DataDir;
use crate::clock::{Clock, System};
use crate::coordinator::store::restore;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For a server that is down. The backup is checked before anything is changed. What was closed after the backup is open again until it \
is closed or its lease ends; revisions go on above all that any client has seen.")]
pub struct Args {
    /// The backup; `-`: standard input.
    #[arg(value_name = "FILE")]
    backup: PathBuf,
    /// Also where there is a store: it is moved to a directory replaced-... in the data directory.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    data_dir: DataDir,
}

/// Restores.
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
            println!(
                "{}: {} and {}, as of {}; revisions go on above {}",
                directory.display(),
                count(restored.summary.threads, "thread"),
                count(restored.summary.elicitations, "open elicitation"),
                moment(restored.summary.taken),
                restored.revision
            );
            if let Some(replaced) = restored.replaced {
                println!("what was there before is in {}", replaced.display());
            }
            ExitCode::SUCCESS
        }
        Err(why) => failed("restore", &why.to_string()),
    }
}
