//! Commands whose thread is paused just before they expire: none is killed during the pause (G1), each is charged
//! correctly (G3), and each expires afterwards (G2).
use crate::world::{World, worst};
use fastrand::Rng;
use pausewatch::client::{Client, Release};
use pausewatch::stopwatch::{Stopwatch, StopwatchController};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until};

const EXEC_SERVERS: usize = 2;
const COMMANDS: usize = 12;
/// The maximum error of a stopwatch.
const EXACT: Duration = Duration::from_millis(5);
/// The time after a resume until every process knows of it: longer than any fault lasts, and than the disconnect grace.
const KNOWN: Duration = Duration::from_secs(45);
/// Longer than any fault lasts, so that no hold is lost to a fault.
const TTL: Duration = Duration::from_secs(20);

pub(crate) fn start(world: &Arc<World>, random: &mut Rng) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for server in 0..EXEC_SERVERS {
        let controller = StopwatchController::new(world.client(server));
        for number in 0..COMMANDS {
            // The tool that asks stands for another process than the exec server, so it has its own connection.
            let (client, controller) = (world.client(number), controller.clone());
            let name = format!("commands of {server}-{number}");
            let slot = Slot { name, client, controller, world: world.clone(), random: random.fork() };
            tasks.push(tokio::spawn(slot.run()));
        }
    }
    tasks
}

struct Slot {
    name: String,
    client: Client,
    controller: StopwatchController,
    world: Arc<World>,
    random: Rng,
}

impl Slot {
    async fn run(mut self) {
        let world = self.world.clone();
        let mut number = 0;
        while let Some(_working) = world.work().await {
            number += 1;
            let thread_id = format!("{} {number}", self.name);
            if let Err(what) = self.command(&thread_id).await {
                world.fail(format!("{thread_id}: {what}"));
            }
            world.counts.races.fetch_add(1, Relaxed);
        }
    }

    async fn command(&mut self, thread_id: &str) -> Result<(), String> {
        let counts = &self.world.counts;
        let limit = Duration::from_millis(100 + self.random.u64(..1_000));
        let lead = Duration::from_millis(1 + self.random.u64(..60)).min(limit);
        let (stopwatch, unlimited) = (Stopwatch::new(limit), Stopwatch::unlimited());
        let start = Instant::now();
        let register = |stopwatch| self.controller.register(thread_id, stopwatch).map_err(|error| error.to_string());
        let _registered = (register(&stopwatch)?, register(&unlimited)?);
        let expired = tokio::spawn({
            let stopwatch = stopwatch.clone();
            async move {
                stopwatch.expired().await;
                Instant::now()
            }
        });

        sleep_until((start + limit - lead).into()).await;
        let hold = match self.client.hold(thread_id).ttl(TTL).open().await {
            Ok(hold) => hold,
            // No answer within the whole deadline: whether it is open is unknown, and its lease ends it.
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(format!("{error:?}")),
        };
        let in_time = Instant::now() < start + limit;
        sleep(Duration::from_millis(200 + self.random.u64(..1_500))).await;
        // Checked before the release is sent, because its answer may be lost.
        let was_killed = expired.is_finished();
        let release = self.world.answered(|| hold.release()).await;
        let held = matches!(release, Ok(Release::Closed { .. }));
        if !held {
            return Err(format!("the release of a hold that was renewed: {release:?}"));
        }
        if in_time && was_killed {
            return Err(format!("killed, though it was held {lead:?} before its time ran out"));
        }
        if in_time {
            counts.frozen.fetch_add(1, Relaxed);
        }

        let paused = self.world.get(&self.client, thread_id).await.paused_total;
        let paused: Duration = paused.unwrap_or_default().try_into().map_err(|error| format!("{error}"))?;
        self.charged(&unlimited, start, paused).await?;
        let Ok(Ok(end)) = tokio::time::timeout(KNOWN, expired).await else {
            return Err("it has not expired though its thread runs".into());
        };
        counts.expired.fetch_add(1, Relaxed);
        let charged = (end - start).saturating_sub(paused);
        if in_time && charged + EXACT < limit {
            return Err(format!("expired after {charged:?} of {limit:?}"));
        }
        Ok(())
    }

    /// Waits until the exec server knows of the whole pause, and checks what it charges.
    async fn charged(&self, stopwatch: &Stopwatch, start: Instant, paused: Duration) -> Result<(), String> {
        let asked = Instant::now();
        loop {
            let before = start.elapsed();
            let (charged, is_paused) = (stopwatch.elapsed(), stopwatch.is_paused());
            let after = start.elapsed();
            let least = before.saturating_sub(paused);
            let wrong = least.saturating_sub(charged).max(charged.saturating_sub(after.saturating_sub(paused)));
            if !is_paused && wrong <= EXACT {
                worst(&self.world.counts.worst_charge, wrong);
                return Ok(());
            }
            if asked.elapsed() > KNOWN {
                return Err(format!(
                    "charged {charged:?} of {after:?}, of which {paused:?} paused (paused: {is_paused})"
                ));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}
