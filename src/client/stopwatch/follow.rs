//! The one task of a controller: from the watch to the threads' clocks.
//!
//! Ends when the controller and all its registrations are gone.
use super::{
    paused_time::Via,
    threads::{Command, Idle, LINGER, Link, Threads},
};
use crate::client::{Event, Watch};
use std::{collections::VecDeque, sync::Arc};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// Commands that are taken at once: what was registered together shares a stream.
const BATCH: usize = 1_024;

pub(super) async fn follow(
    mut states: Watch,
    threads: Arc<Threads>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    link: watch::Sender<Link>,
) {
    let mut batch = Vec::new();
    // Each is put in with the same delay, so the first is the next; one that is put in again may be a little late.
    let mut doubtful: VecDeque<(Instant, Arc<str>)> = VecDeque::new();
    loop {
        let due = doubtful.front().map(|(due, _)| *due);
        tokio::select! {
            biased;
            received = commands.recv_many(&mut batch, BATCH) => {
                if received == 0 {
                    return;
                }
                for command in batch.drain(..) {
                    match command {
                        // The id was checked when it was registered.
                        Command::Follow(thread_id) => states.add(&thread_id).unwrap_or_default(),
                        Command::MayBeIdle(thread_id) => doubtful.push_back((Instant::now() + LINGER, thread_id)),
                    }
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let Some((_, thread_id)) = doubtful.pop_front() else { continue };
                match threads.forget_if_idle(&thread_id, Instant::now()) {
                    Idle::InUse => {}
                    Idle::LookAgain(due) => doubtful.push_back((due, thread_id)),
                    Idle::Forgotten => states.remove(&thread_id),
                }
            }
            event = states.next() => take(&threads, &link, event),
        }
    }
}

fn take(threads: &Threads, link: &watch::Sender<Link>, event: Event) {
    match event {
        Event::State(update) => {
            if let Some(clock) = threads.clock(&update.state.thread_id) {
                clock.apply(&update.state, Via::Watch { gap: update.gap });
            }
        }
        Event::SnapshotComplete => {
            link.send_replace(Link::Connected);
        }
        Event::Disconnected { thread_ids, error } => {
            link.send_replace(Link::Disconnected(error.to_string()));
            thread_ids.iter().filter_map(|id| threads.clock(id)).for_each(|clock| clock.cut());
        }
    }
}
