//! An elicitation that a program keeps open: renewed while its guard exists, closed when that is released or dropped.
//!
//! 1. The increment runs in its own task: if the future that waits for it is dropped, the elicitation is closed again.
//! 2. Renewals are sent every third of the ttl, so two may fail before the lease ends. They continue until the server
//!    reports that the elicitation is closed: a restarted server gives every lease one full ttl again.
//! 3. All decrements of one hold carry the same request id: a repeated release counts once and gets the first response
//!    (G4).
//! 4. A server with a maximum pause cuts the ends of leases. The holder detects this in the answers (`last_end.rs`).
//! 5. Whatever fails here, the lease bounds the pause (G2).
mod last_end;
mod lease;
mod renewal;
mod risk;
pub use lease::Lease;
pub use risk::LeaseRisk;

use super::{
    Client, DecrementElicitationRequest, DecrementElicitationResponse, Elicitation, Error, IncrementElicitationRequest,
    IncrementElicitationResponse, RenewElicitationRequest,
};
use crate::trace::WaitSpan;
use last_end::{KnownEnd, LastEnd};
use lease::set_lease;
use renewal::Renewal;
use risk::Risk;
use std::{env, path::Path, process, sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, oneshot, watch},
    task::AbortHandle,
    time::Instant,
};
use uuid::Uuid;

/// Long enough for two lost renewals and a restart of the server, short enough to end the pause of a crashed holder soon.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

impl Client {
    /// Prepares an elicitation on `thread_id` that stays open until its [`Hold`] is released or dropped.
    ///
    /// `thread_id`: 1 to 256 bytes without control characters; [`HoldBuilder::open`] reports any other.
    pub fn hold(&self, thread_id: impl Into<String>) -> HoldBuilder {
        let thread_id = thread_id.into();
        HoldBuilder {
            client: self.clone(),
            thread_id,
            request_id: None,
            reason: String::new(),
            holder: this_program(),
            ttl: DEFAULT_TTL,
        }
    }
}

/// The options of a [`Hold`]. Made by [`Client::hold`].
#[derive(Debug, Clone)]
#[must_use = "nothing is open until open() is awaited"]
pub struct HoldBuilder {
    client: Client,
    thread_id: String,
    /// `None`: each opening gets a new one.
    request_id: Option<String>,
    reason: String,
    holder: String,
    ttl: Duration,
}

impl HoldBuilder {
    /// Names the increment, so that it counts once if a copy of this is opened again because the outcome was unknown (G4).
    #[cfg(feature = "cli")]
    pub(crate) fn request_id(self, request_id: String) -> Self {
        Self { request_id: Some(request_id), ..self }
    }

    /// The question to the person, shown to observers: up to 1,024 bytes. Default: empty.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// The name of the asking program: up to 256 bytes. Default: this program's name and process id, `name[1234]`.
    pub fn holder(self, holder: impl Into<String>) -> Self {
        Self { holder: holder.into(), ..self }
    }

    /// How long the elicitation stays open without a renewal, for example after a crash: 1 s to 24 h. Default: 30 s. It is
    /// renewed every third of the ttl.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Opens the elicitation, which pauses the thread, and renews it in the background.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::TooManyElicitations`], [`Error::LimitExceeded`], [`Error::Unauthenticated`],
    /// [`Error::PermissionDenied`]: nothing is open.
    /// [`Error::StoreUnavailable`], [`Error::Unavailable`], [`Error::DeadlineExceeded`], [`Error::Other`]: the elicitation
    /// may be open; its lease bounds it.
    ///
    /// [`Error::Unavailable`] also if the tokio runtime is shut down meanwhile, or was before.
    ///
    /// # Cancel safety
    /// If the future is dropped, the elicitation is closed again in the background.
    pub async fn open(self) -> Result<Hold, Error> {
        let (opened, result) = oneshot::channel();
        // Created here: the current span is unknown inside the task.
        let span = WaitSpan::begin(&self.client.parent(), &self.thread_id, &self.reason);
        // If the receiver is gone, the send returns the hold, and its drop releases it.
        tokio::spawn(async move { drop(opened.send(self.increment(span).await)) });
        // The task sends before it ends, unless the runtime has dropped it.
        result.await.unwrap_or_else(|_| {
            let status = tonic::Status::unavailable("the tokio runtime was shut down before the elicitation was open");
            Err(Error::Unavailable(Box::new(status)))
        })
    }

