//! Unary calls that arrive at a follower: it holds them until a leader is known, and forwards them to the leader.
//!
//! - W1: only replicas can forward: each message is sealed with the key of the fleet (`seal.rs`), for one leader and
//!   for a minute.
//! - W2: a forwarded call is not forwarded again: a receiver that does not lead refuses it.
//! - W3: a forwarded call takes effect once: a call without a request id gets one. Then it is sent again, as a client
//!   would, until its deadline.
//! - W4: the leader decides about rights and limits as for its own calls, with the caller, the rights and the waiting
//!   time that the follower reports (fleet invariant I12). The rate of calls is limited at the replica where they
//!   arrive.
//! - W5: only answers of replicas are passed on: they have a header that needs the key of the fleet. An answer from
//!   another program at the leader's address counts as no answer.
//!
//! The message of a call is forwarded unchanged, and so is its answer.
use super::answer_room::AnswerRoom;
use super::leading::{Leading, Serving};
use super::peers::Link;
use super::seal::{ANSWERED, Origin, Seal, Unopened};
use crate::clock::Clock;
use crate::coordinator::quota::Accounts;
use crate::server::admission::{ConnectionContext, Forwarded, Size};
use crate::server::grpc::MAX_UNARY_REQUEST;
use crate::server::grpc_timeout;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Service, http};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Status};

const OWN: &str = "/pausewatch.v1.ElicitationService/";
/// The name of the service, and the paths of its methods without the method.
pub(crate) const FORWARD: &str = "pausewatch.internal.Forward";
const METHODS: &str = "/pausewatch.internal.Forward/";
const ENCODING: &str = "grpc-encoding";
/// The flag and the length before a message.
const PREFIX: usize = 5;
/// How long a call without a deadline is held.
const HOLD: Duration = Duration::from_secs(10);
/// The time until a leader that did not answer is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The memory of a waiting call besides its message, in bytes: its head, and its task.
const HELD_CALL: usize = 4 << 10;
/// The maximum of a forwarded call in bytes: its message, and the rights of a token, which are bounded (`access/grant.rs`).
const MAX_FORWARDED: usize = MAX_UNARY_REQUEST + (1 << 20);

/// A unary call that was read and not answered.
pub(super) struct Held {
    head: http::request::Parts,
    /// With flag and length.
    message: Bytes,
    began: Instant,
}

impl Held {
    /// Reads a call completely: an incomplete one is not sent to any replica.
    ///
    /// # Errors
    /// The client has cancelled the call, or the call is too large, or compressed.
    pub(super) async fn read(request: http::Request<Body>) -> Result<Self, Status> {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let is_encoded = head.headers.get(ENCODING).is_some_and(|encoding| encoding != "identity");
        let message = match Limited::new(body, PREFIX + MAX_UNARY_REQUEST).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let allowed = format!("the request has more than {MAX_UNARY_REQUEST} bytes");
                return Err(Status::out_of_range(allowed));
            }
            // The parts of the request that were read may have said what is wrong, such as JSON that cannot be parsed.
            Err(error) => {
                return Err(error.downcast().map_or_else(|other| Status::cancelled(other.to_string()), |why| *why));
            }
        };
        if is_encoded || message.first().is_some_and(|flag| *flag != 0) {
            let mut status = Status::unimplemented("a compressed message is not supported: send it uncompressed");
            // A client can fall back to the encoding that this names.
            status.metadata_mut().insert("grpc-accept-encoding", MetadataValue::from_static("identity"));
            return Err(status);
        }
        Ok(Held { head, message, began })
    }

    /// The call as a request for this replica.
    pub(super) fn into_request(self) -> http::Request<Body> {
        let Held { mut head, message, .. } = self;
        head.headers.remove(http::header::CONTENT_LENGTH);
        http::Request::from_parts(head, Body::new(Full::new(message)))
    }

    fn method(&self) -> &str {
        self.head.uri.path().strip_prefix(OWN).unwrap_or_default()
    }
}

