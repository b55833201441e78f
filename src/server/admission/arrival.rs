//! The time within which a request has to arrive.
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// The timeout of a request. The largest request takes a second over a slow line.
const LONGEST: Duration = Duration::from_secs(30);

/// A timeout that begins when it is polled for the first time.
#[derive(Default)]
pub(crate) struct Arrival(Option<Pin<Box<Sleep>>>);

impl Arrival {
    /// Ready when the request is too late.
    pub(crate) fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let end = self.0.get_or_insert_with(|| Box::pin(sleep(LONGEST)));
        end.as_mut()
            .poll(cx)
            .map(|()| Status::deadline_exceeded(format!("the request has not arrived within {} s", LONGEST.as_secs())))
    }
}
