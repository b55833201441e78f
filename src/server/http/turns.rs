//! Large messages are converted between JSON and bytes on other threads, because each takes milliseconds, and a few at a
//! time, so that they leave processors to small calls. Callers take turns: one with a thousand large calls on hundreds of
//! connections delays the next large call of another caller by one conversion, not by all of them.
use super::json::Codec;
use crate::server::admission::ConnectionContext;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tonic::Status;

/// A larger message is converted on another thread, in bytes.
const LARGE: usize = 32 << 10;
/// The maximum of concurrent conversions in the process.
const AT_ONCE: usize = 2;

static TURNS: LazyLock<Turns> = LazyLock::new(Turns::default);

/// Whether a message of `length` bytes needs a turn.
pub(super) fn needs_one(codec: Codec, length: usize) -> bool {
    codec == Codec::Json && length > LARGE
}

/// Converts on another thread, when it is the caller's turn.
pub(super) async fn convert<T: Send + 'static>(
    connection: Option<&Arc<ConnectionContext>>,
    conversion: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let caller = connection.map_or(0, |connection| Arc::as_ptr(connection.account()).addr());
    let turn = TURNS.take(caller).await;
    let convert = move || {
        let _turn = turn;
        conversion()
    };
    spawn_blocking(convert).await.map_err(|error| Status::internal(format!("convert a large message: {error}")))?
}

/// The turns of all callers.
#[derive(Clone, Default)]
struct Turns(Arc<Mutex<State>>);

/// Who is converting, and who waits.
#[derive(Default)]
struct State {
    running: usize,
    /// Callers that wait, in the order of their turns; each is there once.
    order: VecDeque<usize>,
    waiting: HashMap<usize, VecDeque<oneshot::Sender<Turn>>>,
}

/// Dropping it lets the next one run.
struct Turn(Turns);

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.lock();
            state.running -= 1;
            state.next()
        };
        // If it waits no longer, dropping its turn passes it on.
        if let Some(next) = next {
            drop(next.send(Turn(self.0.clone())));
        }
    }
}

impl State {
    /// Begins the turn of the next caller.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let caller = self.order.pop_front()?;
        let of_caller = self.waiting.get_mut(&caller)?;
        let next = of_caller.pop_front();
        match of_caller.is_empty() {
            true => _ = self.waiting.remove(&caller),
            false => self.order.push_back(caller),
        }
        self.running += 1;
        next
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while locked")
    }

    async fn take(&self, caller: usize) -> Turn {
        let turn = {
            let mut state = self.lock();
            if state.running < AT_ONCE {
                state.running += 1;
                return Turn(self.clone());
            }
            let (begin, turn) = oneshot::channel();
            let of_caller = state.waiting.entry(caller).or_default();
            of_caller.push_back(begin);
            if of_caller.len() == 1 {
                state.order.push_back(caller);
            }
            turn
        };
        turn.await.expect("a turn is passed on to everybody who waits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[tokio::test]
    async fn g7_callers_take_turns_however_many_conversions_one_of_them_has() {
        let turns = Turns::default();
        let running = [turns.take(1).await, turns.take(1).await];
        let done = Arc::new(AtomicUsize::new(0));
        let mut many = Vec::new();
        for _ in 0..100 {
            let (done, turns) = (done.clone(), turns.clone());
            many.push(tokio::spawn(async move {
                let _turn = turns.take(1).await;
                done.fetch_add(1, SeqCst);
            }));
        }
        tokio::task::yield_now().await;
        let given_up = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.take(3).await) }
        });
        tokio::task::yield_now().await;
        given_up.abort();
        let _ = given_up.await;
        let of_other = {
            let (done, turns) = (done.clone(), turns.clone());
            tokio::spawn(async move {
                let _turn = turns.take(2).await;
                done.load(SeqCst)
            })
        };
        tokio::task::yield_now().await;
        assert_eq!(done.load(SeqCst), 0);
        drop(running);
        let before = of_other.await.unwrap();
        assert!(before <= 2 * AT_ONCE, "{before} of the other caller's hundred ran before");
        for one in many {
            one.await.unwrap();
        }
        let state = turns.lock();
        assert!(state.running == 0 && state.order.is_empty() && state.waiting.is_empty());
    }
}
