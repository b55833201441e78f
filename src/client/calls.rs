//! The RPCs.
//!
//! Requests and responses are the proto's own messages: what they mean is written there, once, for every language.
use super::{
    Address, Config, ConfigError, DecrementElicitationRequest, DecrementElicitationResponse, Error,
    GetPauseStateRequest, GetPauseStateResponse, IncrementElicitationRequest, IncrementElicitationResponse,
    ListPauseStatesRequest, ListPauseStatesResponse, RenewElicitationRequest, RenewElicitationResponse, Token,
    WatchPauseStateRequest, WatchPauseStateResponse, connect, retry,
};
use crate::proto::v1::elicitation_service_client::ElicitationServiceClient;
use crate::trace::Parent;
use hyper::rt::{Read, Write};
use std::{fmt, time::Duration};
use tokio_stream::{Stream, StreamExt};
use tonic::{
    Request, Response, Status,
    transport::{Channel, Uri},
};
use tower::Service;
use uuid::Uuid;

/// A connection to a coordinator. Cheap to clone; clones share one connection, which is made at the first call and made
/// again when it is lost.
///
/// Every unary call has a deadline ([`Config::deadline`], 5 s by default) and is repeated within it, with random pauses
/// and the same request id, while nobody answers. It ends with the variants of [`Error`] that its RPC is documented to
/// have, or with [`Error::Unavailable`], [`Error::DeadlineExceeded`] (outcome unknown: call again with the same request
/// id) or [`Error::Other`].
#[derive(Clone)]
pub struct Client {
    stub: Stub,
    patience: retry::Patience,
    token: Option<Token>,
    /// The span that its calls are made within; `None`: whatever goes on when they are made.
    within: Option<Parent>,
}

