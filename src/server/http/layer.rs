//! The layer in front of the services: gRPC passes unchanged; a Connect request is converted to gRPC, and its answer
//! back.
//!
//! 1. A gRPC request passes unchanged, in a future that is not boxed.
//! 2. Other requests go through the same admission: they are authenticated, counted and limited before their body is
//!    read. A request that is neither gRPC nor Connect is refused there.
//! 3. Every answer that is not gRPC has the headers that keep other origins from reading it.
use super::browser::{self, Browsers};
use super::error::{self, leave_out_grpc};
use super::methods::{Method, Methods};
use super::protocol::{self, Asked, Form, Refusal};
use super::request;
use super::stream::{self, Framing, Stream};
use super::unary;
use crate::coordinator::quota::CallerKey;
use crate::server::admission::{ConnectionContext, NotForUs};
use crate::server::content_type::RefusedAs;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service;

/// Headers of every answer that is not gRPC: its content type is exact, and only our own origin may read it.
const HEADERS: [(&str, &str); 5] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    // Every answer is valid only at its moment.
    ("cache-control", "no-store"),
];

/// The time between the deadline of a call and its end by the server. Without it, a client that measures the deadline
/// itself would sometimes give up while it reads the answer that the deadline has passed.
const GRACE: Duration = Duration::from_millis(100);

/// The context that all services of a server share.
#[derive(Debug)]
pub(crate) struct HttpContext {
    /// Made when it is first needed: many servers serve only gRPC.
    methods: LazyLock<Arc<Methods>, Box<dyn FnOnce() -> Arc<Methods> + Send>>,
    browsers: Browsers,
}

impl HttpContext {
    /// `methods`: those that are served by Connect.
    pub(crate) fn new(methods: impl FnOnce() -> Methods + Send + 'static, browsers: Browsers) -> Self {
        HttpContext { methods: LazyLock::new(Box::new(|| Arc::new(methods()))), browsers }
    }

    /// Refuses requests that are not for this server.
    fn check(&self, request: &Request<Body>) -> Result<(), browser::Refused> {
        let caller = request.extensions().get::<Arc<ConnectionContext>>().map(|connection| connection.account().key());
        let is_local = matches!(caller, Some(CallerKey::User(_) | CallerKey::Itself));
        browser::check_version(request).and_then(|()| if is_local { Ok(()) } else { self.browsers.check(request) })
    }
}

/// The layer in front of `S`. Without a context, everything passes.
#[derive(Clone, Debug)]
pub(crate) struct Http<S> {
    inner: S,
    is_grpc_alone: bool,
    context: Option<Arc<HttpContext>>,
}

impl<S> Http<S> {
    /// Wraps `inner`, which refuses requests that are not gRPC with 415.
    pub(crate) fn new(inner: S, context: Option<Arc<HttpContext>>) -> Self {
        Http { inner, is_grpc_alone: false, context }
    }

    /// Marks a service whose methods are served by gRPC alone.
    pub(crate) fn for_grpc_alone(self) -> Self {
        Http { is_grpc_alone: true, ..self }
    }
}

impl<S> Service<Request<Body>> for Http<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Unpin + Send + 'static>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(context) = &self.context else { return Answer::Grpc(self.inner.call(request)) };
        if let Err(refused) = context.check(&request) {
            let (methods, version) = (Arc::clone(&context.methods), request.version());
            let (mut head, _) = request.into_parts();
            // Admission counts it and limits it. The services behind admission must not treat it as a gRPC call.
            head.extensions.insert(NotForUs);
            head.headers.remove(CONTENT_TYPE);
            let admitted = self.inner.call(Request::from_parts(head, Body::empty()));
            return Answer::Other(Box::pin(refuse_as_not_for_us(admitted, methods, refused, version)));
        }
        if is_grpc(request.headers()) {
            return Answer::Grpc(self.inner.call(request));
        }
        let methods: Arc<Methods> = Arc::clone(&context.methods);
        let (mut head, body) = request.into_parts();
        let method = methods.get(head.uri.path()).cloned();
        let asked = match self.is_grpc_alone {
            true => Err(protocol::grpc_alone()),
            false => protocol::read(&head, method.as_deref()),
        };
        let (call, refusal) = match (asked, method) {
            (Ok(asked), Some(method)) => {
                let connection = head.extensions.get::<Arc<ConnectionContext>>().cloned();
                let body = Body::new(request::Request::new(&asked, method.clone(), body, connection.clone()));
                make_grpc(&mut head);
                let deadline = asked.timeout.map(|timeout| Instant::now() + timeout + GRACE);
                let call = Call { form: asked.form, methods, method, deadline, connection };
                return Answer::Other(Box::pin(call.answer(self.inner.call(Request::from_parts(head, body)))));
            }
            (Err(refusal), _) => {
                // 405 and 415, which no code represents, are errors of the client.
                let code = Some(refusal.status.code()).filter(|code| *code != Code::Unknown);
                head.extensions.insert(RefusedAs(code.unwrap_or(Code::InvalidArgument)));
                (self.inner.call(Request::from_parts(head, body)), refusal)
            }
            (Ok(Asked { .. }), None) => unreachable!("without a method it was refused"),
        };
        Answer::Other(Box::pin(refuse(call, methods, refusal)))
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(protocol::is_grpc)
}