/// Field 2 or 3 of a request, whatever else it has.
#[derive(Clone, PartialEq, prost::Message)]
struct IncrementId {
    #[prost(string, tag = "2")]
    request_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DecrementId {
    #[prost(string, tag = "3")]
    request_id: String,
}

/// Adds a request id if the call may have one and has none.
fn with_request_id(path: &str, message: Bytes) -> Result<Bytes, Status> {
    use prost::Message;
    // A body that is not a message, or only the beginning of one, stays unchanged: the leader refuses it.
    let is_whole = |content: &&[u8]| message[0] == 0 && message[1..PREFIX] == (content.len() as u64).to_be_bytes()[4..];
    let Some(content) = message.get(PREFIX..).filter(is_whole) else { return Ok(message) };
    let new = || -> Result<String, Status> {
        let random = || getrandom::u64().map_err(|error| Status::internal(format!("get random numbers: {error}")));
        Ok(format!("{:016x}{:016x}", random()?, random()?))
    };
    let field = match path.strip_prefix(OWN) {
        Some("IncrementElicitation") if has_none(IncrementId::decode(content).map(|id| id.request_id)) => {
            IncrementId { request_id: new()? }.encode_to_vec()
        }
        Some("DecrementElicitation") if has_none(DecrementId::decode(content).map(|id| id.request_id)) => {
            DecrementId { request_id: new()? }.encode_to_vec()
        }
        _ => return Ok(message),
    };
    let Ok(length) = u32::try_from(content.len() + field.len()) else { return Ok(message) };
    let mut with = BytesMut::with_capacity(message.len() + field.len());
    with.extend_from_slice(&[0]);
    with.extend_from_slice(&length.to_be_bytes());
    with.extend_from_slice(content);
    with.extend_from_slice(&field);
    Ok(with.freeze())
}

fn has_none(request_id: Result<String, prost::DecodeError>) -> bool {
    request_id.is_ok_and(|id| id.is_empty())
}

/// Sends calls to the leader.
#[derive(Clone)]
pub(crate) struct Forwarder {
    links: watch::Receiver<Option<Link>>,
    seal: Arc<Seal>,
    clock: Arc<dyn Clock>,
}

impl Forwarder {
    pub(crate) fn new(links: watch::Receiver<Option<Link>>, seal: Arc<Seal>, clock: Arc<dyn Clock>) -> Self {
        Forwarder { links, seal, clock }
    }

    /// Sends the call to the current leader, which may be this replica, until its deadline.
    pub(super) async fn answer(mut self, mut held: Held, leading: Leading) -> Result<http::Response<Body>, Infallible> {
        held.message = match with_request_id(held.head.uri.path(), held.message) {
            Ok(message) => message,
            Err(status) => return Ok(status.into_http()),
        };
        // A client may have thousands of calls that wait for a leader.
        let connection = held.head.extensions.get::<Arc<ConnectionContext>>();
        let _memory = connection.map(|connection| connection.hold(held.message.len() + HELD_CALL));
        let limit = grpc_timeout::of(&held.head.headers).unwrap_or(HOLD).min(HOLD);
        let over = held.began + limit;
        let origin = Origin::of(&held.head.extensions);
        let mut terms = leading.terms();
        loop {
            let serving = terms.borrow_and_update().clone();
            if let Some(serving) = serving {
                return serving.answer(held.into_request()).await;
            }
            if leading.is_stopping() || Instant::now() >= over {
                return Ok(no_leader().into_http());
            }
            let link = self.links.borrow_and_update().clone();
            let attempt = async {
                match &link {
                    None => std::future::pending().await,
                    Some(link) => self.send(link, &held, &origin, over).await,
                }
            };
            let answer = tokio::select! {
                answer = attempt => answer,
                () = turned(terms.clone(), &leading, link.is_some()) => continue,
                _ = changed(&self.links) => continue,
                () = tokio::time::sleep_until(over) => continue,
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(why) => tracing::debug!(why, "forward a call"),
            }
            let _ = timeout_at(over, sleep(AGAIN_AFTER)).await;
        }
    }

