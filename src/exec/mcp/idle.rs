//! How long nobody has asked for a command.
use super::clock::Clock;
use crate::client::stopwatch::StopwatchController;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// Counts while nobody uses it; a pause of the thread does not count.
#[derive(Debug)]
pub(super) struct Idle {
    controller: StopwatchController,
    thread_id: String,
    /// `None`: nothing is too long.
    limit: Option<Duration>,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Default)]
struct State {
    users: usize,
    /// Runs while there are no users.
    clock: Option<Arc<Clock>>,
}

impl Idle {
    pub(super) fn new(controller: StopwatchController, thread_id: String, limit: Option<Duration>) -> Self {
        Self { controller, thread_id, limit, state: watch::Sender::default() }
    }

    /// Whoever holds this asks for it.
    pub(super) fn in_use(&self) -> InUse<'_> {
        self.state.send_modify(|state| {
            state.users += 1;
            state.clock = None;
        });
        InUse(self)
    }

    pub(super) fn is_used(&self) -> bool {
        self.state.borrow().users > 0
    }

    /// Waits until nobody has asked for it for too long.
    pub(super) async fn too_long(&self) {
        let mut states = self.state.subscribe();
        loop {
            let clock = states.borrow_and_update().clock.clone();
            let expired = async {
                match &clock {
                    Some(clock) => clock.stopwatch().expired().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expired => return,
                // The sender is ours: it is there as long as we are.
                _ = states.changed() => {}
            }
        }
    }
}

/// See [`Idle::in_use`].
#[must_use]
pub(super) struct InUse<'a>(&'a Idle);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let Idle { controller, thread_id, limit, state } = self.0;
        // The id was good for the command's own clock.
        let clock = Clock::start(controller, thread_id, *limit).ok().map(Arc::new);
        state.send_modify(|state| {
            state.users -= 1;
            if state.users == 0 {
                state.clock = clock;
            }
        });
    }
}
