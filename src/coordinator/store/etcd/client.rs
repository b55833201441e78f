//! A client of etcd: a channel to each member, and the member that is used at present.
//!
//! There is one channel per member instead of a balanced one, because a balanced one keeps choosing members that do not
//! answer. When certificates are renewed, each member gets a new channel.
//!
//! An answer counts only if it comes from the cluster that answered first: members that were never joined to one
//! cluster know nothing of each other, and each cluster would have a leader of its own.
use super::kv::{Kv, KvError, SpaceUsage, Tail};
use super::version;
use super::wire::{
    Answer, CompactionRequest, Done, KeyValue, Nothing, RangeRequest, RangeResponse, StatusResponse, TxnRequest,
    TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::causes::with_causes;
use crate::coordinator::store::OpenError;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};

/// The timeout of one attempt. A healthy cluster answers within milliseconds; after that another member is tried.
pub(super) const ATTEMPT: Duration = Duration::from_millis(500);
/// The timeout for reading a page of records.
const PAGE: Duration = Duration::from_secs(10);
/// How long a starting server waits for etcd, so that both may be started at the same time.
const START_WITHIN: Duration = Duration::from_secs(5);
const START_AGAIN_AFTER: Duration = Duration::from_millis(250);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(700);
/// Pings detect a member that hangs, so that its channel reconnects.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum size of an answer: a page of log entries. etcd itself has no limit.
const MAX_ANSWER: usize = 512 << 20;
/// etcd's default quota, used if etcd does not report its quota.
const DEFAULT_QUOTA: i64 = 2 << 30;

/// The beginning of the error about a member that has not answered in time.
const NO_ANSWER: &str = "no answer within";

/// Where etcd is, and how to connect.
#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    /// `http://HOST:PORT` or `https://HOST:PORT`, at least one.
    pub urls: Vec<String>,
    /// The authorities of etcd's certificates, a PEM file; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate of this client, a PEM file.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

impl Endpoints {
    /// The files for TLS.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        [&self.ca, &self.cert, &self.key].into_iter().flatten().cloned().collect()
    }
}

/// The filter of a watch that excludes deletions.
const NO_DELETIONS: i32 = 1;

/// A client of one cluster. Clones share their channels.
#[derive(Clone)]
pub struct Client {
    members: Arc<[Member]>,
    /// The member that is used at present.
    current: Arc<AtomicUsize>,
    endpoints: Arc<Endpoints>,
    /// The runtime of the channels.
    runtime: Handle,
}

struct Member {
    url: String,
    channel: RwLock<Channel>,
    /// The id of the cluster of the member that answered first; 0: no member has answered.
    cluster: Arc<AtomicU64>,
    /// Whether a warning was logged that this member is of another cluster.
    is_reported: AtomicBool,
}

impl Client {
    /// Connects lazily. Has to be called on the runtime on which it is used.
    ///
    /// # Errors
    /// An address or a file is invalid.
    pub(crate) fn new(endpoints: &Endpoints) -> Result<Self, OpenError> {
        let cluster = Arc::<AtomicU64>::default();
        let members = endpoints.urls.iter().map(|url| {
            let channel = channel(url, endpoints).map_err(OpenError::Io)?;
            let (url, channel, cluster) = (url.clone(), RwLock::new(channel), cluster.clone());
            Ok(Member { url, channel, cluster, is_reported: AtomicBool::new(false) })
        });
        let members = members.collect::<Result<Vec<_>, OpenError>>()?.into();
        let (endpoints, runtime) = (Arc::new(endpoints.clone()), Handle::current());
        Ok(Client { members, current: Arc::default(), endpoints, runtime })
    }

