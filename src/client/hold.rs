//! An elicitation that a program keeps open: renewed while the guard lives, closed when it is released or dropped.
//!
//! 1. The increment runs in a task of its own: dropping the future that waits for it closes what it opened.
//! 2. Renewals go out at a third of the ttl, so two may fail before the lease ends. They go on until the server says
//!    that the elicitation is closed: a server that was away gives every lease one full ttl again.
//! 3. All decrements of one hold carry one request id: however often a release is tried, it counts once and its answer
//!    is the first one (G4).
//! 4. What fails here is bounded by the lease (G2).
use super::{
    Client, DecrementElicitationRequest, DecrementElicitationResponse, Elicitation, Error, IncrementElicitationRequest,
    IncrementElicitationResponse, RenewElicitationRequest, retry,
};
use crate::trace::WaitSpan;
use std::{env, path::Path, process, sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, oneshot, watch},
    task::AbortHandle,
    time::{Instant, sleep_until},
};
use uuid::Uuid;

/// Long enough to outlast two lost renewals and a restart of the server, short enough that a crash is forgotten soon.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// What a [`Hold`] will say of itself. Made by [`Client::hold`].
#[derive(Debug, Clone)]
#[must_use = "nothing is open until open() is awaited"]
pub struct HoldBuilder {
    client: Client,
    thread_id: String,
    reason: String,
    holder: String,
    ttl: Duration,
}

impl Client {
    /// Prepares to open an elicitation on `thread_id` that stays open until it is released or dropped.
    pub fn hold(&self, thread_id: impl Into<String>) -> HoldBuilder {
        HoldBuilder::new(self.clone(), thread_id.into())
    }
}

impl HoldBuilder {
    pub(super) fn new(client: Client, thread_id: String) -> Self {
        Self { client, thread_id, reason: String::new(), holder: this_program(), ttl: DEFAULT_TTL }
    }

    /// What the person is asked, for those who look on: up to 1,024 bytes. Default: nothing.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// Who asks: up to 256 bytes. Default: this program's name and process id, `name[1234]`.
    pub fn holder(self, holder: impl Into<String>) -> Self {
        Self { holder: holder.into(), ..self }
    }

    /// How long the elicitation outlives a holder that died: 1 s to 24 h. Default: 30 s. Renewed every third of it.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Opens the elicitation and begins to renew it.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::TooManyElicitations`]: nothing is open.
    /// [`Error::StoreUnavailable`], [`Error::Unavailable`], [`Error::DeadlineExceeded`], [`Error::Other`]: it may be
    /// open; its lease bounds it.
    ///
    /// # Cancel safety
    /// Dropped, what is opened is closed again in the background.
    pub async fn open(self) -> Result<Hold, Error> {
        let (opened, result) = oneshot::channel();
        // Here, since the task does not know what goes on where it was opened.
        let span = WaitSpan::begin(&self.client.parent(), &self.thread_id, &self.reason);
        // If nobody waits for it any more, the hold comes back, is dropped right there, and its drop releases it.
        tokio::spawn(async move { drop(opened.send(self.increment(span).await)) });
        result.await.expect("the task sends before it ends, and nobody aborts it")
    }

    async fn increment(self, span: WaitSpan) -> Result<Hold, Error> {
        let Self { client, thread_id, reason, holder, ttl } = self;
        let client = client.within(span.within());
        let request = IncrementElicitationRequest {
            thread_id: thread_id.clone(),
            request_id: Uuid::new_v4().to_string(),
            reason,
            holder,
            ttl: Some(duration_to_wire(ttl)),
        };
        let sent = Instant::now();
        let answer = client.increment_elicitation(request).await;
        let mut response = answer.inspect_err(|error| span.fail(&error.to_string()))?;
        let Some(elicitation) = response.elicitation.take() else {
            let status = tonic::Status::internal("the server's answer to the increment has no elicitation");
            return Err(Error::Other(Box::new(status)));
        };
        let lease = Arc::new(watch::Sender::new(Lease::Held));
        let renewal = Renewal {
            client: client.with_deadline(client.deadline().min(ttl / 3)),
            thread_id,
            elicitation_id: elicitation.elicitation_id.clone(),
            ttl,
        };
        let renewer = tokio::spawn(renewal.run(sent, lease.clone())).abort_handle();
        let runtime = Handle::current();
        let decrement_id = Uuid::new_v4().to_string();
        Ok(Hold {
            client,
            elicitation,
            opened: response,
            ttl,
            decrement_id,
            lease,
            renewer,
            ending: OnceCell::new(),
            runtime,
            span,
        })
    }
}

