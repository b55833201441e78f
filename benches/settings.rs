//! The settings of a run, from the environment, and the directory for data.
use crate::result::Result;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Settings {
    /// How often everything is measured. `RUNS`.
    pub(crate) runs: usize,
    /// How long a case is measured, after its warm-up. `SECONDS_PER_CASE`.
    pub(crate) per_case: Duration,
    /// Clients of `storm`. `CLIENTS`.
    pub(crate) clients: usize,
    /// Keep the values of the plots. `KEEP`.
    pub(crate) keep: bool,
    /// Streams on three replicas. `STREAMS`.
    pub(crate) streams: usize,
    /// The program. `PAUSEWATCH`: another build of it.
    pub(crate) program: PathBuf,
    /// Another build, which is measured beside it, so that a change gets its figures from one run. `BEFORE`.
    pub(crate) before: Option<PathBuf>,
    /// The directory for stores. `BENCH_DIR`. Not the system's temporary directory, which may be in memory.
    directory: PathBuf,
}

impl Settings {
    pub(crate) fn from_environment() -> Result<Self> {
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Ok(Settings {
            runs: number("RUNS", 3_usize)?.max(1),
            per_case: Duration::try_from_secs_f64(number("SECONDS_PER_CASE", 2.0)?)?,
            clients: number("CLIENTS", 20_000_usize)?.max(1),
            keep: path("KEEP").is_some(),
            streams: number("STREAMS", 100_000_usize)?.max(1),
            program: path("PAUSEWATCH").unwrap_or_else(|| env!("CARGO_BIN_EXE_pausewatch").into()),
            before: path("BEFORE"),
            directory: path("BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into()),
        })
    }

    /// An empty directory on disk, which is removed when it is dropped.
    pub(crate) fn data_dir(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(&self.directory)?)
    }
}

fn number<T: FromStr>(name: &str, default: T) -> Result<T> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name}={text} is not a number").into()),
        Err(_) => Ok(default),
    }
}
