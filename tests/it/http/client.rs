//! A plain HTTP/1.1 client: it can send everything that a browser, curl or an attacker may send.
use crate::support::timed;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

pub(super) const SERVICE: &str = "/pausewatch.v1.ElicitationService/";

trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection.
pub(super) struct Connection {
    stream: Box<dyn Transport>,
    read: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code and the reason of an error.
    pub(super) fn error(&self) -> (String, String) {
        let error = self.json();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        (text(&error["code"]), text(&error["details"][0]["debug"]["reason"]))
    }
}

/// A request with a body; headers that are not in `headers` get usual values.
pub(super) fn request(verb: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{verb} {target} HTTP/1.1\r\n");
    let usual = [("host", "localhost".to_owned()), ("content-length", body.len().to_string())];
    for (name, value) in usual.iter().filter(|(name, _)| headers.iter().all(|(other, _)| other != name)) {
        head += &format!("{name}: {value}\r\n");
    }
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A call in JSON.
pub(super) fn json(method: &str, body: &str) -> Vec<u8> {
    json_with(method, &[], body)
}

pub(super) fn json_with(method: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let headers = [&[("content-type", "application/json")], headers].concat();
    request("POST", &format!("{SERVICE}{method}"), &headers, body.as_bytes())
}

impl Connection {
    /// Connects to `HOST:PORT` or `unix:PATH`.
    pub(super) async fn open(address: &str) -> Self {
        match address.strip_prefix("unix:") {
            Some(path) => Self::over(UnixStream::connect(path).await.unwrap()),
            None => Self::over(TcpStream::connect(address).await.unwrap()),
        }
    }

    pub(super) fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Connection { stream: Box::new(stream), read: Vec::new() }
    }

    /// Connects with TLS, offering these protocols. Returns the chosen one, too.
    pub(super) async fn tls(address: &str, authority: &str, protocols: &[&str]) -> (Self, Option<Vec<u8>>) {
        use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
        use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
        let chosen = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        (Self::over(stream), chosen)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Closes the sending side.
    pub(super) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Sends a request and reads its answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Answer {
        self.send(request).await;
        self.answer(!request.starts_with(b"HEAD ")).await
    }

    /// Reads more bytes; false at the end.
    async fn more(&mut self) -> bool {
        let read = timed("an answer", self.stream.read_buf(&mut self.read)).await;
        matches!(read, Ok(1..))
    }

    /// Reads up to `end`, and returns the bytes before it.
    async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|bytes| bytes == end) {
                let rest = self.read.split_off(at + end.len());
                let mut taken = std::mem::replace(&mut self.read, rest);
                taken.truncate(at);
                return taken;
            }
            assert!(self.more().await, "closed after {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.read.len() < length {
            assert!(self.more().await, "closed after {:?}", String::from_utf8_lossy(&self.read));
        }
        let rest = self.read.split_off(length);
        std::mem::replace(&mut self.read, rest)
    }

    /// Reads the status line and the headers.
    pub(super) async fn head(&mut self) -> Answer {
        let head = String::from_utf8(self.until(b"\r\n\r\n").await).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Answer { status, headers, body: Vec::new() }
    }

    pub(super) async fn answer(&mut self, has_body: bool) -> Answer {
        let mut answer = self.head().await;
        if let Some(length) = answer.header("content-length").filter(|_| has_body) {
            answer.body = self.exactly(length.parse().unwrap()).await;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                answer.body.extend(chunk);
            }
        }
        answer
    }

    /// Reads a chunk of the body; `None`: it is complete.
    pub(super) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = String::from_utf8(self.until(b"\r\n").await).unwrap();
        let chunk = self.exactly(usize::from_str_radix(&length, 16).unwrap()).await;
        assert_eq!(self.exactly(2).await, b"\r\n");
        (!chunk.is_empty()).then_some(chunk)
    }

    /// Waits until the server closes the connection; returns the bytes before that.
    pub(super) async fn closed(mut self) -> Vec<u8> {
        while self.more().await {}
        self.read
    }
}

/// Makes one request on its own connection.
pub(super) async fn ask(address: &str, request: &[u8]) -> Answer {
    Connection::open(address).await.ask(request).await
}

/// The messages of a stream, in JSON.
pub(super) struct Messages {
    connection: Connection,
    /// The unread bytes of an answer with a known length, as when a stream was refused.
    left: Option<usize>,
    read: Vec<u8>,
    is_events: bool,
}

impl Messages {
    /// Sends a request whose answer is a stream.
    pub(super) async fn open(mut connection: Connection, request: &[u8]) -> Self {
        connection.send(request).await;
        let head = connection.head().await;
        assert_eq!(head.status, 200, "{head:?}");
        let is_events = match head.header("content-type") {
            Some("text/event-stream") => true,
            Some("application/connect+json") => false,
            other => panic!("not a stream: {other:?}"),
        };
        let left = head.header("content-length").map(|length| length.parse().unwrap());
        Messages { connection, left, read: Vec::new(), is_events }
    }

    /// The next message with its kind; `None`: the stream has ended. A kind is a flag, or the name of an event.
    pub(super) async fn next(&mut self) -> Option<(String, serde_json::Value)> {
        loop {
            if let Some((kind, length, rest)) = if self.is_events { self.event() } else { self.prefixed() } {
                let json = serde_json::from_slice(&self.read[length.0..length.1]).unwrap();
                self.read.drain(..rest);
                return Some((kind, json));
            }
            let part = match self.left.take() {
                None => self.connection.chunk().await?,
                Some(0) => return None,
                Some(left) => {
                    self.left = Some(0);
                    self.connection.exactly(left).await
                }
            };
            self.read.extend(part);
        }
    }

    fn prefixed(&self) -> Option<(String, (usize, usize), usize)> {
        let (prefix, rest) = self.read.split_first_chunk::<5>()?;
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        (rest.len() >= length).then(|| (prefix[0].to_string(), (5, 5 + length), 5 + length))
    }

    fn event(&self) -> Option<(String, (usize, usize), usize)> {
        let end = self.read.windows(2).position(|bytes| bytes == b"\n\n")?;
        let event = std::str::from_utf8(&self.read[..end]).unwrap();
        let (kind, data) = match event.strip_prefix("event: ") {
            Some(rest) => rest.split_once('\n').unwrap(),
            None => ("", event),
        };
        let json = data.strip_prefix("data: ").unwrap();
        Some((kind.to_owned(), (end - json.len(), end), end + 2))
    }

    /// The next state of a thread: its id and count.
    pub(super) async fn state(&mut self) -> (String, u64) {
        loop {
            let (_, message) = self.next().await.expect("the stream goes on");
            if let Some(state) = message.get("pauseState") {
                return (state["threadId"].as_str().unwrap().to_owned(), state["count"].as_u64().unwrap());
            }
        }
    }

    /// Waits for the end of the snapshot.
    pub(super) async fn snapshot(&mut self) {
        while self.next().await.expect("the stream goes on").1.get("snapshotComplete").is_none() {}
    }
}