/// Turns the head of a request into that of a gRPC call.
fn make_grpc(head: &mut http::request::Parts) {
    head.method = http::Method::POST;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(TE, HeaderValue::from_static("trailers"));
    head.headers.remove(CONTENT_LENGTH);
}

/// A request that was converted to a call.
struct Call {
    form: Form,
    methods: Arc<Methods>,
    method: Arc<Method>,
    deadline: Option<Instant>,
    connection: Option<Arc<ConnectionContext>>,
}

impl Call {
    async fn answer<F>(self, inner: F) -> Result<Response<Body>, Infallible>
    where
        F: Future<Output = Result<Response<Body>, Infallible>>,
    {
        let answer = async {
            let Ok(response) = inner.await;
            match self.form {
                Form::Unary(codec) => {
                    unary::answer(response, &self.methods, &self.method, codec, self.connection.as_ref()).await
                }
                Form::Stream(codec) => self.stream(response, Framing::Prefixed(codec)),
                Form::Events => self.stream(response, Framing::Events),
            }
        };
        let response = match self.deadline {
            None => answer.await,
            Some(deadline) => match timeout_at(deadline, answer).await {
                Ok(response) => response,
                Err(_) => {
                    let status = Status::deadline_exceeded("the time of the call is over; its outcome is unknown");
                    refused_in(Some(self.form), &self.methods, &status)
                }
            },
        };
        Ok(with_headers(response))
    }

    fn stream(&self, response: Response<Body>, framing: Framing) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        let status = Status::from_header_map(&head.headers).filter(|status| status.code() != Code::Ok);
        leave_out_grpc(&mut head.headers);
        if let Some(status) = status {
            let mut refused = refused_in(Some(self.form), &self.methods, &status);
            let headers = std::mem::take(refused.headers_mut());
            head.headers.extend(headers);
            *refused.headers_mut() = head.headers;
            return refused;
        }
        head.headers.insert(CONTENT_TYPE, self.form.media_type());
        // Otherwise nginx buffers messages up to some kilobytes.
        head.headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        let deadline = self.deadline.map(|deadline| Box::pin(sleep_until(deadline)));
        let of = (self.methods.clone(), self.method.clone());
        let stream = Stream::new(body, framing, of, deadline, self.connection.clone());
        Response::from_parts(head, Body::new(stream))
    }
}

/// An error in the form that the client expects: in a stream it is the last message.
fn refused_in(form: Option<Form>, methods: &Methods, status: &Status) -> Response<Body> {
    let Some(form @ Form::Stream(_)) = form else { return error::response(methods, status, HeaderMap::new()) };
    let mut response = Response::new(Body::new(http_body_util::Full::new(stream::refused(methods, status))));
    response.headers_mut().insert(CONTENT_TYPE, form.media_type());
    response
}

/// The answer to a request that cannot be a call: the refusal of admission, if any, otherwise the reason.
async fn refuse<F>(inner: F, methods: Arc<Methods>, refusal: Refusal) -> Result<Response<Body>, Infallible>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    let Ok(response) = inner.await;
    let Some(status) = Status::from_header_map(response.headers()) else {
        // The answer is not to a call: it is the page, for example.
        return Ok(with_headers(response));
    };
    if response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Ok(with_headers(refused_in(refusal.form, &methods, &status)));
    }
    let mut refused = refused_in(refusal.form, &methods, &refusal.status);
    if let Some(http) = refusal.http {
        *refused.status_mut() = http;
    }
    if let Some((name, value)) = refusal.header {
        refused.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(with_headers(refused))
}

/// The answer to a request that is not for this server: the refusal of admission, if any, otherwise the reason.
async fn refuse_as_not_for_us<F>(
    admitted: F,
    methods: Arc<Methods>,
    (http, why): browser::Refused,
    version: Version,
) -> Result<Response<Body>, Infallible>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    let Ok(answer) = admitted.await;
    let limit = Status::from_header_map(answer.headers()).filter(|status| status.code() == Code::ResourceExhausted);
    let is_over_limit = limit.is_some();
    let status = limit.unwrap_or_else(|| Status::permission_denied(why));
    let mut response = error::response(&methods, &status, HeaderMap::new());
    if !is_over_limit {
        *response.status_mut() = http;
    }
    if version < Version::HTTP_2 {
        // A client that is refused here has no use for the connection.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(with_headers(response))
}

fn with_headers(mut response: Response<Body>) -> Response<Body> {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer in preparation.
pub(crate) enum Answer<F> {
    Grpc(F),
    Other(Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>),
}

impl<F> Future for Answer<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.get_mut() {
            Answer::Grpc(answer) => Pin::new(answer).poll(cx),
            Answer::Other(answer) => answer.as_mut().poll(cx),
        }
    }
}
