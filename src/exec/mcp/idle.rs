//! The idle timeout of a command: it runs while no call uses the command and its thread is not paused.
use super::clock::Clock;
use crate::client::stopwatch::StopwatchController;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The idle timeout of a command.
pub(super) struct Idle(Arc<Inner>);

struct Inner {
    controller: StopwatchController,
    thread_id: String,
    /// `None`: no timeout.
    limit: Option<Duration>,
    state: watch::Sender<State>,
}

#[derive(Clone, Default)]
struct State {
    users: usize,
    /// Runs while there are no users.
    clock: Option<Arc<Clock>>,
}

impl Idle {
    pub(super) fn new(controller: StopwatchController, thread_id: String, limit: Option<Duration>) -> Self {
        Self(Arc::new(Inner { controller, thread_id, limit, state: watch::Sender::default() }))
    }

    /// The timeout does not run while the returned guard lives.
    pub(super) fn in_use(&self) -> InUse {
        self.0.state.send_modify(|state| {
            state.users += 1;
            state.clock = None;
        });
        InUse(self.0.clone())
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.0.state.borrow().users > 0
    }

    /// Waits for the timeout.
    pub(super) async fn expired(&self) {
        let mut states = self.0.state.subscribe();
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
                // Cannot fail: self owns the sender.
                _ = states.changed() => {}
            }
        }
    }
}

/// See [`Idle::in_use`].
#[must_use]
pub(super) struct InUse(Arc<Inner>);

impl Drop for InUse {
    fn drop(&mut self) {
        let Inner { controller, thread_id, limit, state } = &*self.0;
        // Cannot fail: the command's own clock was started with the same thread id.
        let clock = Clock::start(controller, thread_id, *limit).ok().map(Arc::new);
        state.send_modify(|state| {
            state.users -= 1;
            if state.users == 0 {
                state.clock = clock;
            }
        });
    }
}