    /// As [`open`](Self::open), for a question that is asked in any case: if the thread cannot be paused, for example because no
    /// coordinator runs, a warning is logged and there is no hold. `pausewatch hold` does the same without `--require`.
    ///
    /// It waits for the coordinator as long as any call does: at most [`Config::deadline`](super::Config::deadline).
    ///
    /// ```no_run
    /// # async fn example(client: pausewatch::client::Client) -> Result<(), pausewatch::client::Error> {
    /// let hold = client.hold("thread-1").reason("May I push?").open_best_effort().await?;
    /// // ... ask the person; nothing is frozen if `hold` is `None` ...
    /// if let Some(hold) = hold {
    ///     hold.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidField`]: nothing is open. Every other error is logged. After those that leave the outcome open, the
    /// elicitation may be open; its lease bounds it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the elicitation is closed again in the background.
    pub async fn open_best_effort(self) -> Result<Option<Hold>, Error> {
        let thread_id = self.thread_id.clone();
        match self.open().await {
            Ok(hold) => Ok(Some(hold)),
            Err(error @ Error::InvalidField { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(%error, thread_id, "the thread is not paused; going on without a hold");
                Ok(None)
            }
        }
    }

    async fn increment(self, span: WaitSpan) -> Result<Hold, Error> {
        let Self { client, thread_id, request_id, reason, holder, ttl } = self;
        let client = client.within(span.within());
        let request = IncrementElicitationRequest {
            thread_id: thread_id.clone(),
            request_id: request_id.unwrap_or_else(|| Uuid::new_v4().to_string()),
            reason,
            holder,
            ttl: Some(ttl_to_wire(ttl)),
        };
        let sent = Instant::now();
        let answer = client.increment_elicitation(request).await;
        let mut response = answer.inspect_err(|error| span.fail(&error.to_string()))?;
        let Some(elicitation) = response.elicitation.take() else {
            let status = tonic::Status::internal("the server's response to the increment has no elicitation");
            return Err(Error::Other(Box::new(status)));
        };
        let lease = Arc::new(watch::Sender::new(Lease::Held));
        let last_end = LastEnd::new(Instant::now(), &elicitation, ttl);
        let risk = Risk::default();
        let known_end = last_end.known();
        let renewal = Renewal { ttl, lease: lease.clone(), last_end, risk: risk.clone() };
        let renewing = client.with_deadline(client.deadline().min(ttl / 3));
        let elicitation_id = elicitation.elicitation_id.clone();
        let request = RenewElicitationRequest { thread_id, elicitation_id, ttl: None };
        let renew = move || {
            let (client, request) = (renewing.clone(), request.clone());
            async move { client.renew_elicitation(request).await }
        };
        let renewer = tokio::spawn(renewal.run(sent, renew)).abort_handle();
        let runtime = Handle::current();
        let decrement_id = Uuid::new_v4().to_string();
        Ok(Hold {
            client,
            elicitation,
            opened: response,
            ttl,
            decrement_id,
            lease,
            known_end,
            risk,
            renewer,
            result: OnceCell::new(),
            runtime,
            span,
        })
    }
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The elicitation was open until this release closed it.
    Closed {
        /// The thread's remaining open elicitations.
        count: u32,
        /// The thread's revision after this change.
        revision: u64,
    },
    /// The lease had expired before: the person answered late, and commands of the thread may have timed out meanwhile.
    Expired,
    /// Another decrement had closed it before.
    Released,
    /// The server does not know it: it lost its state, or closed it too long ago to remember.
    Unknown,
}

impl Release {
    fn lease(self) -> Lease {
        match self {
            Self::Closed { .. } | Self::Released => Lease::Released,
            Self::Expired => Lease::Expired,
            Self::Unknown => Lease::Unknown,
        }
    }
}

/// An open elicitation, which pauses its thread. Made by [`Client::hold`].
///
/// It is renewed in the background until it is released or dropped. Prefer [`Hold::release`]: it returns whether the
/// thread was paused to the end. A drop releases in the background, which needs a running runtime; without one, the lease
/// ends the pause.
#[derive(Debug)]
#[must_use = "a hold that is dropped is released"]
pub struct Hold {
    client: Client,
    elicitation: Elicitation,
    opened: IncrementElicitationResponse,
    ttl: Duration,
    decrement_id: String,
    lease: Arc<watch::Sender<Lease>>,
    known_end: KnownEnd,
    risk: Risk,
    renewer: AbortHandle,
    result: OnceCell<Release>,
    runtime: Handle,
    /// Lasts from before the increment until the release or the drop.
    span: WaitSpan,
}

impl Hold {
    /// The elicitation as it was opened.
    pub fn elicitation(&self) -> &Elicitation {
        &self.elicitation
    }

