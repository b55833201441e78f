//! The options of `serve` for operation: limits, metrics, the log, the audit trail, traces.
use super::log::Format;
use crate::cli::traces::{self, Traces};
use crate::coordinator::quota::{LimitPair, Limits};
use crate::server::{Config, Listen};
use std::path::PathBuf;

/// Limits in total and per caller.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits (0: none; docs/limits.md)")]
pub(super) struct LimitArgs {
    /// Maximum number of connections; fewer if the system allows fewer open files [default: 65536].
    #[arg(long, value_name = "N")]
    max_connections: Option<u64>,
    /// Maximum number of connections of one address or user [default: half of the total].
    #[arg(long, value_name = "N")]
    max_connections_per_caller: Option<u64>,
    /// Maximum number of watches; a stream of health or reflection counts as eight [default: 262144].
    #[arg(long, value_name = "N")]
    max_streams: Option<u64>,
    /// Maximum number of watches of one caller [default: half of the total].
    #[arg(long, value_name = "N")]
    max_streams_per_caller: Option<u64>,
    /// Maximum number of thread ids that watches name [default: 1000000].
    #[arg(long, value_name = "N")]
    max_watched_threads: Option<u64>,
    /// Maximum number of thread ids that the watches of one caller name [default: half of the total].
    #[arg(long, value_name = "N")]
    max_watched_threads_per_caller: Option<u64>,
    /// Maximum number of open elicitations [default: 1000000].
    #[arg(long, value_name = "N")]
    max_open_elicitations: Option<u64>,
    /// Maximum number of open elicitations of one caller [default: half of the total].
    #[arg(long, value_name = "N")]
    max_open_elicitations_per_caller: Option<u64>,
    /// Maximum number of threads that are paused, or were within a day [default: 1000000].
    #[arg(long, value_name = "N")]
    max_threads: Option<u64>,
    /// Maximum number of threads that one caller may have paused first [default: half of the total].
    #[arg(long, value_name = "N")]
    max_threads_per_caller: Option<u64>,
    /// Maximum number of calls per second [default: 0].
    #[arg(long, value_name = "N")]
    max_calls_per_second: Option<u64>,
    /// Maximum number of calls per second of one caller [default: 0].
    #[arg(long, value_name = "N")]
    max_calls_per_second_per_caller: Option<u64>,
    /// Maximum number of increments that are remembered, for 10 minutes each [default: 1000000].
    #[arg(long, value_name = "N")]
    max_remembered_increments: Option<u64>,
    /// Maximum number of increments of one caller that are remembered [default: half of the total].
    #[arg(long, value_name = "N")]
    max_remembered_increments_per_caller: Option<u64>,
}

impl LimitArgs {
    /// The limits that these options set.
    pub(super) fn limits(&self) -> Limits {
        let default = Limits::default();
        let most = |in_all: Option<u64>, per_caller: Option<u64>, default: LimitPair| {
            let set = |set: Option<u64>, default| set.map_or(default, |most| Some(most).filter(|&most| most > 0));
            let in_all = set(in_all, default.in_all);
            // Half of 1 is still 1.
            let half = default.per_caller.and(in_all).map(|all| (all / 2).max(1));
            LimitPair { in_all, per_caller: set(per_caller, half) }
        };
        Limits {
            connections: most(self.max_connections, self.max_connections_per_caller, default.connections),
            streams: most(self.max_streams, self.max_streams_per_caller, default.streams),
            watched: most(self.max_watched_threads, self.max_watched_threads_per_caller, default.watched),
            open: most(self.max_open_elicitations, self.max_open_elicitations_per_caller, default.open),
            threads: most(self.max_threads, self.max_threads_per_caller, default.threads),
            calls: most(self.max_calls_per_second, self.max_calls_per_second_per_caller, default.calls),
            remembered: most(
                self.max_remembered_increments,
                self.max_remembered_increments_per_caller,
                default.remembered,
            ),
        }
    }
}