/// What is known of the lease of a [`Hold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// The elicitation is open.
    Held,
    /// No renewal got through for a whole ttl: the lease is over, or its server is down. Renewals are still tried; if
    /// one succeeds, the lease is [`Held`](Self::Held) again.
    Overdue,
    /// The lease ended: the elicitation is closed, and its thread runs unless another one is open.
    Expired,
    /// The elicitation was closed by a decrement.
    Released,
    /// The server does not know the elicitation: it lost its state, or has long forgotten it.
    Unknown,
}

impl Lease {
    /// Whether the elicitation is closed, as far as is known. That is for good.
    fn is_over(self) -> bool {
        matches!(self, Self::Expired | Self::Released | Self::Unknown)
    }
}

/// What a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The elicitation was open until this release closed it.
    Closed {
        /// Open elicitations that the thread has left.
        count: u32,
        /// The revision of the thread that the release made.
        revision: u64,
    },
    /// It had expired before: what was asked of the person was answered late, and commands of the thread may have been
    /// timed out meanwhile.
    Expired,
    /// Somebody else's decrement had closed it before.
    Released,
    /// The server does not know it: it lost its state, or has long forgotten it.
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
/// It is renewed in the background until it is released or dropped. Release it where you can: [`Hold::release`] tells
/// whether the thread was paused to the end. A drop releases in the background, which needs the runtime to live on; if it
/// does not, the lease ends the pause.
#[derive(Debug)]
#[must_use = "a hold that is dropped is released"]
pub struct Hold {
    client: Client,
    elicitation: Elicitation,
    opened: IncrementElicitationResponse,
    ttl: Duration,
    decrement_id: String,
    lease: Arc<watch::Sender<Lease>>,
    renewer: AbortHandle,
    ending: OnceCell<Release>,
    runtime: Handle,
    /// From before it is opened until it is closed, or dropped.
    span: WaitSpan,
}

impl Hold {
    /// The elicitation as it was opened.
    pub fn elicitation(&self) -> &Elicitation {
        &self.elicitation
    }

    /// What the increment made of the thread; its `elicitation` has moved to [`Hold::elicitation`].
    pub fn opened(&self) -> &IncrementElicitationResponse {
        &self.opened
    }

    /// What is known of the lease now. After a release: what that found.
    pub fn lease(&self) -> Lease {
        *self.lease.borrow()
    }

    /// Waits until the lease is not [`Lease::Held`], and says what it is. While it is only [`Lease::Overdue`] it may
    /// come back; ask again to see.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) -> Lease {
        let mut lease = self.lease.subscribe();
        *lease.wait_for(|lease| *lease != Lease::Held).await.expect("the hold has a sender")
    }

    /// Closes the elicitation, and says whether it was open until now. Calling it again is harmless and says the same.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`], [`Error::Unavailable`], [`Error::DeadlineExceeded`], [`Error::Other`]: it may still
    /// be open, and is still renewed. Call again, or drop the hold: that goes on trying until the lease is over.
    ///
    /// # Cancel safety
    /// Dropped after it was sent, the elicitation may be closed; a later release, or the drop of the hold, still counts
    /// once.
    pub async fn release(&self) -> Result<Release, Error> {
        let ending = self.ending.get_or_try_init(|| async {
            let ending = read_ending(self.client.decrement_elicitation(self.decrement()).await)?;
            self.renewer.abort();
            tell(&self.lease, ending.lease());
            self.span.end();
            Ok(ending)
        });
        ending.await.copied()
    }

    /// The context of its span, as a child process takes it from `TRACEPARENT`.
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
        if self.ending.initialized() {
            return;
        }
        // After one ttl without a renewal there is nothing left to close.
        let client = self.client.with_deadline(self.ttl);
        let decrement = self.decrement();
        self.runtime.spawn(async move {
            if let Err(error) = read_ending(client.decrement_elicitation(decrement).await) {
                tracing::warn!(%error, "a dropped hold could not be released; its lease ends it");
            }
        });
    }
}

