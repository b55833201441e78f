//! The RPCs.
//!
//! Requests and responses are the proto's own messages; the proto's comments define them for every language.
use super::{
    Address, Config, ConfigError, DecrementElicitationRequest, DecrementElicitationResponse, Error,
    GetPauseStateRequest, GetPauseStateResponse, IncrementElicitationRequest, IncrementElicitationResponse,
    ListPauseStatesRequest, ListPauseStatesResponse, ListPausesRequest, ListPausesResponse, RenewElicitationRequest,
    RenewElicitationResponse, Token, TokenSource, WatchPauseStateRequest, WatchPauseStateResponse, connect, retry,
    route::{Route, Stub},
};
use crate::proto::v1::{WatchRequest, WatchResponse};
use crate::trace::Parent;
use hyper::rt::{Read, Write};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::{Stream, StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{
    Request, Response, Status, Streaming,
    metadata::MetadataMap,
    transport::{Channel, Uri},
};
use tower::Service;
use uuid::Uuid;

/// A connection to a coordinator. Cheap to clone; clones share one connection, which is opened by the first call and
/// reopened when it is lost. With an address of several replicas, the client is connected to one of them, and moves to
/// the next replica when that one is unavailable or has not answered for 1.5 s.
///
/// Every unary call has a deadline ([`Config::deadline`], 5 s by default). Within it, a call that finds the coordinator
/// unavailable is retried with the same request id, after random pauses. Besides the errors that its method documents, a
/// call can return:
/// - [`Error::Unauthenticated`], [`Error::PermissionDenied`], [`Error::LimitExceeded`]: nothing changed.
/// - [`Error::Unavailable`], [`Error::DeadlineExceeded`]: the outcome is unknown; call again with the same request id.
/// - [`Error::Other`]: the outcome is unknown.
#[derive(Clone)]
pub struct Client {
    pub(super) route: Arc<Route>,
    policy: retry::RetryPolicy,
    token: Option<Token>,
    /// Used instead of `token`.
    token_source: Option<TokenSource>,
    /// The parent span of its calls; `None`: the span that is current when a call is made.
    parent: Option<Parent>,
    /// The address that errors name; `None`: the channel is the caller's own.
    address: Option<Arc<Address>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.policy).finish_non_exhaustive()
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

    /// A client with this configuration. Does not connect yet.
    ///
    /// # Errors
    /// The token would be sent to another machine in plain text, TLS settings have an address without TLS, or a certificate
    /// is invalid.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_config(config: &Config) -> Result<Self, ConfigError> {
        config.check()?;
        let address = Some(Arc::new(config.address.clone()));
        Ok(Self { address, ..Self::over(Route::new(config)?, config) })
    }

    /// A client of the coordinator that the environment or the config file selects, or else of `127.0.0.1:7420`: see
    /// [`Settings`](super::Settings). Does not connect yet.
    ///
    /// # Errors
    /// A setting is invalid, or a file that it names cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::with_config(&Config::from_env()?)
    }

    /// A client over a channel of your own; ignores `config.address` and `config.tls`.
    pub fn with_channel(channel: Channel, config: &Config) -> Self {
        Self::over(Route::over(channel), config)
    }

    fn over(route: Route, config: &Config) -> Self {
        let policy = retry::RetryPolicy { deadline: config.deadline, retries: config.retries };
        Self {
            route: Arc::new(route),
            policy,
            token: config.token.clone(),
            token_source: config.token_source.clone(),
            parent: None,
            address: None,
        }
    }

    /// A client whose connections `connector` opens, over a transport of your own; ignores `config.address` and
    /// `config.tls`. As for any address, connections are lazy, kept alive, and reopened when they are lost.
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

    /// Sends `message` with the token and the trace context, and retries.
    async fn unary<M: Clone, R, F>(&self, message: M, send: impl Fn(Stub, Request<M>) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let parent = self.parent();
        let call = |stub, mut request: Request<M>| {
            let sent = self.write_metadata(&parent, request.metadata_mut());
            let sent = sent.map(|()| send(stub, request));
            async move { sent?.await }
        };
        retry::unary(self.policy, &self.route, message, call).await.map_err(|error| self.with_address(error))
    }

    /// Adds the address to an error if nobody answers there.
    fn with_address(&self, error: Error) -> Error {
        match &self.address {
            Some(address) => error.at(address),
            None => error,
        }
    }

    /// Fails if a token is configured and cannot be read; then the call must not be sent.
    fn write_metadata(&self, parent: &Parent, metadata: &mut MetadataMap) -> Result<(), Status> {
        let token = self.new_token().transpose().map_err(|error| Status::unauthenticated(error.to_string()))?;
        if let Some(token) = token.as_ref().or(self.token.as_ref()) {
            metadata.insert("authorization", token.header());
        }
        parent.write(metadata);
        Ok(())
    }

    /// The token of the source; `None` without one.
    pub(super) fn new_token(&self) -> Option<Result<Token, ConfigError>> {
        self.token_source.as_ref().map(TokenSource::token)
    }

    /// Opens one stream of `Watch`. The deadline applies to opening it only; there are no retries.
    pub(super) async fn open_watch(
        &self,
        mut stub: Stub,
        requests: mpsc::UnboundedReceiver<WatchRequest>,
    ) -> Result<Streaming<WatchResponse>, Error> {
        let mut request = Request::new(UnboundedReceiverStream::new(requests));
        self.write_metadata(&self.parent(), request.metadata_mut())?;
        match timeout(self.policy.deadline, stub.watch(request)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.with_address(Error::from(status))),
            Err(_) => Err(Error::deadline_exceeded(self.policy.deadline)),
        }
    }

    /// The parent span of a call made now.
    pub(super) fn parent(&self) -> Parent {
        self.parent.clone().unwrap_or_else(Parent::current)
    }

    /// A client on the same connection whose calls have this parent span.
    #[must_use]
    pub(crate) fn within(&self, parent: Parent) -> Self {
        Self { parent: Some(parent), ..self.clone() }
    }

    /// A client on the same connection that sends the span of `context` to the coordinator. By default, the context that is
    /// current when a call is made is used.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn with_context(&self, context: opentelemetry::Context) -> Self {
        self.within(Parent::of(context))
    }

    /// A client on the same connection with another deadline per call; any value is allowed.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        let policy = retry::RetryPolicy { deadline, ..self.policy };
        Self { policy, ..self.clone() }
    }

    /// A client on the same connection that retries until this deadline, whatever [`Config::retries`] allows.
    pub(super) fn persistent(&self, deadline: Duration) -> Self {
        Self { policy: retry::RetryPolicy { deadline, retries: usize::MAX }, ..self.clone() }
    }

    /// The deadline of a call, retries included.
    pub fn deadline(&self) -> Duration {
        self.policy.deadline
    }

    /// Opens one elicitation, which the caller must renew and close. [`Client::hold`] does both.
    ///
    /// An empty `request_id` is replaced with a random one, so that the retries of this call count once.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::RequestIdReused`], [`Error::TooManyElicitations`]: nothing changed.
    /// [`Error::StoreUnavailable`]: the outcome is unknown; call again with the same request id.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the elicitation may be open; its lease bounds it.
    pub async fn increment_elicitation(
        &self,
        mut request: IncrementElicitationRequest,
    ) -> Result<IncrementElicitationResponse, Error> {
        fill_request_id(&mut request.request_id);
        self.unary(request, |mut stub, request| async move { stub.increment_elicitation(request).await }).await
    }

    /// Closes one elicitation.
    ///
    /// An empty `request_id` is replaced with a random one, so that the retries of this call count once.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::RequestIdReused`], [`Error::NoOutstandingElicitation`],
    /// [`Error::ElicitationUnknown`], [`Error::ElicitationReleased`], [`Error::ElicitationExpired`]: nothing changed.
    /// [`Error::StoreUnavailable`]: the outcome is unknown; call again with the same request id.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the elicitation may be closed.
    pub async fn decrement_elicitation(
        &self,
        mut request: DecrementElicitationRequest,
    ) -> Result<DecrementElicitationResponse, Error> {
        fill_request_id(&mut request.request_id);
        self.unary(request, |mut stub, request| async move { stub.decrement_elicitation(request).await }).await
    }

    /// Extends the lease of one open elicitation. Repeating the call is harmless.
    ///
    /// # Errors
    /// [`Error::InvalidField`], [`Error::ElicitationUnknown`], [`Error::ElicitationReleased`],
    /// [`Error::ElicitationExpired`]: nothing changed.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the lease may be extended.
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

    /// Lists one page of ended pauses, the last one to end first.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: a field is out of its limits, or the coordinator has restarted since it sent
    /// `page_token`.
    pub async fn list_pauses(&self, request: ListPausesRequest) -> Result<ListPausesResponse, Error> {
        self.unary(request, |mut stub, request| async move { stub.list_pauses(request).await }).await
    }

    /// Opens one stream of states, which ends with its connection. [`Client::watch`] reconnects.
    ///
    /// The deadline and the retries apply to opening the stream only; the stream has no deadline.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: the stream was not opened. If an open stream fails, its last item is the error.
    pub async fn watch_pause_state(
        &self,
        request: WatchPauseStateRequest,
    ) -> Result<impl Stream<Item = Result<WatchPauseStateResponse, Error>> + Send + Unpin + use<>, Error> {
        let open = |mut stub: Stub, mut request: Request<WatchPauseStateRequest>| async move {
            // The timeout would end the open stream.
            request.metadata_mut().remove("grpc-timeout");
            stub.watch_pause_state(request).await
        };
        let stream = self.unary(request, open).await?;
        Ok(stream.map(|message| message.map_err(Error::from)))
    }
}

/// Replaces an empty request id with a random one.
fn fill_request_id(request_id: &mut String) {
    if request_id.is_empty() {
        *request_id = Uuid::new_v4().to_string();
    }
}
