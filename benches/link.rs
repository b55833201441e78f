//! A connection to a server of any kind: calls, and watches that report to a sink.
use crate::result::Result;
use crate::sink::Sink;
use crate::{grpc, redis};
use std::net::IpAddr;
use std::ops::Range;

/// One connection; clones share it.
#[derive(Clone)]
pub(crate) enum Link {
    Grpc(grpc::Link),
    Redis(redis::Link),
}

impl Link {
    /// `client`: the local address. `by_change`: watches use `Watch` instead of `WatchPauseState`. `ca`: over TLS, with
    /// a certificate of this authority.
    pub(crate) async fn grpc(client: Option<IpAddr>, address: &str, by_change: bool, ca: Option<&str>) -> Result<Self> {
        Ok(Link::Grpc(grpc::Link::connect_from(client, address, by_change, ca).await?))
    }

    pub(crate) async fn redis(address: &str) -> Result<Self> {
        Ok(Link::Redis(redis::Link::connect(address).await?))
    }

    /// Increments (`up`) or decrements a thread; returns its count.
    pub(crate) async fn call(&mut self, thread: &str, up: bool) -> Result<u64> {
        match self {
            Link::Grpc(link) => link.call(thread, up).await,
            Link::Redis(link) => link.call(thread, up).await,
        }
    }

    /// Opens one watch of `threads`; every later change reaches `sink`.
    pub(crate) async fn watch(&self, threads: Range<usize>, sink: Sink) -> Result<()> {
        match self {
            Link::Grpc(link) => link.watch(threads, sink).await,
            Link::Redis(link) => link.watch(threads, sink).await,
        }
    }
}
