//! Tasks of the scheduler. As with tokio, dropping a `JoinHandle` lets its task go on.
pub use shuttle::future::{AbortHandle, JoinHandle, spawn};

/// Lets others go first, or not: unlike shuttle's, it tells the scheduler nothing.
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
