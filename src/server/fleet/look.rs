//! The leader's answers to the *looks* of followers, which are requests for its clock and for the time up to which they
//! may show durations. A takeover continues with that clock.
//!
//! Both sides prove with the key of the fleet, which is in etcd, that they are replicas, and an answer is valid only
//! for its request. So nobody else can read or set the clock over any connection. Requests with a valid proof bypass
//! the limits of clients, because the watches of a replica end when it cannot look.
use super::leading::{Leading, Vouched};
use crate::server::admission::ConnectionContext;
use ring::hmac;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::server::UnaryService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// The name of the service.
pub(crate) const REPLICA: &str = "pausewatch.internal.Replica";
const LOOK: &str = "/pausewatch.internal.Replica/Look";
/// The maximum size of a request: its fields have fixed sizes.
const MAX_QUESTION: usize = 256;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Question {
    /// The replica that is asked.
    #[prost(fixed64, tag = "1")]
    replica: u64,
    #[prost(fixed64, tag = "2")]
    nonce: u64,
    #[prost(bytes = "vec", tag = "3")]
    proof: Vec<u8>,
    /// Whether the leader has to confirm with etcd that it leads.
    #[prost(bool, tag = "4")]
    anew: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Answer {
    #[prost(uint64, tag = "1")]
    pub(super) term: u64,
    /// The cluster clock, in nanoseconds.
    #[prost(sfixed64, tag = "2")]
    pub(super) clock: i64,
    #[prost(bytes = "vec", tag = "3")]
    proof: Vec<u8>,
    /// Everything that was decided before this moment of the cluster clock...
    #[prost(sfixed64, tag = "4")]
    pub(super) horizon: i64,
    /// ...is in the log up to this entry.
    #[prost(uint64, tag = "5")]
    pub(super) seq: u64,
}

fn of_question(replica: u64, nonce: u64, anew: bool) -> Vec<u8> {
    [&b"look at"[..], &replica.to_be_bytes(), &nonce.to_be_bytes(), &[anew.into()]].concat()
}

fn of_answer(nonce: u64, answer: &Answer) -> Vec<u8> {
    let Answer { term, clock, horizon, seq, .. } = answer;
    let numbers = [nonce, *term, clock.cast_unsigned(), horizon.cast_unsigned(), *seq];
    numbers.iter().fold(b"it says".to_vec(), |said, number| [&said[..], &number.to_be_bytes()].concat())
}

/// Answers other replicas while this one leads.
#[derive(Clone)]
pub(crate) struct LookService {
    leading: Leading,
    replica: u64,
    key: hmac::Key,
}

impl LookService {
    pub(crate) fn new(leading: Leading, replica: u64, key: &[u8]) -> Self {
        LookService { leading, replica, key: hmac::Key::new(hmac::HMAC_SHA256, key) }
    }

    async fn answer(self, request: Request<Question>) -> Result<Response<Answer>, Status> {
        let connection = request.extensions().get::<Arc<ConnectionContext>>().cloned();
        let question = request.into_inner();
        let asked = of_question(self.replica, question.nonce, question.anew);
        if question.replica != self.replica || hmac::verify(&self.key, &asked, &question.proof).is_err() {
            return Err(Status::permission_denied("only replicas of this fleet may ask"));
        }
        connection.iter().for_each(|connection| connection.mark_active());
        let vouched = self.leading.vouch(question.anew).await;
        let Vouched { term, clock, horizon, seq } =
            vouched.ok_or_else(|| Status::unavailable("this replica does not lead"))?;
        let mut answer = Answer { term, clock, horizon, seq, proof: Vec::new() };
        answer.proof = hmac::sign(&self.key, &of_answer(question.nonce, &answer)).as_ref().to_vec();
        Ok(Response::new(answer))
    }
}

/// Sends a look to the replica at the other end of `channel`, which has to be `replica`.
pub(super) async fn look(channel: Channel, key: &hmac::Key, replica: u64, anew: bool) -> Result<Answer, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let nonce = getrandom::u64().map_err(|error| Status::internal(error.to_string()))?;
    let proof = hmac::sign(key, &of_question(replica, nonce, anew)).as_ref().to_vec();
    let question = Request::new(Question { replica, nonce, proof, anew });
    let codec = ProstCodec::<Question, Answer>::default();
    let answer = grpc.unary(question, PathAndQuery::from_static(LOOK), codec).await?.into_inner();
    hmac::verify(key, &of_answer(nonce, &answer), &answer.proof)
        .map_err(|_| Status::unauthenticated("the answer is not of a replica of this fleet"))?;
    Ok(answer)
}

impl UnaryService<Question> for LookService {
    type Response = Answer;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Status>> + Send>>;

    fn call(&mut self, request: Request<Question>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

impl Service<http::Request<Body>> for LookService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != LOOK {
            return Box::pin(ready(Ok(Status::unimplemented("the server has no such method").into_http())));
        }
        let service = self.clone();
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Answer, Question>::default())
                .max_decoding_message_size(MAX_QUESTION);
            Ok(grpc.unary(service, request).await)
        })
    }
}
