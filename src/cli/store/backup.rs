//! `pausewatch backup`: a copy of the store in one file, while the server or the replicas of a fleet run, or while none does.
//!
//! 1. The file with the requested name is a complete backup: it is written under another name, read to its end, made
//!    durable, and then renamed.
//! 2. That other name is random, so no other process uses it: several processes may write backups with the same name,
//!    and the last one replaces the others.
use super::place::{Fleet, Place, StoreArgs};
use super::{block_on, count, failed, misused, moment};
use crate::cli::failure;
use crate::cli::output::{check_open, finish};
use crate::clock::{Clock, System};
use crate::coordinator::store::etcd::FleetSnapshot;
use crate::coordinator::store::{OpenError, Summary, copy_backup, open_read_only, would_break_a_store};
use crate::server::ask_for_backup;
use crate::server::links::end_of_links;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The arguments of `backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The backup is a consistent snapshot with every change that was acknowledged before. The server keeps running. Run this as the \
user of the server or as root, on its machine; with --store etcd, on any machine that reaches etcd, whether replicas run or not. `pausewatch \
restore` creates a store of either kind from the backup.")]
pub struct Args {
    /// The file to write, readable by its owner only; `-`: standard output. An existing regular file is replaced, unless it belongs to a store.
    #[arg(value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args, serve: &clap::Command) -> ExitCode {
    let place = match args.store.find(serve) {
        Ok(place) => place,
        Err(problems) => return misused("backup", &problems),
    };
    let to_stdout = args.out == Path::new("-");
    if to_stdout && let Err(why) = check_open() {
        return failed("backup", &why.to_string());
    }
    let made = match to_stdout {
        true => copy(&place, &mut Target::new("standard output", io::stdout().lock())),
        false => into_file(&place, &args.out),
    };
    match made {
        Ok(summary) => {
            let Summary { threads, elicitations, bytes, taken, .. } = summary;
            let report = format!(
                "{} of {}: {}, {}, {bytes} bytes",
                args.out.display(),
                moment(taken),
                count(threads, "thread"),
                count(elicitations, "open elicitation")
            );
            if to_stdout {
                failure::say("backup", &report);
                return ExitCode::SUCCESS;
            }
            finish("backup", &format!("{report}\n"))
        }
        Err(why) => failed("backup", &why),
    }
}

/// The destination of a copy. It keeps its own errors, so that they are not reported as errors of the source.
struct Target<W> {
    name: String,
    out: W,
    failure: Option<String>,
}

impl<W: Write> Target<W> {
    fn new(name: impl Into<String>, out: W) -> Self {
        Target { name: name.into(), out, failure: None }
    }
}

impl<W: Write> Write for Target<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|error| self.failure = Some(format!("{}: {error}", self.name)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().inspect_err(|error| self.failure = Some(format!("{}: {error}", self.name)))
    }
}

/// Copies the store to `out`.
fn copy(place: &Place, out: &mut Target<impl Write>) -> Result<Summary, String> {
    let copied = match place {
        Place::Directory(directory) => copy_directory(directory, out),
        Place::Fleet(fleet) => copy_fleet(fleet, out),
    };
    copied.map_err(|why| out.failure.take().unwrap_or(why))
}

/// Copies the store in etcd, whether replicas run or not.
fn copy_fleet(fleet: &Fleet, out: &mut dyn Write) -> Result<Summary, String> {
    let clock = Arc::new(System::new());
    let taken = clock.now().wall;
    let snapshot = block_on(FleetSnapshot::take(&fleet.endpoints, &fleet.prefix, clock));
    let snapshot = snapshot.map_err(|error| error.to_string())?;
    snapshot.write(taken, out).map_err(|error| error.to_string())
}

/// Copies from the server that has it open or, if there is none, from the files.
fn copy_directory(directory: &Path, out: &mut dyn Write) -> Result<Summary, String> {
    let clock = System::new();
    let closed = match open_read_only(directory, clock.boot_id()) {
        Ok(store) => store,
        Err(in_use @ OpenError::InUse(_)) => {
            let mut from = ask_for_backup(directory).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    format!("{in_use}, and it does not take questions (its socket `control` in the directory): back up when it is down")
                }
                _ => format!("the server that has {} open: {error}", directory.display()),
            })?;
            return copy_backup(&mut from, out).map_err(|error| format!("the server's copy: {error}"));
        }
        Err(why) => return Err(why.to_string()),
    };
    let taken = clock.now().wall;
    let snapshot = closed.snapshots().take().map_err(|why| why.to_string())?;
    snapshot.write(taken, out).map_err(|error| error.to_string())
}

fn into_file(place: &Place, path: &Path) -> Result<Summary, String> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let target = end_of_links(path.to_owned()).map_err(named)?;
    // A device or a pipe would be replaced, not written to.
    if std::fs::metadata(path).is_ok_and(|existing| !existing.is_file()) {
        return Err(format!(
            "{}: is not a regular file; name another file, or `-` for standard output",
            path.display()
        ));
    }
    if would_break_a_store(&target) {
        return Err(format!("{}: is a name of the store in that directory; name a file elsewhere", path.display()));
    }
    let mut name = target.file_name().ok_or_else(|| format!("{}: expected a file name", path.display()))?.to_owned();
    name.push(".");
    let parent = target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new();
    // The reasons and holders of elicitations are private. The file is removed when this is dropped.
    let draft = draft.prefix(&name).suffix(".partial").permissions(Permissions::from_mode(0o600)).tempfile_in(parent);
    let draft = draft.map_err(named)?;
    let out = BufWriter::with_capacity(256 << 10, draft.as_file());
    let summary = copy(place, &mut Target::new(path.display().to_string(), out))?;
    draft.as_file().sync_all().map_err(named)?;
    let written = draft.reopen().map_err(named)?;
    let mut reader = io::BufReader::with_capacity(256 << 10, written);
    let read = copy_backup(&mut reader, &mut io::sink()).map_err(named)?;
    if read != summary {
        return Err(format!("{}: the data read back differs from the data written: the disk fails", path.display()));
    }
    draft.persist(&target).map_err(|error| named(error.error))?;
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(named)?;
    Ok(summary)
}