    /// Reads the certificates again, for later calls. If one is invalid, the previous ones stay in use.
    ///
    /// # Errors
    /// A file is invalid.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let _runtime = self.runtime.enter();
        let channels = self.members.iter().map(|member| channel(&member.url, &self.endpoints));
        let channels: Vec<_> = channels.collect::<Result<_, _>>()?;
        for (member, channel) in self.members.iter().zip(channels) {
            *member.channel.write().expect("no panic while locked") = channel;
        }
        Ok(())
    }

    /// Waits a few seconds until a member answers, and checks all members that do. `writes`: the caller will write, so
    /// the members need free space.
    ///
    /// # Errors
    /// No member answers, two are of different clusters, one has a version that is refused, or there is no space left.
    pub(crate) async fn check(&self, writes: bool) -> Result<(), OpenError> {
        // The last failure of each member that says more than that there was no answer in time: on a busy machine, the
        // next attempt may not get as far.
        let mut failures: Vec<Option<String>> = vec![None; self.members.len()];
        let rounds = START_WITHIN.as_millis() / START_AGAIN_AFTER.as_millis();
        let search = async {
            for _ in 0..rounds {
                let mut found = None;
                for (member, failure) in self.members.iter().zip(&mut failures) {
                    match member.unchecked("/etcdserverpb.Maintenance/Status", Nothing {}, ATTEMPT).await {
                        Ok(status) => {
                            acceptable(&member.url, &status, writes)?;
                            let of = status.header.map_or(0, |header| header.cluster_id);
                            let &mut (first, cluster) = found.get_or_insert((&member.url, of));
                            if of != cluster {
                                return Err(OpenError::Io(format!(
                                    "etcd at {first} and etcd at {} are of different clusters: name members of one cluster in \
                                     --etcd-endpoints",
                                    member.url
                                )));
                            }
                        }
                        Err(error) => {
                            let text = error.to_string();
                            if !text.contains(NO_ANSWER) || failure.is_none() {
                                *failure = Some(text);
                            }
                        }
                    }
                }
                if found.is_some() {
                    return Ok(true);
                }
                sleep(START_AGAIN_AFTER).await;
            }
            Ok(false)
        };
        // A member that hangs takes the time of one attempt.
        match timeout(START_WITHIN, search).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Err(error)) => Err(error),
            Ok(Ok(false)) | Err(_) => {
                let mut tried = Vec::new();
                for (member, failure) in self.members.iter().zip(failures) {
                    let failure = failure.unwrap_or_else(|| format!("{}: {NO_ANSWER} its turn", member.url));
                    let silent = failure.contains(NO_ANSWER);
                    tried.push(if silent { format!("{failure} ({})", seen_at(&member.url).await) } else { failure });
                }
                let tried = tried.join("; ");
                Err(OpenError::Io(format!(
                    "no etcd answered within {} s. Tried {tried}. Start etcd, or correct --etcd-endpoints, --etcd-ca, --etcd-cert \
                     and --etcd-key",
                    START_WITHIN.as_secs()
                )))
            }
        }
    }

    /// One attempt at the current member. If it fails, the next attempt goes to the next member.
    async fn call<Q, R>(&self, method: &'static str, request: Q, within: Duration) -> Result<R, KvError>
    where
        Q: prost::Message + 'static,
        R: prost::Message + Answer + Default + 'static,
    {
        let current = self.current.load(Relaxed);
        let called = self.members[current % self.members.len()].call(method, request, within).await;
        if let Err(KvError::Unknown(_)) = called {
            // If several calls fail at once, only one of them moves on.
            let _ = self.current.compare_exchange(current, current.wrapping_add(1), Relaxed, Relaxed);
        }
        called
    }
}

/// Whether a member with this status may be used and, if `writes`, written to.
fn acceptable(url: &str, status: &StatusResponse, writes: bool) -> Result<(), OpenError> {
    if let Some(why) = version::refusal(&status.version) {
        return Err(OpenError::Io(format!("etcd at {url} has version {}: {why}", status.version)));
    }
    if writes && is_out_of_space(status) {
        return Err(OpenError::Io(format!(
            "etcd at {url} has no space left ({} of its quota of {} bytes): compact and defragment it, raise --quota-backend-bytes, \
             then `etcdctl alarm disarm`",
            status.db_size,
            quota(status)
        )));
    }
    Ok(())
}

