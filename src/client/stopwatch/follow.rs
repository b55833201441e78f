//! The one task of a controller: applies the events of the watch to the threads' clocks.
//!
//! It ends when the controller is closed, or it and all its registrations are dropped.
use super::{
    command::Command,
    paused_time::Source,
    threads::{Idle, LINGER, Threads},
};
use crate::client::{Event, Message, Watch, deadline_after};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// The maximum number of commands taken at once: they share a request.
const BATCH: usize = 1_024;

/// The state of the connection to the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// No state has arrived yet, and nothing has failed.
    Connecting,
    /// The state of every followed thread is known and up to date.
    Connected,
    /// The state of at least one thread may be out of date; the text gives the reason.
    Disconnected(String),
}

impl Link {
    pub(super) fn closed() -> Self {
        Self::Disconnected("the controller is closed".to_owned())
    }
}

pub(super) async fn follow(
    mut states: Watch,
    threads: Arc<Threads>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    link: watch::Sender<Link>,
    grace: Duration,
) {
    let mut batch = Vec::new();
    // Every entry has the same delay, so the first is due first; one that is checked again may be a little late.
    let mut idle_checks: VecDeque<(Instant, Arc<str>)> = VecDeque::new();
    loop {
        let due = idle_checks.front().map(|(due, _)| *due);
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
                        Command::CheckIdle(thread_id) => idle_checks.push_back((Instant::now() + LINGER, thread_id)),
                        Command::Close => {
                            link.send_replace(Link::closed());
                            return;
                        }
                        Command::Confirm(thread_id) => {
                            if !states.has_stream() {
                                threads.clock(&thread_id).inspect(|clock| clock.cut_off());
                            }
                            // After the grace, nobody waits for it.
                            states.confirm(thread_id, deadline_after(Instant::now(), grace));
                        }
                    }
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let Some((_, thread_id)) = idle_checks.pop_front() else { continue };
                match threads.forget_if_idle(&thread_id, Instant::now()) {
                    Idle::InUse => {}
                    Idle::CheckAgainAt(due) => idle_checks.push_back((due, thread_id)),
                    Idle::Forgotten => states.remove(&thread_id),
                }
            }
            message = states.next_message() => apply(&threads, &link, message),
        }
    }
}

fn apply(threads: &Threads, link: &watch::Sender<Link>, message: Message) {
    match message {
        Message::Event(Event::State(update)) => {
            if let Some(clock) = threads.clock(&update.state.thread_id) {
                clock.apply(&update.state, Source::Watch);
            }
        }
        Message::Confirmed { states, asked } => {
            for state in &states {
                threads.clock(&state.thread_id).inspect(|clock| clock.confirm(state, asked));
            }
        }
        Message::Event(Event::SnapshotComplete) => {
            link.send_replace(Link::Connected);
        }
        Message::Event(Event::Disconnected { thread_ids, since, error }) => {
            link.send_replace(Link::Disconnected(error.to_string()));
            thread_ids.iter().filter_map(|id| threads.clock(id)).for_each(|clock| clock.disconnect(since));
        }
    }
}
