//! Where the code that talks to etcd runs: on a thread with its own runtime, or where a simulation runs it.
use crate::coordinator::store::OpenError;
use std::future::Future;
use std::pin::Pin;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

/// Work that runs beside others.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The thread, or the shared runtime in its place. A thread ends when this value is dropped.
pub(super) struct Thread(Place);

enum Place {
    Own {
        handle: Handle,
        _stop: oneshot::Sender<()>,
    },
    /// On a shared runtime.
    Shared(Box<dyn Fn(Work) -> JoinHandle<()> + Send + Sync>),
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
        Ok(Thread(Place::Own { handle, _stop: stop }))
    }

    /// No thread: `spawn` starts all work.
    pub(super) fn none(spawn: impl Fn(Work) -> JoinHandle<()> + Send + Sync + 'static) -> Self {
        Thread(Place::Shared(Box::new(spawn)))
    }

    fn begin(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        match &self.0 {
            Place::Own { handle, .. } => handle.spawn(work),
            Place::Shared(spawn) => spawn(Box::pin(work)),
        }
    }

    /// Runs `work` there. If the returned future is dropped, the work is aborted.
    ///
    /// # Errors
    /// It has panicked.
    pub(super) fn spawn<T, W>(&self, work: W) -> impl Future<Output = Result<T, OpenError>> + use<T, W>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let task = AbortOnDropHandle::new(self.begin(async move { _ = done.send(work.await) }));
        async {
            let result = result.await.map_err(|_| OpenError::Io("talk to etcd: its task has panicked".into()));
            drop(task);
            result
        }
    }

    /// Runs `work` there to its end.
    pub(super) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.begin(work);
    }
}