fn is_out_of_space(status: &StatusResponse) -> bool {
    status.errors.iter().any(|error| error.contains("NOSPACE"))
}

fn quota(status: &StatusResponse) -> i64 {
    if status.db_size_quota > 0 { status.db_size_quota } else { DEFAULT_QUOTA }
}

impl Member {
    fn grpc(&self) -> Grpc<Channel> {
        let channel = self.channel.read().expect("no panic while locked").clone();
        Grpc::new(channel).max_decoding_message_size(MAX_ANSWER)
    }

    async fn call<Q, R>(&self, method: &'static str, request: Q, within: Duration) -> Result<R, KvError>
    where
        Q: prost::Message + 'static,
        R: prost::Message + Answer + Default + 'static,
    {
        self.of_cluster(self.unchecked(method, request, within).await?)
    }

    /// Returns the answer if it is of the cluster that answered first.
    fn of_cluster<R: Answer>(&self, answer: R) -> Result<R, KvError> {
        let of = answer.header().map_or(0, |header| header.cluster_id);
        match self.cluster.compare_exchange(0, of, Relaxed, Relaxed) {
            Err(first) if first != of => {
                let why = "it belongs to another cluster than at the start of this process";
                if !self.is_reported.swap(true, Relaxed) {
                    tracing::warn!(
                        url = self.url,
                        "a member of etcd is not used: {why}. Correct --etcd-endpoints, or restart this process if etcd was restored from a snapshot"
                    );
                }
                Err(KvError::Unknown(format!("{}: {why}", self.url)))
            }
            _ => Ok(answer),
        }
    }

    /// The answer, from any cluster.
    async fn unchecked<Q, R>(&self, method: &'static str, request: Q, within: Duration) -> Result<R, KvError>
    where
        Q: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let mut grpc = self.grpc();
        let call = async {
            grpc.ready().await.map_err(|error| KvError::Unknown(self.failure(&error.to_string(), &error)))?;
            let codec = tonic_prost::ProstCodec::<Q, R>::default();
            let answer = grpc.unary(Request::new(request), PathAndQuery::from_static(method), codec).await;
            answer.map_err(|status| self.error(&status))
        };
        match timeout(within, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(KvError::Unknown(format!("{}: {NO_ANSWER} {} ms", self.url, within.as_millis()))),
        }
    }

    fn error(&self, status: &Status) -> KvError {
        if status.code() == Code::OutOfRange && status.message().contains("compacted") {
            return KvError::Compacted;
        }
        if matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated) {
            return KvError::Refused(format!(
                "{}: {}. etcd does not let this client use the keys: give the user of --etcd-cert a role for --etcd-prefix, to read \
                 and write",
                self.url,
                status.message()
            ));
        }
        let refused = match status.code() {
            Code::ResourceExhausted => status.message().contains("space exceeded"),
            // This message means that users or roles have changed during the request.
            Code::InvalidArgument => !status.message().contains("revision of auth store is old"),
            _ => false,
        };
        if refused {
            return KvError::Refused(format!("{}: {}", self.url, status.message()));
        }
        KvError::Unknown(self.failure(status.message(), status))
    }

    /// `text`, with the causes of `error`.
    fn failure(&self, text: &str, error: &dyn Error) -> String {
        format!("{}: {}", self.url, with_causes(text, error))
    }
}

/// How far a connection to a member that does not answer gets.
async fn seen_at(url: &str) -> &'static str {
    let uri = url.parse::<tonic::codegen::http::Uri>().unwrap_or_default();
    let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(2_379));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match timeout(ATTEMPT, tokio::net::TcpStream::connect((host, port))).await {
        Ok(Ok(_)) if uri.scheme_str() == Some("https") => "connected; the TLS handshake or the answer was not finished",
        Ok(Ok(_)) => "connected; the answer was not finished",
        _ => "not connected",
    }
}