type Stub = ElicitationServiceClient<Channel>;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the coordinator at `address`. Does not connect yet.
    ///
    /// # Errors
    /// For an [`Address::Tls`]: the system's certificates cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(address: &Address) -> Result<Self, ConfigError> {
        Self::with_config(&Config { address: address.clone(), ..Config::default() })
    }

    /// A client with all settings. Does not connect yet.
    ///
    /// # Errors
    /// A token without TLS for another machine, TLS settings for an address without TLS, or certificates that are none.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_config(config: &Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self::with_channel(connect::channel(config)?, config))
    }

    /// A client of the coordinator that the environment names, else the config file, else `127.0.0.1:7420`: see
    /// [`Settings`](super::Settings). Does not connect yet.
    ///
    /// # Errors
    /// One of them is wrong.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::with_config(&Config::from_env()?)
    }

    /// A client over a channel of your own making; `config.address` and `config.tls` are not used.
    pub fn with_channel(channel: Channel, config: &Config) -> Self {
        let patience = retry::Patience { deadline: config.deadline, retries: config.retries };
        Self { stub: Stub::new(channel), patience, token: config.token.clone(), within: None }
    }

    /// A client whose connections `connector` makes, over a transport of your own; `config.address` and `config.tls` are
    /// not used. All else is as for any address: connections are lazy, kept alive, and made again when they are lost.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_connector<C>(connector: C, config: &Config) -> Self
    where
        C: Service<Uri> + Send + 'static,
        C::Response: Read + Write + Send + Unpin,
        C::Future: Send,
        Box<dyn std::error::Error + Send + Sync>: From<C::Error>,
    {
        Self::with_channel(connect::channel_over(connector), config)
    }

    /// Sends `message` with the token, as often as it takes.
    async fn unary<M: Clone, R, F>(&self, message: M, send: impl Fn(Stub, Request<M>) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let authorization = self.token.as_ref().map(Token::header);
        let parent = self.parent();
        let call = |mut request: Request<M>| {
            if let Some(authorization) = &authorization {
                request.metadata_mut().insert("authorization", authorization.clone());
            }
            parent.write(request.metadata_mut());
            send(self.stub.clone(), request)
        };
        retry::unary(self.patience, message, call).await
    }

    /// The span that a call would be made within.
    pub(super) fn parent(&self) -> Parent {
        self.within.clone().unwrap_or_else(Parent::current)
    }

    /// The same connection, for calls within this span.
    #[must_use]
    pub(crate) fn within(&self, parent: Parent) -> Self {
        Self { within: Some(parent), ..self.clone() }
    }

    /// The same connection, for calls within this context: its span is passed on to the coordinator. Otherwise that is the
    /// context that is current when a call is made.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn with_context(&self, context: opentelemetry::Context) -> Self {
        self.within(Parent::of(context))
    }

    /// The same connection with another deadline.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        let patience = retry::Patience { deadline, ..self.patience };
        Self { patience, ..self.clone() }
    }

    /// How long a call may take.
    pub fn deadline(&self) -> Duration {
        self.patience.deadline
    }

    /// The same connection without retries: for those who have a rhythm of their own.
    pub(super) fn without_retries(&self) -> Self {
        let patience = retry::Patience { retries: 0, ..self.patience };
        Self { patience, ..self.clone() }
    }

    /// Opens one elicitation, and leaves it to you to renew and close it. [`Client::hold`] does both.
    ///
    /// An empty `request_id` is filled with a random one, so that the retries of this call count once.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::RequestIdReused`], [`Error::TooManyElicitations`]: nothing changed.
    /// [`Error::StoreUnavailable`]: call again with the same request id.
    ///
    /// # Cancel safety
    /// Dropped after it was sent, the elicitation may be open; its lease bounds it.
    pub async fn increment_elicitation(
        &self,
        mut request: IncrementElicitationRequest,
    ) -> Result<IncrementElicitationResponse, Error> {
        name_call(&mut request.request_id);
        self.unary(request, |mut stub, request| async move { stub.increment_elicitation(request).await }).await
    }

    /// Closes one elicitation.
    ///
    /// An empty `request_id` is filled with a random one, so that the retries of this call count once.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::RequestIdReused`], [`Error::NoOutstandingElicitation`],
    /// [`Error::ElicitationUnknown`], [`Error::ElicitationReleased`], [`Error::ElicitationExpired`]: nothing changed.
    /// [`Error::StoreUnavailable`]: call again with the same request id.
    ///
    /// # Cancel safety
    /// Dropped after it was sent, the elicitation may be closed.
    pub async fn decrement_elicitation(
        &self,
        mut request: DecrementElicitationRequest,
    ) -> Result<DecrementElicitationResponse, Error> {
        name_call(&mut request.request_id);
        self.unary(request, |mut stub, request| async move { stub.decrement_elicitation(request).await }).await
    }

    /// Extends one lease. Calling it again is harmless.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::ElicitationUnknown`], [`Error::ElicitationReleased`],
    /// [`Error::ElicitationExpired`]: nothing changed.
    ///
    /// # Cancel safety
    /// Dropped after it was sent, the lease may be extended.
    pub async fn renew_elicitation(&self, request: RenewElicitationRequest) -> Result<RenewElicitationResponse, Error> {
        self.unary(request, |mut stub, request| async move { stub.renew_elicitation(request).await }).await
    }

    /// Reads one thread.
    ///
    /// # Errors
    /// [`Error::InvalidField`].
    pub async fn get_pause_state(&self, request: GetPauseStateRequest) -> Result<GetPauseStateResponse, Error> {
        self.unary(request, |mut stub, request| async move { stub.get_pause_state(request).await }).await
    }

    /// Lists one page of threads.
    ///
    /// # Errors
    /// [`Error::InvalidField`].
    pub async fn list_pause_states(&self, request: ListPauseStatesRequest) -> Result<ListPauseStatesResponse, Error> {
        self.unary(request, |mut stub, request| async move { stub.list_pause_states(request).await }).await
    }

    /// Opens one stream of states, which ends when its connection does. [`Client::watch`] goes on.
    ///
    /// The deadline, and the retries within it, are for the first answer only; the stream has none.
    ///
    /// # Errors
    /// [`Error::InvalidField`]. The stream's last item is an error if it ended with one.
    pub async fn watch_pause_state(
        &self,
        request: WatchPauseStateRequest,
    ) -> Result<impl Stream<Item = Result<WatchPauseStateResponse, Error>> + Send + Unpin + use<>, Error> {
        let open = |mut stub: Stub, mut request: Request<WatchPauseStateRequest>| async move {
            // It would end the stream itself.
            request.metadata_mut().remove("grpc-timeout");
            stub.watch_pause_state(request).await
        };
        let stream = self.unary(request, open).await?;
        Ok(stream.map(|message| message.map_err(Error::from)))
    }
}

/// Gives a call that has no name a random one.
fn name_call(request_id: &mut String) {
    if request_id.is_empty() {
        *request_id = Uuid::new_v4().to_string();
    }
}