    /// The response to the increment, without its `elicitation`: see [`Hold::elicitation`].
    pub fn opened(&self) -> &IncrementElicitationResponse {
        &self.opened
    }

    /// The state of the lease, as far as it is known now. After a release: the state that the release found.
    pub fn lease(&self) -> Lease {
        *self.lease.borrow()
    }

    /// Waits until the lease is not [`Lease::Held`], and returns its state. After [`Lease::Overdue`] the lease may be held
    /// again: see [`Hold::lease`].
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn lost(&self) -> Lease {
        let mut lease = self.lease.subscribe();
        *lease.wait_for(|lease| *lease != Lease::Held).await.expect("the hold has a sender")
    }

    /// Waits until it is known that the server will end the pause at its maximum length (`serve --max-pause`), and
    /// returns that time. It is known a second after a renewal got a shorter lease than it requested: at least two thirds
    /// of a ttl, less that second, before the end.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn last_end(&self) -> Instant {
        self.known_end.wait().await
    }

    /// Shows whether the lease is about to end because it cannot be renewed: the coordinator is unreachable, or
    /// refuses. It is `Some` from the time when a third of the ttl is left, and `None` again after a renewal.
    /// [`Hold::lease`] shows what happened if the lease ended.
    pub fn risk(&self) -> watch::Receiver<Option<LeaseRisk>> {
        self.risk.subscribe()
    }

    /// Closes the elicitation, and returns whether it was open until now. Calling it again returns the same.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`], [`Error::Unavailable`], [`Error::DeadlineExceeded`], [`Error::Other`]: the elicitation
    /// may still be open, and is still renewed. Call again, or drop the hold, which retries until the lease has expired.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the elicitation may be closed; a later release, or the drop of
    /// the hold, still counts once.
    pub async fn release(&self) -> Result<Release, Error> {
        let result = self.result.get_or_try_init(|| async {
            let result = read_result(self.client.decrement_elicitation(self.decrement()).await)?;
            self.renewer.abort();
            set_lease(&self.lease, result.lease());
            self.span.end();
            Ok(result)
        });
        result.await.copied()
    }

    /// The context of its span, for the variable `TRACEPARENT` of a child process.
    #[cfg(feature = "otlp")]
    pub(crate) fn traceparent(&self) -> Option<String> {
        self.span.within().text()
    }

    fn decrement(&self) -> DecrementElicitationRequest {
        DecrementElicitationRequest {
            thread_id: self.elicitation.thread_id.clone(),
            elicitation_id: Some(self.elicitation.elicitation_id.clone()),
            request_id: self.decrement_id.clone(),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.renewer.abort();
        if self.result.initialized() {
            return;
        }
        // After one ttl without a renewal the lease has closed it.
        let client = self.client.persistent(self.ttl);
        let decrement = self.decrement();
        self.runtime.spawn(async move {
            if let Err(error) = read_result(client.decrement_elicitation(decrement).await) {
                tracing::warn!(%error, "a dropped hold was not released; its lease ends the pause");
            }
        });
    }
}

fn read_result(answer: Result<DecrementElicitationResponse, Error>) -> Result<Release, Error> {
    match answer {
        Ok(DecrementElicitationResponse { count, revision, .. }) => Ok(Release::Closed { count, revision }),
        Err(Error::ElicitationExpired(_)) => Ok(Release::Expired),
        Err(Error::ElicitationReleased(_)) => Ok(Release::Released),
        Err(Error::ElicitationUnknown(_)) => Ok(Release::Unknown),
        Err(error) => Err(error),
    }
}

/// Saturates: the server refuses a ttl above 24 h with an error that names the field.
fn ttl_to_wire(ttl: Duration) -> prost_types::Duration {
    ttl.try_into().unwrap_or(prost_types::Duration { seconds: i64::MAX, nanos: 0 })
}

fn this_program() -> String {
    let path = env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Well below the limit of 256 bytes, without splitting a character.
    let name: String = name.chars().filter(|c| !c.is_control()).take(50).collect();
    format!("{name}[{}]", process::id())
}