    /// Makes one attempt. An error means that a later attempt may get an answer.
    async fn send(
        &self,
        link: &Link,
        held: &Held,
        origin: &Origin,
        over: Instant,
    ) -> Result<http::Response<Body>, String> {
        let waited = held.began.elapsed();
        let sealed = self.seal.seal(link.replica, held.method(), origin, waited, &held.message, self.clock.boot());
        let answered_by = self.seal.answered(&sealed);
        let left = over.saturating_duration_since(Instant::now()).as_millis().clamp(1, 99_999_999);
        let request = http::Request::post(format!("{METHODS}{}", held.method()))
            .header(http::header::CONTENT_TYPE, "application/grpc")
            .header(http::header::TE, "trailers")
            .header("grpc-timeout", format!("{left}m"))
            .body(Body::new(Full::new(Bytes::from(sealed))));
        let request = request.map_err(|error| error.to_string())?;
        answered(link.channel.clone(), request, &answered_by).await
    }
}

/// The final answer of the leader, with `proof` that it is from a replica. An error means that there is none yet, and
/// the call may be sent again.
async fn answered(
    mut leader: Channel,
    request: http::Request<Body>,
    proof: &str,
) -> Result<http::Response<Body>, String> {
    std::future::poll_fn(|cx| GrpcService::<Body>::poll_ready(&mut leader, cx)).await.map_err(|e| e.to_string())?;
    let mut answer = GrpcService::call(&mut leader, request).await.map_err(|error| error.to_string())?;
    let said = answer.headers_mut().remove(ANSWERED);
    match Status::from_header_map(answer.headers()) {
        // This status is not a final answer: see `status.rs`.
        Some(status) if status.code() == Code::Unavailable && status.details().is_empty() => {
            Err(status.message().to_owned())
        }
        status if said.is_none_or(|said| !bool::from(said.as_bytes().ct_eq(proof.as_bytes()))) => {
            let why = status.map_or_else(|| format!("HTTP {}", answer.status()), |status| status.to_string());
            Err(format!("the answer is not of a replica of this fleet: {why}"))
        }
        // The answer is read completely: a leader that dies after the head has not answered.
        _ => {
            let (mut head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?;
            let trailers = body.trailers().cloned();
            let message = body.to_bytes();
            head.extensions.insert(Size(message.len()));
            let body = match trailers {
                None if message.is_empty() => Body::empty(),
                trailers => Body::new(Full::new(message).with_trailers(ready(trailers.map(Ok)))),
            };
            Ok(http::Response::from_parts(head, body))
        }
    }
}

/// Waits until this replica leads or, for a call that was not sent to a leader, until it stops.
async fn turned(mut terms: watch::Receiver<Option<Serving>>, leading: &Leading, is_sent: bool) {
    while terms.changed().await.is_ok() {
        if terms.borrow_and_update().is_some() || (leading.is_stopping() && !is_sent) {
            return;
        }
    }
}

/// Waits until the leader changes.
async fn changed(links: &watch::Receiver<Option<Link>>) {
    let mut links = links.clone();
    if links.changed().await.is_err() {
        std::future::pending().await
    }
}

fn no_leader() -> Status {
    Status::unavailable(
        "no replica leads the fleet at the moment, or this one does not reach it: call again, with the same request id",
    )
}

/// Answers what other replicas forward.
#[derive(Clone)]
pub(crate) struct ForwardService {
    leading: Leading,
    replica: u64,
    seal: Arc<Seal>,
    accounts: Arc<Accounts>,
    clock: Arc<dyn Clock>,
}

impl ForwardService {
    pub(crate) fn new(
        leading: Leading,
        replica: u64,
        seal: Arc<Seal>,
        accounts: Arc<Accounts>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        ForwardService { leading, replica, seal, accounts, clock }
    }

    async fn answer(self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let denied = || Status::permission_denied("only replicas of this fleet may forward calls");
        let (mut head, body) = request.into_parts();
        let sealed = Limited::new(body, MAX_FORWARDED).collect().await.map_err(|_| denied())?.to_bytes();
        let method = head.uri.path().strip_prefix(METHODS).unwrap_or_default().to_owned();
        let proof = self.seal.answered(&sealed).parse().map_err(|_| denied())?;
        let opened = self.seal.open(self.replica, &method, sealed, self.clock.boot()).map_err(|why| match why {
            Unopened::Foreign => denied(),
            // The sender will find out who leads.
            Unopened::Astray => no_leader(),
        })?;
        let connection = head.extensions.get::<Arc<ConnectionContext>>();
        connection.iter().for_each(|connection| connection.mark_active());
        let room = connection.map(|connection| AnswerRoom::of(connection));
        let serving = self.leading.serving().ok_or_else(no_leader)?;
        let (key, caller) = opened.origin.caller().ok_or_else(denied)?;
        // The connection and other extensions belong to the follower.
        head.extensions.clear();
        let account = self.accounts.of(key, self.clock.awake());
        head.extensions.insert(Forwarded { account, waited: opened.waited });
        caller.into_iter().for_each(|caller| _ = head.extensions.insert(caller));
        head.uri = format!("{OWN}{method}").parse().map_err(|_| denied())?;
        head.headers.remove(http::header::CONTENT_LENGTH);
        let request = http::Request::from_parts(head, Body::new(Full::new(opened.message)));
        let Ok(mut answer) = serving.answer_within(request, room).await;
        answer.headers_mut().insert(ANSWERED, proof);
        Ok(answer)
    }
}

impl Service<http::Request<Body>> for ForwardService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await.unwrap_or_else(Status::into_http)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use prost::Message;
    use std::io;
    use tonic::transport::Endpoint;

    /// The message with the prefix of gRPC.
    fn framed(length: usize, content: &[u8]) -> Bytes {
        let length = u32::try_from(length).expect("it is short").to_be_bytes();
        [&[0], &length[..], content].concat().into()
    }

    #[test]
    fn a_whole_call_without_a_request_id_is_given_one() {
        let content = b"\x0a\x01t";
        for (method, has_id) in
            [("IncrementElicitation", true), ("DecrementElicitation", true), ("GetPauseState", false)]
        {
            let path = format!("{OWN}{method}");
            let message = framed(content.len(), content);
            let with = with_request_id(&path, message.clone()).expect("random numbers");
            assert_eq!(with != message, has_id, "{method}");
            assert_eq!(framed(with.len() - PREFIX, &with[PREFIX..]), with, "{method}: it says its length");
        }
        let content = IncrementId { request_id: "mine".into() }.encode_to_vec();
        let message = framed(content.len(), &content);
        assert_eq!(
            with_request_id(&format!("{OWN}IncrementElicitation"), message.clone()).expect("as it was"),
            message
        );
    }

    /// Otherwise the leader would decode it as a call with fewer fields.
    #[test]
    fn the_beginning_of_a_call_stays_what_it_is() {
        for message in [framed(37, b"\x0a\x01t"), framed(2, b"\x0a\x01t"), framed(0, b"")[..3].to_vec().into()] {
            let path = format!("{OWN}DecrementElicitation");
            assert_eq!(with_request_id(&path, message.clone()).expect("as it was"), message);
        }
    }

    const PROOF: &str = "it was a replica";

    /// The result for such an answer.
    async fn made_of<B>(
        answer: impl Fn() -> http::Response<B> + Clone + Send + 'static,
    ) -> Result<http::Response<Body>, String>
    where
        B: http_body::Body<Data = Bytes, Error = io::Error> + Send + 'static,
    {
        let (here, there) = tokio::io::duplex(1 << 16);
        let leader = hyper::service::service_fn(move |_| std::future::ready(Ok::<_, Infallible>(answer())));
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(serving.serve_connection(TokioIo::new(there), leader));
        let mut pipe = Some(TokioIo::new(here));
        let connector = tower::service_fn(move |_| std::future::ready(pipe.take().ok_or(io::Error::other("once"))));
        let channel = Endpoint::from_static("http://leader").connect_with_connector_lazy(connector);
        let request = http::Request::post("http://leader/").body(Body::empty()).expect("a request");
        answered(channel, request, PROOF).await
    }

    /// Otherwise the client gets an incomplete answer, which not every library treats as a reason to retry.
    #[tokio::test]
    async fn a_leader_that_dies_behind_the_head_of_its_answer_has_not_answered() {
        let answer = || {
            let (frames, body) = tokio::sync::mpsc::channel(1);
            tokio::spawn(async move {
                // Until the head is on its way.
                sleep(Duration::from_millis(50)).await;
                let _ = frames.send(Err::<http_body::Frame<Bytes>, _>(io::Error::other("killed"))).await;
            });
            let body = StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(body));
            http::Response::builder().header(ANSWERED, PROOF).body(body).expect("an answer")
        };
        assert!(made_of(answer).await.is_err());
    }