/// Metrics, log, audit trail and traces.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Telemetry (docs/observability.md)")]
pub(super) struct TelemetryArgs {
    /// Serve metrics for Prometheus at http://HOST:PORT/metrics.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    metrics_listen: Option<String>,
    /// Allow metrics outside loopback: every client that reaches the port can read them.
    #[arg(long)]
    metrics_insecure: bool,
    /// The format of the log on standard error; RUST_LOG selects what is logged.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: Format,
    /// Log every pause and resume of a thread, even beyond 100 lines per second.
    #[arg(long)]
    log_every_pause: bool,
    /// Append a line of JSON to this file for each change, with its caller.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Rotate the audit log at this size, in bytes, or with KiB, MiB or GiB.
    #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = size)]
    audit_max_size: u64,
    /// Number of rotated files to keep, as FILE.1, FILE.2 and so on.
    #[arg(long, value_name = "N", default_value = "10")]
    audit_keep: u32,
    /// Send a span for each call by OTLP over gRPC to this collector, such as http://127.0.0.1:4317 [env:
    /// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, else OTEL_EXPORTER_OTLP_ENDPOINT].
    #[arg(long, value_name = "URL", value_parser = traces::parse_endpoint)]
    pub(super) otlp_endpoint: Option<String>,
}

impl TelemetryArgs {
    /// Starts the export of traces, if an endpoint is configured.
    pub(super) fn start_traces(&self) -> Result<Option<Traces>, String> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(None) };
        traces::start(endpoint).map_err(|error| format!("send traces: the URL of the collector: {error}"))
    }
}

/// Where `--listen` listens, without Unix sockets: Prometheus cannot reach them.
fn host_and_port(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Listen::Tcp(address)) => Ok(address),
        _ => Err("expected HOST:PORT, such as 127.0.0.1:9420".into()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
    let (digits, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).expect("all end with nothing");
    let size = digits.trim().parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
    size.filter(|&size| size >= 1 << 10).ok_or_else(|| "expected 1KiB or more, such as 100MiB".into())
}

impl TelemetryArgs {
    /// `config` with these options.
    ///
    /// # Errors
    /// An option needs another one. Clap does not check this: they may be set in different places.
    pub(super) fn apply(self, config: Config) -> Result<Config, String> {
        if self.metrics_insecure && self.metrics_listen.is_none() {
            return Err("--metrics-insecure needs --metrics-listen too".into());
        }
        let audit = self.audit_log.map(|path| crate::server::audit::Config {
            path,
            max_size: self.audit_max_size,
            keep: self.audit_keep,
        });
        Ok(Config {
            metrics: self.metrics_listen,
            metrics_insecure: self.metrics_insecure,
            audit,
            log_every_pause: self.log_every_pause,
            ..config
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        limits: LimitArgs,
    }

    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        assert_eq!((size("100MiB"), size("1 KiB"), size("5000")), (Ok(100 << 20), Ok(1 << 10), Ok(5_000)));
        for bad in ["", "MiB", "1", "-1KiB", "1.5MiB", "1MB", "99999999999GiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn metrics_have_a_host_and_a_port() {
        for good in ["127.0.0.1:9420", "[::1]:0", "localhost:9420"] {
            assert_eq!(host_and_port(good), Ok(good.to_owned()));
        }
        for bad in ["", "9420", ":9420", "localhost", "localhost:65536", "unix:/run/m.sock", "unix:9420"] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_default_limit_per_caller_is_half_of_the_total() {
        let limits = |args: &[&str]| Program::parse_from(["x"].iter().chain(args)).limits.limits();
        assert_eq!(limits(&[]), Limits::default());
        assert_eq!(limits(&["--max-streams", "10"]).streams, LimitPair { in_all: Some(10), per_caller: Some(5) });
        let own = limits(&["--max-streams", "0", "--max-streams-per-caller", "3"]).streams;
        assert_eq!(own, LimitPair { in_all: None, per_caller: Some(3) });
        assert_eq!(limits(&["--max-threads", "0"]).threads, LimitPair { in_all: None, per_caller: None });
        assert_eq!(limits(&["--max-calls-per-second", "9"]).calls, LimitPair { in_all: Some(9), per_caller: None });
    }
}
