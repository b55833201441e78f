//! The runtime of a command.
use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};
use std::io;
use tokio::runtime::{Builder, Runtime};

/// As many pipes as have room if the runtime finds its six files: for events, and for signals.
const PIPES: usize = 3;

/// A runtime on this thread, with I/O, time and signals.
///
/// # Errors
/// The system refuses the files that it needs.
pub(crate) fn start() -> io::Result<Runtime> {
    started().map_err(|error| match (Errno::from_io_error(&error), getrlimit(Resource::Nofile).current) {
        (Some(Errno::MFILE), Some(limit)) => io::Error::other(format!(
            "{error}: this process may have {limit}; raise the limit (`ulimit -n`, LimitNOFILE)"
        )),
        _ => error,
    })
}

fn started() -> io::Result<Runtime> {
    // Tried first, because tokio panics if it gets no files for signals.
    let pipes: io::Result<Vec<_>> = (0..PIPES).map(|_| io::pipe()).collect();
    drop(pipes?);
    Builder::new_current_thread().enable_all().build()
}
