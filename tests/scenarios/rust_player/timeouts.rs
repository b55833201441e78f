//! Pausable timeouts: a stopwatch that follows its thread, and a task that waits for its expiry, as for a command.
use super::{Outcome, Player, Step, mistake, named};
use crate::{player::Refusal, wire::milliseconds};
use pausewatch::stopwatch::{
    AwaitedThread, EndedBy, Link, PauseGuard, Registration, Stopwatch, StopwatchBuilder, StopwatchController,
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::sleep,
};

/// Well below the allowed error (5 ms).
const MOMENT: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Timeouts {
    /// By client and disconnect grace, because these share a stream.
    controllers: HashMap<(String, Option<Duration>), StopwatchController>,
    timeouts: HashMap<String, Arc<Timeout>>,
    pauses: HashMap<(String, String), PauseGuard>,
    waits: HashMap<(String, String), AwaitedThread>,
}

struct Timeout {
    began: Instant,
    stopwatch: Stopwatch,
    link: watch::Receiver<Link>,
    /// The values at its expiry.
    expired: watch::Receiver<Option<Value>>,
    waiter: AbortHandle,
    registration: Registration,
}

impl Drop for Timeout {
    fn drop(&mut self) {
        self.waiter.abort();
    }
}

impl Timeout {
    fn start(controller: &StopwatchController, step: &Step) -> Result<Self, Refusal> {
        let limit = step.duration("limit_ms").ok_or_else(|| mistake("no limit".to_owned()))?;
        let limits = Stopwatch::builder().limit(limit);
        let limits = step.duration("max_wall_ms").into_iter().fold(limits, StopwatchBuilder::max_wall);
        let (began, stopwatch) = (Instant::now(), limits.start());
        let registration = controller.register(step.text("thread_id"), &stopwatch)?;
        let (tell, expired) = watch::channel(None);
        let waiting = stopwatch.clone();
        let waiter = tokio::spawn(async move {
            waiting.expired().await;
            let read = || json!({"charged_ms": milliseconds(waiting.elapsed()), "ended_by": ended_by(&waiting)});
            let read = at_one_moment(began, read);
            tell.send_replace(Some(read));
        });
        let (link, waiter) = (controller.link(), waiter.abort_handle());
        Ok(Timeout { began, stopwatch, link, expired, waiter, registration })
    }

    fn read(&self) -> Value {
        at_one_moment(self.began, || {
            json!({
                "expired": self.expired.borrow().is_some(),
                "charged_ms": milliseconds(self.stopwatch.elapsed()),
                "remaining_ms": self.stopwatch.remaining().map(milliseconds),
                "paused": self.stopwatch.is_paused(),
                "linked": *self.link.borrow() == Link::Connected,
                "ended_by": ended_by(&self.stopwatch),
            })
        })
    }
}

fn ended_by(stopwatch: &Stopwatch) -> Option<&'static str> {
    stopwatch.ended_by().map(|by| if by == EndedBy::MaxWall { "max_wall" } else { "limit" })
}

/// The values, and the wall time at which they were read. A busy machine may interrupt this program in between: then
/// they are read again.
fn at_one_moment(began: Instant, read: impl Fn() -> Value) -> Value {
    loop {
        let before = began.elapsed();
        let mut value = read();
        if began.elapsed() - before < MOMENT {
            value["wall_ms"] = milliseconds(before).into();
            return value;
        }
    }
}

impl Player {
    pub(super) async fn time(&self, step: &Step) -> Outcome {
        let name = step.text("timeout").to_owned();
        let pause = (name.clone(), step.text("pause").to_owned());
        match step.text("do") {
            "timeout" => {
                let timeout = Timeout::start(&self.controller(step)?, step)?;
                self.world().timeouts.timeouts.insert(name, Arc::new(timeout));
            }
            "timeout_block" => return self.timeout_block(step).await,
            "expire_together" => return self.expire_together(step).await,
            "read" => return Ok(self.timeout(&name)?.read()),
            "stop" => {
                let timeout = self.timeout(&name)?;
                self.world().timeouts.timeouts.remove(&name);
                return Ok(timeout.read());
            }
            "expired" => {
                let mut expired = self.timeout(&name)?.expired.clone();
                let read = expired.wait_for(Option::is_some).await.map_err(|_| mistake("it was stopped".to_owned()))?;
                return Ok(read.clone().unwrap_or_default());
            }
            "pause" => {
                let guard = self.timeout(&name)?.stopwatch.pause();
                self.world().timeouts.pauses.insert(pause, guard);
            }
            "await_thread" => {
                let awaited = self.timeout(&name)?.registration.await_thread(step.text("thread_id"))?;
                self.world().timeouts.waits.insert((name, step.text("wait").to_owned()), awaited);
            }
            "unawait_thread" => {
                drop(self.world().timeouts.waits.remove(&(name, step.text("wait").to_owned())));
            }
            _ => drop(self.world().timeouts.pauses.remove(&pause)),
        }
        Ok(json!({}))
    }

    async fn timeout_block(&self, step: &Step) -> Outcome {
        let timeout = Timeout::start(&self.controller(step)?, step)?;
        let outcome = tokio::select! {
            () = sleep(step.duration("work_ms").unwrap_or_default()) => "finished",
            () = timeout.stopwatch.expired() => "timed_out",
        };
        let wall = milliseconds(timeout.began.elapsed());
        Ok(json!({"outcome": outcome, "wall_ms": wall, "ended_by": ended_by(&timeout.stopwatch)}))
    }

    async fn expire_together(&self, step: &Step) -> Outcome {
        let (controller, began) = (self.controller(step)?, Instant::now());
        let end = began + step.duration("limit_ms").ok_or_else(|| mistake("no limit".to_owned()))?;
        let mut waiting = JoinSet::new();
        for number in 0..step.number("count").unwrap_or_default() as usize {
            let stopwatch = Stopwatch::new(end.saturating_duration_since(Instant::now()));
            let registration = controller.register(&format!("together-{number}"), &stopwatch)?;
            waiting.spawn(async move {
                stopwatch.expired().await;
                drop(registration);
                Instant::now()
            });
        }
        let told = waiting.join_all().await.into_iter().max().unwrap_or(end);
        let late =
            milliseconds(told.saturating_duration_since(end)) - milliseconds(end.saturating_duration_since(told));
        Ok(json!({"late_ms": late}))
    }

    /// Closes the connections of a client's timeouts.
    pub(super) fn close(&self, step: &Step) {
        let mut world = self.world();
        world.clients.remove(step.text("client"));
        world.timeouts.controllers.retain(|(client, _), controller| {
            let stays = client != step.text("client");
            if !stays {
                controller.close();
            }
            stays
        });
    }

    fn timeout(&self, name: &str) -> Result<Arc<Timeout>, Refusal> {
        named(&self.world().timeouts.timeouts, name)
    }

    fn controller(&self, step: &Step) -> Result<StopwatchController, Refusal> {
        let client = self.client(step)?;
        let grace = step.duration("disconnect_grace_ms");
        let mut world = self.world();
        let controller = world.timeouts.controllers.entry((step.text("client").to_owned(), grace));
        let make = || match grace {
            Some(grace) => StopwatchController::with_disconnect_grace(client, grace),
            None => StopwatchController::new(client),
        };
        Ok(controller.or_insert_with(make).clone())
    }
}
