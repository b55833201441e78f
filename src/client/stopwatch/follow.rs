//! The one task of a controller: applies the events of the watch to the threads' clocks.
//!
//! It ends when the controller is closed, or it and all its registrations are dropped.
use super::{
    command::Command,
    link::LinkReporter,
    paused_time::Source,
    stopwatch::LATE_CONFIRMATION_TIME,
    threads::{Idle, LINGER, Threads},
};
use crate::client::{Event, Message, Watch, deadline_after};
use std::{collections::VecDeque, sync::Arc};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// The maximum number of commands taken at once: they share a request.
const BATCH: usize = 1_024;

pub(super) async fn follow(
    mut states: Watch,
    threads: Arc<Threads>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    link: LinkReporter,
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
                            return;
                        }
                        Command::Confirm(thread_id) => {
                            if !states.has_stream() {
                                threads.clock(&thread_id).inspect(|clock| clock.cut_off());
                            }
                            // After that, no stopwatch waits for it.
                            let longest = link.grace().max(LATE_CONFIRMATION_TIME);
                            states.confirm(thread_id, deadline_after(Instant::now(), longest));
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
            () = link.grace_spent() => {}
            message = states.next_message() => apply(&threads, &link, message),
        }
    }
}

fn apply(threads: &Threads, link: &LinkReporter, message: Message) {
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
        Message::Event(Event::SnapshotComplete) | Message::OthersComplete => {
            link.connected();
        }
        Message::Event(Event::Disconnected { thread_ids, since, error }) => {
            link.disconnected(since, &error);
            disconnect(threads, &thread_ids, since);
        }
        // The connection is not lost.
        Message::Refused { thread_ids, since, error } => {
            link.refused(&thread_ids, &error);
            disconnect(threads, &thread_ids, since);
        }
    }
}

fn disconnect(threads: &Threads, thread_ids: &[Arc<str>], since: Instant) {
    thread_ids.iter().filter_map(|id| threads.clock(id)).for_each(|clock| clock.disconnect(since));
}
