//! `pausewatch restore`: creates a store from a backup.
use super::place::{Fleet, Place, StoreArgs};
use super::{block_on, count, failed, misused, moment};
use crate::cli::output::finish;
use crate::clock::{Clock, System};
use crate::coordinator::store::{OpenError, Summary, etcd, restore};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The arguments of `restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Stop the server first. The backup is checked before anything changes. Run as root, it gives the files to the owner of the data directory. Elicitations that were closed after the backup are open again, \
until they are closed or their leases end. Revisions continue above every revision that any client has seen. With --store etcd the \
prefix has to be empty; replicas do not start until the restore is finished. A backup of either kind of store is restored into either.")]
pub struct Args {
    /// The backup; `-`: standard input.
    #[arg(value_name = "FILE")]
    backup: PathBuf,
    /// Replace an existing store: it is moved to a directory replaced-... in the data directory. A fleet in etcd is never replaced.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args, serve: &clap::Command) -> ExitCode {
    let place = match args.store.find(serve) {
        Ok(Place::Fleet(_)) if args.force => {
            let why = "--force has no effect with --store etcd: give an --etcd-prefix under which there is no fleet";
            return misused("restore", &[why.into()]);
        }
        Ok(place) => place,
        Err(problems) => return misused("restore", &problems),
    };
    let mut backup: Box<dyn Read> = match args.backup == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => match File::open(&args.backup) {
            Ok(file) => Box::new(BufReader::with_capacity(256 << 10, file)),
            Err(error) => return failed("restore", &format!("{}: {error}", args.backup.display())),
        },
    };
    let restored = match &place {
        Place::Directory(directory) => into_directory(&mut backup, directory, args.force),
        Place::Fleet(fleet) => into_etcd(&mut backup, fleet),
    };
    match restored {
        Ok(report) => finish("restore", &report),
        // The backup is corrupt, not the store, which is new.
        Err(why @ OpenError::Corrupt(_)) => failed("restore", &format!("{}: {why}", args.backup.display())),
        Err(why) => failed("restore", &why.to_string()),
    }
}

fn into_directory(backup: &mut dyn Read, directory: &Path, force: bool) -> Result<String, OpenError> {
    let clock = System::new();
    let restored = restore(backup, directory, force, clock.boot_id(), clock.now())?;
    let mut report = report(&directory.display().to_string(), &restored.summary, restored.revision);
    if let Some(replaced) = restored.replaced {
        report += &format!("what was there before is in {}\n", replaced.display());
    }
    Ok(report)
}

fn into_etcd(backup: &mut dyn Read, fleet: &Fleet) -> Result<String, OpenError> {
    let Fleet { endpoints, prefix } = fleet;
    let founded = block_on(etcd::restore(backup, endpoints, prefix, Arc::new(System::new())))?;
    let mut report = report(&format!("{prefix} of etcd"), &founded.summary, founded.revision);
    if founded.removed {
        report += "an earlier restore was not finished; what it had written was removed\n";
    }
    Ok(report)
}

fn report(place: &str, summary: &Summary, revision: u64) -> String {
    format!(
        "{place}: {} and {}, as of {}; revisions continue above {revision}\n",
        count(summary.threads, "thread"),
        count(summary.elicitations, "open elicitation"),
        moment(summary.taken)
    )
}