fn channel(url: &str, endpoints: &Endpoints) -> Result<Channel, String> {
    let wrong = |why: &dyn std::fmt::Display| {
        format!("--etcd-endpoints {url}: {why}; expected http://HOST:PORT or https://HOST:PORT")
    };
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| wrong(&error))?;
    let has_tls = match endpoint.uri().scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(wrong(&"the scheme is missing")),
    };
    let files = [&endpoints.ca, &endpoints.cert, &endpoints.key];
    if !has_tls && files.iter().any(|file| file.is_some()) {
        return Err(wrong(&"--etcd-ca, --etcd-cert and --etcd-key need https"));
    }
    let endpoint = match has_tls {
        true => endpoint.tls_config(tls(endpoints)?).map_err(|error| wrong(&error))?,
        false => endpoint,
    };
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
    let endpoint = endpoint.http2_keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    Ok(endpoint.keep_alive_while_idle(true).connect_lazy())
}

fn tls(endpoints: &Endpoints) -> Result<ClientTlsConfig, String> {
    let read = |option: &str, path: &Path| {
        std::fs::read(path).map_err(|error| format!("{option} {}: {error}", path.display()))
    };
    let mut config = match &endpoints.ca {
        Some(ca) => {
            let pem = read("--etcd-ca", ca)?;
            // Otherwise no member would be trusted, and no message would say why.
            if CertificateDer::pem_slice_iter(&pem).flatten().next().is_none() {
                return Err(format!("--etcd-ca {}: it contains no certificate in PEM format", ca.display()));
            }
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match (&endpoints.cert, &endpoints.key) {
        (Some(cert), Some(key)) => {
            config = config.identity(Identity::from_pem(read("--etcd-cert", cert)?, read("--etcd-key", key)?));
        }
        (None, None) => {}
        (Some(_), None) => return Err("--etcd-cert needs --etcd-key too".into()),
        (None, Some(_)) => return Err("--etcd-key needs --etcd-cert too".into()),
    }
    // A member that hangs may accept connections and never answer.
    Ok(config.timeout(CONNECT_TIMEOUT))
}

/// A watch at one member.
pub struct WatchTail {
    members: Arc<[Member]>,
    member: usize,
    responses: Streaming<WatchResponse>,
}

impl Tail for WatchTail {
    async fn next(&mut self) -> Result<Vec<KeyValue>, KvError> {
        let member = &self.members[self.member];
        loop {
            let unknown = |why: &str| KvError::Unknown(format!("{}: {why}", member.url));
            let response = self.responses.message().await.map_err(|status| unknown(status.message()))?;
            let response = member.of_cluster(response.ok_or_else(|| unknown("it has ended the watch"))?)?;
            if response.compact_revision > 0 {
                return Err(KvError::Compacted);
            }
            if response.canceled {
                return Err(unknown(&response.cancel_reason));
            }
            let written: Vec<_> = response.events.into_iter().filter_map(|event| event.kv).collect();
            if !written.is_empty() {
                return Ok(written);
            }
        }
    }
}

impl Kv for Client {
    type Tail = WatchTail;

    async fn tail(&self, range: RangeRequest, from: i64) -> Result<WatchTail, KvError> {
        let create = WatchCreateRequest {
            key: range.key,
            range_end: range.range_end,
            start_revision: from,
            filters: vec![NO_DELETIONS],
            fragment: true,
        };
        // etcd ends the watch when its requests end.
        let requests =
            tokio_stream::once(WatchRequest { create: Some(create) }).chain(tokio_stream::pending::<WatchRequest>());
        let current = self.current.load(Relaxed);
        let (members, index) = (self.members.clone(), current % self.members.len());
        let member = &members[index];
        let mut grpc = member.grpc();
        let open = async {
            grpc.ready().await.map_err(|error| KvError::Unknown(member.failure(&error.to_string(), &error)))?;
            let codec = tonic_prost::ProstCodec::<WatchRequest, WatchResponse>::default();
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let responses = grpc.streaming(Request::new(requests), path, codec).await;
            Ok(responses.map_err(|status| member.error(&status))?.into_inner())
        };
        let opened = timeout(ATTEMPT, open).await;
        let opened = opened.unwrap_or_else(|_| Err(KvError::Unknown(format!("{}: no watch was opened", member.url))));
        if let Err(KvError::Unknown(_)) = opened {
            let _ = self.current.compare_exchange(current, current.wrapping_add(1), Relaxed, Relaxed);
        }
        let responses = opened?;
        Ok(WatchTail { members, member: index, responses })
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, KvError> {
        let within = if request.range_end.is_empty() { ATTEMPT } else { PAGE };
        self.call("/etcdserverpb.KV/Range", request, within).await
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, KvError> {
        self.call("/etcdserverpb.KV/Txn", request, ATTEMPT).await
    }

    async fn compact(&self, revision: i64) -> Result<(), KvError> {
        let compacted: Result<Done, _> =
            self.call("/etcdserverpb.KV/Compact", CompactionRequest { revision }, ATTEMPT).await;
        compacted.map(|_| ())
    }

    async fn space(&self) -> Result<SpaceUsage, KvError> {
        let status: StatusResponse = self.call("/etcdserverpb.Maintenance/Status", Nothing {}, ATTEMPT).await?;
        Ok(SpaceUsage { used: status.db_size_in_use, quota: quota(&status), alarm: is_out_of_space(&status) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::ResponseHeader;
    use super::*;

    fn client(urls: &[&str]) -> Client {
        let urls = urls.iter().map(|&url| url.to_owned()).collect();
        Client::new(&Endpoints { urls, ..Endpoints::default() }).expect("the addresses are right")
    }

    /// Otherwise a command retries for 15 s, and then reports that etcd does not answer.
    #[tokio::test]
    async fn what_etcd_does_not_allow_is_refused_at_once() {
        let client = client(&["http://a:1"]);
        for status in [
            Status::permission_denied("etcdserver: permission denied"),
            Status::unauthenticated("etcdserver: invalid auth token"),
        ] {
            let KvError::Refused(why) = client.members[0].error(&status) else { panic!("{status}: it is asked again") };
            assert!(why.starts_with(&format!("http://a:1: {}. ", status.message())) && why.contains("role"), "{why}");
        }
        for status in [
            Status::unavailable("etcdserver: no leader"),
            Status::invalid_argument("etcdserver: revision of auth store is old"),
        ] {
            let unknown = client.members[0].error(&status);
            assert!(matches!(unknown, KvError::Unknown(_)), "{unknown}");
        }
    }

    #[tokio::test]
    async fn only_answers_of_the_first_cluster_count() {
        let client = client(&["http://a:1", "http://b:2"]);
        let answer = |cluster_id| Done { header: Some(ResponseHeader { cluster_id, revision: 7 }) };
        let [a, b] = &*client.members else { panic!("there are two") };
        for (member, cluster, counts) in [(a, 5, true), (b, 5, true), (b, 6, false), (b, 6, false), (a, 5, true)] {
            let found = member.of_cluster(answer(cluster));
            assert_eq!(found.is_ok(), counts, "{} {cluster}: {found:?}", member.url);
            assert!(found.err().is_none_or(|error| matches!(error, KvError::Unknown(_))));
        }
    }
    /// Otherwise the connection is kept until TCP gives up, which takes minutes.
    #[tokio::test]
    async fn a_member_that_is_silent_does_not_keep_the_connection() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca");
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert;
        std::fs::write(&ca, certificate.pem()).unwrap();
        let urls = vec![format!("https://{}", silent.local_addr().unwrap())];
        let client = Client::new(&Endpoints { urls, ca: Some(ca), ..Endpoints::default() }).unwrap();
        let call = client.members[0].unchecked::<Nothing, Done>(
            "/etcdserverpb.Maintenance/Status",
            Nothing {},
            40 * START_WITHIN,
        );
        let why = call.await.unwrap_err().to_string();
        assert!(why.contains("handshake"), "{why}");
    }
}
