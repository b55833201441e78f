//! A connection to an app-server that listens on a Unix socket: WebSocket, a message per text frame.
use super::message::{Ids, Message, News, Outcome, differs};
use futures_util::SinkExt;
use serde_json::{Value, json, value::RawValue};
use std::{path::Path, time::Duration};
use tokio::{net::UnixStream, time::timeout};
use tokio_stream::StreamExt;
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite};

/// The maximum time for the app-server to accept a connection or to answer the first requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The numbers of the first requests; those about counts begin at 1 and never get there.
const INITIALIZE: u64 = u64::MAX;
const LIST: u64 = u64::MAX - 1;

/// Why there is no connection that can be used.
#[derive(Debug)]
pub(super) enum Problem {
    /// The connection failed or was lost. A later attempt may succeed.
    Lost(String),
    /// The app-server speaks another protocol. The message names both versions.
    Differs(String),
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self::Lost(why)
    }
}

/// An initialized connection.
pub(super) struct Connection {
    frames: WebSocketStream<UnixStream>,
    /// The `userAgent` of the app-server.
    server: Option<String>,
    /// News that arrived while an answer was awaited.
    pub(super) news: Vec<News>,
}

impl Connection {
    /// Connects and initializes.
    ///
    /// # Errors
    /// The message says what failed.
    pub(super) async fn open(socket: &Path, ids: &Ids) -> Result<Self, Problem> {
        let opened = timeout(REQUEST_TIMEOUT, async {
            let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
            let (frames, _) = client_async("ws://localhost/", stream).await.map_err(|error| error.to_string())?;
            let mut connection = Self { frames, server: None, news: Vec::new() };
            let client = json!({"name": "pausewatch", "title": "pausewatch", "version": env!("CARGO_PKG_VERSION")});
            let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
            let answer = connection.request(ids, INITIALIZE, "initialize", &params).await?;
            let answer = answer.map_err(|why| connection.problem("initialize", &why))?;
            connection.server = answer["userAgent"].as_str().map(str::to_owned);
            connection.news.extend(connection.server.clone().map(News::Server));
            connection.send(json!({"method": "initialized"}).to_string()).await?;
            Ok(connection)
        });
        opened.await.unwrap_or_else(|_| Err(format!("no answer within {REQUEST_TIMEOUT:?}").into()))
    }

    /// Calls a method that takes a thread.
    pub(super) async fn call(
        &mut self,
        ids: &Ids,
        number: u64,
        method: &str,
        thread_id: &str,
    ) -> Result<Result<Value, Outcome>, String> {
        self.request(ids, number, method, &json!({ "threadId": thread_id })).await
    }

    /// The threads that are loaded.
    ///
    /// # Errors
    /// The message says what failed.
    pub(super) async fn list(&mut self, ids: &Ids) -> Result<Vec<String>, Problem> {
        const METHOD: &str = "thread/loaded/list";
        let answer = timeout(REQUEST_TIMEOUT, self.request(ids, LIST, METHOD, &json!({}))).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {REQUEST_TIMEOUT:?}")))?;
        let loaded = answer.map_err(|why| self.problem(METHOD, &why))?;
        let Some(loaded) = loaded["data"].as_array() else {
            return Err(self.problem(METHOD, &Outcome::Failed("the answer has no list `data`".to_owned())));
        };
        Ok(loaded.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// The problem that a failed answer to one of the first requests shows.
    fn problem(&self, method: &str, why: &Outcome) -> Problem {
        match why {
            Outcome::Busy => Problem::Lost(why.to_string()),
            _ => Problem::Differs(differs(self.server.as_deref(), method, why)),
        }
    }

    /// Sends a request and waits for its answer.
    async fn request(
        &mut self,
        ids: &Ids,
        number: u64,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, Outcome>, String> {
        self.send(ids.request(number, method, params)).await?;
        loop {
            let text = self.receive().await?;
            match ids.read(text.as_bytes()) {
                Message::Ours(answered, answer) if answered == number => {
                    return Ok(answer.map(|result| serde_json::from_str(RawValue::get(result)).unwrap_or_default()));
                }
                Message::Ours(..) => {}
                Message::Theirs(news) => self.news.extend(news),
            }
        }
    }

    pub(super) async fn send(&mut self, message: String) -> Result<(), String> {
        self.frames.send(tungstenite::Message::text(message)).await.map_err(|error| error.to_string())
    }

    /// The next message. Cancel safe.
    pub(super) async fn receive(&mut self) -> Result<tungstenite::Utf8Bytes, String> {
        loop {
            match self.frames.next().await {
                Some(Ok(tungstenite::Message::Text(text))) => return Ok(text),
                // The library answers pings.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the app-server closed the connection".to_owned()),
            }
        }
    }
}
