//! Tasks of the scheduler. As with tokio, dropping a `JoinHandle` does not end its task.
pub use shuttle::future::{AbortHandle, JoinHandle, spawn};

/// Lets other tasks run first, or not: unlike shuttle's, it does not notify the scheduler of a yield.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
