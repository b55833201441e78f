//! The thread that talks to etcd: a runtime of its own.
use crate::coordinator::store::OpenError;
use std::future::Future;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// Ends when it is dropped.
pub(super) struct Thread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Thread {
    pub(super) fn start() -> Result<Self, OpenError> {
        let failed = |error| OpenError::Io(format!("start the thread for etcd: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let run = move || {
            let _ = runtime.block_on(stopped);
        };
        std::thread::Builder::new().name("etcd".into()).spawn(run).map_err(failed)?;
        Ok(Thread { handle, _stop: stop })
    }

    /// Runs `work` there, until the result is dropped.
    ///
    /// # Errors
    /// It has panicked.
    pub(super) fn spawn<T, W>(&self, work: W) -> impl Future<Output = Result<T, OpenError>> + use<T, W>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let task = AbortOnDropHandle::new(self.handle.spawn(work));
        async { task.await.map_err(|error| OpenError::Io(format!("talk to etcd: {error}"))) }
    }

    /// Runs `work` there to its end.
    pub(super) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }
}
