//! The only runtime: the scheduler.
use crate::task::JoinHandle;

#[derive(Clone, Debug)]
pub struct Handle(());

impl Handle {
    pub fn current() -> Self {
        Handle(())
    }

    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        crate::spawn(future)
    }
}
