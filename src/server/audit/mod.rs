//! The audit trail: who changed what, a line of JSON for each change, in a file that only grows.
//!
//! - A1: every committed change is in the trail, including lease ends and renewals. The changes of each thread are in
//!   the order of their revisions. A refused call has changed nothing and is not in the trail.
//! - A2: no call waits for the file. While it cannot be written, lines wait in a buffer in memory. When the buffer is
//!   nearly full, increments are refused, to keep room for the lines of other changes. When it is full, lines are
//!   dropped, and a later line says how many are missing.
//! - A3: only the owner can read the file. It is rotated by size, and opened again if another program has moved it.
//!   Where it cannot be rotated, it grows.
mod file;

pub use file::Config;

use crate::coordinator::metrics::Metrics;
use crate::coordinator::{ChangeObserver, Changed};
use crate::core::{Effect, PauseEnd, Timestamp};
use crate::escape::escaped_json;
use crate::server::background_writer::BackgroundWriter;
use file::Files;
use serde::Serialize;
use std::io;
use std::sync::{Arc, Mutex};

/// The maximum of waiting lines in bytes: some ten thousand lines.
const MOST: usize = 4 << 20;

/// Writes the trail.
pub(crate) struct Trail {
    writer: BackgroundWriter,
    metrics: Arc<Metrics>,
    /// The number of missing lines since the last one that was accepted.
    missing: u64,
    closed: bool,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    thread_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    elicitation_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<bool>,
    #[serde(skip_serializing_if = "str::is_empty")]
    ended_by: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    holder: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
}

impl Line<'_> {
    fn new(now: Timestamp, event: &'static str) -> Self {
        Line {
            time: rfc3339(now),
            event,
            by: None,
            thread_id: "",
            elicitation_id: "",
            revision: None,
            paused: None,
            ended_by: "",
            request_id: "",
            holder: "",
            reason: "",
            expire_time: None,
            lines: None,
            version: None,
        }
    }
}

fn rfc3339(moment: Timestamp) -> String {
    const SECOND: i64 = 1_000_000_000;
    let nanos = i32::try_from(moment.wall.rem_euclid(SECOND)).expect("below a billion");
    prost_types::Timestamp { seconds: moment.wall.div_euclid(SECOND), nanos }.to_string()
}

impl Trail {
    /// Opens the file, and notes that a server has started.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub(crate) fn open(config: &Config, metrics: Arc<Metrics>, now: Timestamp) -> io::Result<Self> {
        let writer = BackgroundWriter::start("audit", MOST, Files::open(config)?)?;
        let mut trail = Trail { writer, metrics, missing: 0, closed: false };
        trail.write(&Line { version: Some(env!("CARGO_PKG_VERSION")), ..Line::new(now, "server_started") });
        Ok(trail)
    }

    fn write(&mut self, line: &Line<'_>) {
        if self.missing > 0
            && !self.push(&Line {
                lines: Some(self.missing),
                time: line.time.clone(),
                ..Line::new(MISSING, "lines_missing")
            })
        {
            return self.miss();
        }
        self.missing = 0;
        if !self.push(line) {
            self.miss();
        }
    }

    fn miss(&mut self) {
        if self.missing == 0 {
            tracing::error!("the audit trail lacks lines: its file cannot be written, and the buffer is full");
        }
        self.missing += 1;
        self.metrics.audit_lost.add_one();
    }

    fn push(&mut self, line: &Line<'_>) -> bool {
        let line = serde_json::to_string(line).expect("a line is made of text and numbers") + "\n";
        !self.closed && self.writer.push(escaped_json(&line).as_bytes())
    }

    /// Waits shortly until all lines are written, and reports those that are not. Later lines are missing.
    pub(crate) fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let bytes = self.writer.close();
        if bytes > 0 || self.missing > 0 {
            tracing::error!(
                bytes,
                lines = self.missing,
                "the audit trail ends without its last lines: its file cannot be written"
            );
        }
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.close();
    }
}

/// A replica has an engine for each term, and all of them share the trail.
impl ChangeObserver for Arc<Mutex<Trail>> {
    fn changed(&mut self, changed: &Changed<'_>) {
        self.lock().expect("nothing panics while it writes a line").changed(changed);
    }

    fn is_full(&self) -> bool {
        self.lock().expect("nothing panics while it writes a line").is_full()
    }
}

/// A placeholder until the line has its time.
const MISSING: Timestamp = Timestamp { boot: 0, wall: 0 };

impl ChangeObserver for Trail {
    fn changed(&mut self, changed: &Changed<'_>) {
        let Changed { now, thread, change, by } = *changed;
        let by = by.map(|by| by.key().name());
        let request_id = change.request.as_ref().map_or("", |request| &request.request_id);
        let line = |event| Line { by: by.as_deref(), thread_id: thread.as_str(), request_id, ..Line::new(now, event) };
        let after = (Some(change.after.revision), Some(change.after.pause.since.is_some()));
        match &change.effect {
            Effect::Opened(open) => {
                let about = &open.elicitation;
                self.write(&Line {
                    elicitation_id: &about.id.to_string(),
                    revision: after.0,
                    paused: after.1,
                    holder: &about.holder,
                    reason: &about.reason,
                    expire_time: open.ends().map(rfc3339),
                    ..line("opened")
                });
            }
            Effect::Closed { open, closing, .. } => {
                let (event, ended_by) = match closing.how {
                    PauseEnd::Decremented => ("closed", "decremented"),
                    PauseEnd::Released => ("closed", "released"),
                    PauseEnd::Expired => ("lease_ended", "expired"),
                    PauseEnd::MaxPause => ("pause_capped", "max_pause"),
                };
                let about = &open.elicitation;
                self.write(&Line {
                    elicitation_id: &about.id.to_string(),
                    revision: after.0,
                    paused: after.1,
                    ended_by,
                    holder: &about.holder,
                    ..line(event)
                });
            }
            Effect::Renewed { id, after, .. } => self.write(&Line {
                elicitation_id: &id.to_string(),
                expire_time: after.map(|(_, ends)| rfc3339(ends)),
                ..line("renewed")
            }),
        }
    }

    fn is_full(&self) -> bool {
        self.writer.is_nearly_full()
    }
}
