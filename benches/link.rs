//! A connection to a server of any kind: calls, and watches that tell a sink.
use crate::target::Target;
use crate::{Result, grpc, redis};
use std::ops::Range;
use std::sync::Arc;

/// Is told of each state of a watched thread: its number, and whether it is paused.
pub(crate) type Sink = Arc<dyn Fn(usize, bool) + Send + Sync>;

/// One connection; clones share it.
#[derive(Clone)]
pub(crate) enum Link {
    Grpc(grpc::Link),
    Redis(redis::Link),
}

impl Link {
    pub(crate) async fn connect(target: Target, address: &str) -> Result<Self> {
        Ok(match target {
            Target::Redis => Link::Redis(redis::Link::connect(address).await?),
            _ => Link::Grpc(grpc::Link::connect(address).await?),
        })
    }

    /// Increments (`up`) or decrements a thread; returns its count.
    pub(crate) async fn call(&mut self, thread: &str, up: bool) -> Result<u64> {
        match self {
            Link::Grpc(link) => link.call(thread, up).await,
            Link::Redis(link) => link.call(thread, up).await,
        }
    }

    /// Opens one watch of `threads`; every change from now on reaches `sink`.
    pub(crate) async fn watch(&self, threads: Range<usize>, sink: Sink) -> Result<()> {
        match self {
            Link::Grpc(link) => link.watch(threads, sink).await,
            Link::Redis(link) => link.watch(threads, sink).await,
        }
    }
}