    /// W5: such as from another server on the port of a leader that is gone.
    #[tokio::test]
    async fn only_an_answer_of_a_replica_is_passed_on() {
        let answer = |status: u16, headers: &'static [(&'static str, &'static str)]| {
            move || {
                let answer = http::Response::builder().status(status);
                let answer = headers.iter().fold(answer, |answer, (name, value)| answer.header(*name, *value));
                answer.body(Full::new(Bytes::from_static(b"body")).map_err(|never| match never {})).expect("an answer")
            }
        };
        for (status, headers) in [
            (200, &[("grpc-status", "0")][..]),
            (200, &[("grpc-status", "12")]),
            (200, &[("grpc-status", "7"), (ANSWERED, "something else")]),
            (404, &[]),
        ] {
            assert!(made_of(answer(status, headers)).await.is_err(), "{status} {headers:?}");
        }
        for code in ["0", "7"] {
            let headers = &*Box::leak(Box::new([("grpc-status", code), (ANSWERED, PROOF)]));
            let passed_on = made_of(answer(200, headers)).await.expect("it is of a replica");
            assert!(passed_on.headers().get(ANSWERED).is_none(), "it is not the client's");
            assert_eq!(passed_on.into_body().collect().await.expect("whole").to_bytes(), "body");
        }
    }
}
