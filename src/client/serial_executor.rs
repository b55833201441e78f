//! An executor that runs the tasks of one channel one at a time.
//!
//! A call that is passed to a connection while that connection ends on another thread may get lost: it is neither sent
//! nor refused, and its caller waits until the deadline (hyper #4122, tokio #7714: a value that is sent while its receiver
//! is dropped stays in the channel). Tasks that never run at the same time avoid this race. They are short and mostly
//! serve one connection, so they rarely wait for each other.
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks on tokio, no two of them at the same time.
#[derive(Clone, Default)]
pub(super) struct SerialExecutor(Arc<Mutex<()>>);

impl hyper::rt::Executor<Task> for SerialExecutor {
    fn execute(&self, task: Task) {
        let turn = self.0.clone();
        let mut task = Some(task);
        tokio::spawn(poll_fn(move |context| {
            // The mutex guards no data that a panic could leave inconsistent.
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let polled = task.as_mut().map_or(Poll::Ready(()), |task| task.as_mut().poll(context));
            if polled.is_ready() {
                // Dropped under the lock too: the race is with the end of a task.
                task = None;
            }
            polled
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Executor;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::task::Context;
    use tokio::sync::mpsc;

    /// Detects that two tasks are polled or dropped at the same time.
    struct Alone {
        busy: Arc<AtomicBool>,
        rounds: u32,
        done: mpsc::UnboundedSender<bool>,
        was_alone: bool,
    }

    impl Alone {
        /// Works for a moment, and notes whether another task was running.
        fn enter(&mut self) {
            self.was_alone &= !self.busy.swap(true, SeqCst);
            (0..100).for_each(|_| std::hint::spin_loop());
            self.was_alone &= self.busy.swap(false, SeqCst);
        }
    }

    impl Future for Alone {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.enter();
            if self.rounds == 0 {
                return Poll::Ready(());
            }
            self.rounds -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    impl Drop for Alone {
        fn drop(&mut self) {
            self.enter();
            let _ = self.done.send(self.was_alone);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn tasks_never_run_or_end_at_the_same_time() {
        let (done, mut outcomes) = mpsc::unbounded_channel();
        let (executor, busy) = (SerialExecutor::default(), Arc::<AtomicBool>::default());
        for _ in 0..64 {
            let task = Alone { busy: busy.clone(), rounds: 1_000, done: done.clone(), was_alone: true };
            executor.execute(Box::pin(task));
        }
        drop(done);
        let mut ended = 0;
        while let Some(was_alone) = outcomes.recv().await {
            assert!(was_alone, "two tasks ran at the same time");
            ended += 1;
        }
        assert_eq!(ended, 64);
    }

    #[tokio::test]
    async fn other_tasks_run_after_one_has_panicked() {
        let (done, mut outcomes) = mpsc::unbounded_channel();
        let executor = SerialExecutor::default();
        executor.execute(Box::pin(async { panic!("on purpose") }));
        executor.execute(Box::pin(async move { _ = done.send(()) }));
        assert_eq!(outcomes.recv().await, Some(()));
    }
}
