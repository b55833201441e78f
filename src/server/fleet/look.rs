//! What the leader's clock says, for followers: a takeover then goes on with it.
//!
//! Both sides prove with the key of the fleet, which is in etcd, that they are replicas; an answer is of its question alone. So
//! nobody else learns or sets the clock, whatever the connection.
use super::leading::Leading;
use crate::clock::Clock;
use crate::coordinator::store::etcd::Fleet;
use crate::server::tls::TlsFiles;
use ring::hmac;
use std::convert::Infallible;
use std::fs;
use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

const LOOK: &str = "/pausewatch.internal.Replica/Look";
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// An answer that takes longer says too little.
const LOOK_WITHIN: Duration = Duration::from_millis(200);
/// The largest question: its fields have fixed sizes.
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
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Answer {
    #[prost(uint64, tag = "1")]
    term: u64,
    /// The cluster clock, in nanoseconds.
    #[prost(sfixed64, tag = "2")]
    clock: i64,
    #[prost(bytes = "vec", tag = "3")]
    proof: Vec<u8>,
}

fn of_question(replica: u64, nonce: u64) -> Vec<u8> {
    [&b"look at"[..], &replica.to_be_bytes(), &nonce.to_be_bytes()].concat()
}

fn of_answer(nonce: u64, term: u64, clock: i64) -> Vec<u8> {
    [&b"it says"[..], &nonce.to_be_bytes(), &term.to_be_bytes(), &clock.to_be_bytes()].concat()
}

/// Answers other replicas while this one leads.
#[derive(Clone)]
pub(crate) struct LookService {
    leading: Leading,
    replica: u64,
    key: hmac::Key,
}

impl LookService {
    pub(crate) fn new(leading: Leading, fleet: &Fleet) -> Self {
        LookService { leading, replica: fleet.replica(), key: key(fleet) }
    }

    fn answer(&self, question: &Question) -> Result<Answer, Status> {
        let asked = of_question(self.replica, question.nonce);
        if question.replica != self.replica || hmac::verify(&self.key, &asked, &question.proof).is_err() {
            return Err(Status::permission_denied("only replicas of this fleet may ask"));
        }
        let (term, clock) = self.leading.now().ok_or_else(|| Status::unavailable("this replica does not lead"))?;
        let proof = hmac::sign(&self.key, &of_answer(question.nonce, term, clock)).as_ref().to_vec();
        Ok(Answer { term, clock, proof })
    }
}

fn key(fleet: &Fleet) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, fleet.peer_key())
}

impl NamedService for LookService {
    const NAME: &'static str = "pausewatch.internal.Replica";
}

impl UnaryService<Question> for LookService {
    type Response = Answer;
    type Future = std::future::Ready<Result<Response<Answer>, Status>>;

    fn call(&mut self, request: Request<Question>) -> Self::Future {
        ready(self.answer(request.get_ref()).map(Response::new))
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

/// Asks the leader.
pub(crate) struct Peers {
    fleet: Arc<Fleet>,
    machine: Arc<dyn Clock>,
    tls: ClientTlsConfig,
}

impl Peers {
    /// `own`: the certificate of this server, which servers that ask clients for one are shown.
    ///
    /// # Errors
    /// A file is wrong.
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        machine: Arc<dyn Clock>,
        peer_ca: Option<&PathBuf>,
        own: Option<&TlsFiles>,
    ) -> Result<Self, String> {
        let read = |path: &Path| fs::read(path).map_err(|error| format!("read {}: {error}", path.display()));
        let mut tls = match peer_ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some(TlsFiles { cert, key, client_ca: Some(_) }) = own {
            tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        Ok(Peers { fleet, machine, tls })
    }

    /// Looks at the clock of whoever leads, for ever.
    pub(super) async fn look_at_leader(&self) {
        let mut leader = self.fleet.leader();
        let key = key(&self.fleet);
        let mut channel: Option<(String, Channel)> = None;
        loop {
            let known = leader.borrow_and_update().clone().filter(|leader| leader.replica != self.fleet.replica());
            let Some(known) = known else {
                // The sender lives as long as the fleet.
                let _ = leader.changed().await;
                continue;
            };
            if channel.as_ref().is_none_or(|(address, _)| *address != known.address) {
                channel = self.channel(&known.address).map(|channel| (known.address.clone(), channel));
            }
            if let Some((_, channel)) = &channel {
                match timeout(LOOK_WITHIN, self.look(channel.clone(), &key, known.replica, known.term)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(status)) => tracing::debug!(address = known.address, %status, "look at the leader's clock"),
                    Err(_) => tracing::debug!(address = known.address, "the leader's clock does not answer"),
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self, channel: Channel, key: &hmac::Key, replica: u64, term: u64) -> Result<(), Status> {
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let nonce = getrandom::u64().map_err(|error| Status::internal(error.to_string()))?;
        let proof = hmac::sign(key, &of_question(replica, nonce)).as_ref().to_vec();
        let question = Request::new(Question { replica, nonce, proof });
        let codec = ProstCodec::<Question, Answer>::default();
        let asked = self.machine.boot();
        let answer = grpc.unary(question, PathAndQuery::from_static(LOOK), codec).await?.into_inner();
        let answered = self.machine.boot();
        hmac::verify(key, &of_answer(nonce, answer.term, answer.clock), &answer.proof)
            .map_err(|_| Status::unauthenticated("the answer is not of a replica of this fleet"))?;
        if answer.term == term {
            self.fleet.leader_clock().sample(term, asked, answer.clock, answered);
        }
        Ok(())
    }

    fn channel(&self, address: &str) -> Option<Channel> {
        let endpoint = match address.starts_with("https://") {
            true => {
                Endpoint::from_shared(address.to_owned()).and_then(|endpoint| endpoint.tls_config(self.tls.clone()))
            }
            false => Endpoint::from_shared(format!("http://{}", address.trim_start_matches("http://"))),
        };
        let endpoint = endpoint.inspect_err(|error| tracing::warn!(address, %error, "the leader's address is wrong"));
        Some(endpoint.ok()?.connect_timeout(LOOK_WITHIN).tcp_nodelay(true).connect_lazy())
    }
}