fn read_ending(answer: Result<DecrementElicitationResponse, Error>) -> Result<Release, Error> {
    match answer {
        Ok(DecrementElicitationResponse { count, revision, .. }) => Ok(Release::Closed { count, revision }),
        Err(Error::ElicitationExpired(_)) => Ok(Release::Expired),
        Err(Error::ElicitationReleased(_)) => Ok(Release::Released),
        Err(Error::ElicitationUnknown(_)) => Ok(Release::Unknown),
        Err(error) => Err(error),
    }
}

/// The background task of a hold.
struct Renewal {
    client: Client,
    thread_id: String,
    elicitation_id: String,
    ttl: Duration,
}

impl Renewal {
    async fn run(self, opened: Instant, told: Arc<watch::Sender<Lease>>) {
        // The server counted from some moment before its answer came: not later than this the lease is over.
        let mut over = retry::after(Instant::now(), self.ttl);
        let mut next = retry::after(opened, self.ttl / 3);
        let pauses = || retry::backoff((self.ttl / 30).min(Duration::from_millis(100)), Duration::from_secs(2));
        let mut failed = pauses();
        loop {
            let attempt = async {
                sleep_until(next).await;
                (Instant::now(), self.client.renew_elicitation(self.request()).await)
            };
            let (sent, answer) = tokio::select! {
                answer = attempt => answer,
                never = overdue(over, &told) => match never {},
            };
            match answer {
                Ok(_) => {
                    over = retry::after(Instant::now(), self.ttl);
                    next = retry::after(sent, self.ttl / 3);
                    failed = pauses();
                    tell(&told, Lease::Held);
                    continue;
                }
                Err(Error::ElicitationExpired(_)) => return tell(&told, Lease::Expired),
                Err(Error::ElicitationReleased(_)) => return tell(&told, Lease::Released),
                Err(Error::ElicitationUnknown(_)) => return tell(&told, Lease::Unknown),
                Err(error) => tracing::debug!(%error, "a renewal failed; trying again"),
            }
            next = Instant::now() + failed.next().unwrap_or_default();
        }
    }

    fn request(&self) -> RenewElicitationRequest {
        let (thread_id, elicitation_id) = (self.thread_id.clone(), self.elicitation_id.clone());
        RenewElicitationRequest { thread_id, elicitation_id, ttl: Some(duration_to_wire(self.ttl)) }
    }
}

/// Says what has become of the lease, unless it is over already: a renewal may be answered while a release is.
fn tell(told: &watch::Sender<Lease>, news: Lease) {
    told.send_if_modified(|lease| !lease.is_over() && std::mem::replace(lease, news) != news);
}

/// Says `Overdue` when the time has come, and then waits for ever.
async fn overdue(over: Instant, told: &watch::Sender<Lease>) -> std::convert::Infallible {
    sleep_until(over).await;
    tell(told, Lease::Overdue);
    std::future::pending().await
}

/// Saturates where the wire has no room; the server refuses that anyway.
fn duration_to_wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}

fn this_program() -> String {
    let path = env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Well below the 256 bytes that are allowed, on a boundary between characters.
    let name: String = name.chars().filter(|c| !c.is_control()).take(50).collect();
    format!("{name}[{}]", process::id())
}
