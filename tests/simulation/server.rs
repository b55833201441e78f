//! The host of the coordinator: the real one, on a store that reports each commit to the oracle.
use crate::disk::SimDisk;
use crate::machine::Machine;
use crate::net;
use crate::oracle::Oracle;
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::coordinator::Settings;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::server::serve_connections;
use pausewatch::test_support::store::{CommitError, Contents, Embedded, OpenError, Store, Write};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The server's machine, which outlives the server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) machine: Machine,
    pub(crate) oracle: Oracle,
    max_pause: Option<Duration>,
    disk: Rc<RefCell<SimDisk>>,
    /// Belongs to the process that runs now.
    killed: Rc<RefCell<Arc<AtomicBool>>>,
    refuses: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn new(machine: Machine, oracle: Oracle, max_pause: Option<Duration>) -> Self {
        let (disk, killed, refuses) = Default::default();
        Server { machine, oracle, max_pause, disk, killed, refuses }
    }

    /// Must be called before a crash: the next process finds the present content of the disk. A process that crashes in
    /// this simulation has its values dropped, and a store that is dropped writes to its disk.
    pub(crate) fn keep_disk(&self) {
        let kept = self.disk.borrow().copy();
        *self.disk.borrow_mut() = kept;
        self.killed.take().store(true, Relaxed);
    }

    /// From now on, the store refuses changes, or accepts them again.
    pub(crate) fn refuse_changes(&self, refuses: bool) {
        self.refuses.store(refuses, Relaxed);
    }

    /// Runs the process.
    pub(crate) async fn run(self) -> turmoil::Result {
        let disk = Arc::new(self.disk.borrow().clone());
        let inner = Embedded::on(disk, "the disk of the simulation", self.machine.boot_id())?;
        let Server { machine, oracle, max_pause, killed, refuses, .. } = self;
        let store = Recorded { inner, oracle: oracle.clone(), killed: killed.borrow().clone(), refuses };
        let connections = net::accept().await?;
        oracle.server_started();
        let day = Duration::from_secs(24 * 60 * 60);
        let settings = Settings { anonymous_ttl: Some(day), max_pause, ..Settings::default() };
        serve_connections(Box::new(store), Arc::new(machine), settings, connections).await?;
        Err("the server ended by itself".into())
    }
}

/// A store that reports to the oracle what is durable, and refuses changes on request.
struct Recorded {
    inner: Embedded,
    oracle: Oracle,
    killed: Arc<AtomicBool>,
    refuses: Arc<AtomicBool>,
}

impl Store for Recorded {
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        let contents = self.inner.load(now)?;
        self.oracle.loaded(&contents);
        Ok(contents)
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        if self.refuses.load(Relaxed) || self.killed.load(Relaxed) {
            self.oracle.refused();
            return Err(CommitError::Refused("injected".into()));
        }
        self.inner.commit(batch)?;
        self.oracle.committed(batch);
        Ok(())
    }

    fn begin(&mut self) {
        self.inner.begin();
    }

    fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    fn recover(&mut self) {
        self.inner.recover();
    }

    fn may_wait(&self) -> bool {
        self.inner.may_wait()
    }
}
