//! One timeout: its stopwatch, and the lines about it.
use crate::client::stopwatch::{EndedBy, Registration, Stopwatch, StopwatchBuilder, StopwatchController};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Notify, mpsc};

pub(super) struct Timeout {
    id: String,
    stopwatch: Stopwatch,
    _registered: Registration,
    pub(super) stop: Arc<Notify>,
}

impl Timeout {
    pub(super) fn start(
        controller: &StopwatchController,
        id: String,
        thread_id: &str,
        limit: Option<Duration>,
        max_wall: Option<Duration>,
    ) -> Result<Self, String> {
        let limits = limit.into_iter().fold(Stopwatch::builder(), StopwatchBuilder::limit);
        let limits = max_wall.into_iter().fold(limits, StopwatchBuilder::max_wall);
        let stopwatch = limits.start();
        let _registered = controller.register(thread_id, &stopwatch).map_err(|error| error.to_string())?;
        Ok(Self { id, stopwatch, _registered, stop: Arc::default() })
    }

    fn last_line(&self, event: &str) -> Value {
        let (wall, charged, _) = self.stopwatch.times().milliseconds();
        json!({"event": event, "id": self.id, "charged_ms": charged, "wall_ms": wall})
    }
}

/// Follows a timeout to its end. While nobody reads, only its latest line waits.
pub(super) async fn follow(timeout: Timeout, output: mpsc::Sender<String>) {
    let stopwatch = &timeout.stopwatch;
    let report_changes = async {
        let mut is_paused = false;
        let line = |event: &str| format!("{}\n", json!({"event": event, "id": timeout.id}));
        // Each line is made when there is space for it.
        let Ok(space) = output.reserve().await else { return };
        space.send(line("started"));
        loop {
            stopwatch.pause_changed(is_paused).await;
            let Ok(space) = output.reserve().await else { return };
            if stopwatch.is_paused() != is_paused {
                is_paused = !is_paused;
                space.send(line(if is_paused { "frozen" } else { "running" }));
            }
        }
    };
    let last = tokio::select! {
        biased;
        () = stopwatch.expired() => {
            let mut line = timeout.last_line("expired");
            line["ended_by"] = match stopwatch.ended_by() {
                Some(EndedBy::MaxWall) => "max_wall",
                Some(EndedBy::Limit) | None => "limit",
            }
            .into();
            line
        }
        () = timeout.stop.notified() => timeout.last_line("stopped"),
        () = report_changes => return,
    };
    // Without a reader, the line is lost.
    let _ = output.send(format!("{last}\n")).await;
}
