//! Codex's app-server protocol, as far as the bridge needs it: JSON-RPC 2.0 without its `jsonrpc` member, a message per line
//! or WebSocket frame.
//!
//! 1. The ids of our requests are strings with a random part, so they collide with no id of a client.
//! 2. An unknown message is not an error: it does not concern the bridge.
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::fmt;

/// The version of Codex whose protocol is tested.
pub(super) const TESTED_VERSION: &str = "0.169.0";

/// A request about the count of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Increment,
    Decrement,
}

impl Op {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Increment => "thread/increment_elicitation",
            Self::Decrement => "thread/decrement_elicitation",
        }
    }
}

/// The answer to a request of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The app-server is overloaded: try again.
    Busy,
    /// The app-server does not have the thread (any more).
    NotLoaded,
    /// The app-server does not know the method.
    UnknownMethod,
    /// The client has not asked for the experimental API.
    NotExperimental,
    Failed(String),
}

/// The content of a message of the app-server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// The answer to `initialize`: name and version of the app-server.
    Server(String),
    /// The app-server has loaded this thread.
    Loaded(String),
    /// The thread is loaded. `Some`: it waits for a person.
    Status(String, Option<Waiting>),
    /// The app-server does not have the thread any more.
    Closed(String),
}

/// The reason why Codex waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    Approval,
    Input,
}

/// A message of the app-server.
#[derive(Debug)]
pub(super) enum Message<'a> {
    /// The answer to our request with this number: its result, or why there is none.
    Ours(u64, Result<&'a RawValue, Outcome>),
    /// A message for the client.
    Theirs(Option<News>),
}

/// The ids of our requests.
#[derive(Debug, Clone)]
pub(super) struct Ids {
    /// `pausewatch-RANDOM-`.
    prefix: String,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self { prefix: format!("pausewatch-{}-", uuid::Uuid::new_v4().simple()) }
    }

    /// A request, without a newline.
    pub(super) fn request(&self, number: u64, method: &str, params: &serde_json::Value) -> String {
        json!({ "id": format!("{}{number}", self.prefix), "method": method, "params": params }).to_string()
    }

    /// A request about the count of `thread_id`, without a newline.
    pub(super) fn count_request(&self, number: u64, op: Op, thread_id: &str) -> String {
        self.request(number, op.method(), &json!({ "threadId": thread_id }))
    }

    fn number(&self, id: &RawValue) -> Option<u64> {
        let text = id.get().strip_prefix('"')?.strip_suffix('"')?;
        text.strip_prefix(self.prefix.as_str())?.parse().ok()
    }

    /// Reads a message of the app-server.
    pub(super) fn read<'a>(&self, message: &'a [u8]) -> Message<'a> {
        let envelope =
            std::str::from_utf8(message).ok().and_then(|text| serde_json::from_str::<Envelope<'_>>(text).ok());
        let Some(Envelope { id, method, params, result, error }) = envelope else { return Message::Theirs(None) };
        match (id, method) {
            (Some(id), None) => match self.number(id) {
                Some(number) => Message::Ours(number, result.ok_or_else(|| outcome(error))),
                None => Message::Theirs(result.and_then(of_result)),
            },
            (None, Some(method)) => Message::Theirs(params.and_then(|params| of_notification(&method, params))),
            _ => Message::Theirs(None),
        }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
}

/// The answer to `initialize`, or one that contains a thread (`thread/start`, `thread/resume`, `thread/fork`, …).
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "userAgent")]
    user_agent: Option<String>,
    thread: Option<Thread>,
}

#[derive(Deserialize)]
struct Thread {
    id: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "activeFlags", default)]
    flags: Vec<String>,
}

#[derive(Deserialize)]
struct StatusChange {
    #[serde(rename = "threadId")]
    thread_id: String,
    status: Status,
}

#[derive(Deserialize)]
struct ThreadNotification {
    thread: Thread,
}

#[derive(Deserialize)]
struct ThreadIdNotification {
    #[serde(rename = "threadId")]
    thread_id: String,
}

impl Thread {
    fn news(self) -> Option<News> {
        let loaded = self.status.is_none_or(|status| status.is_loaded());
        loaded.then_some(News::Loaded(self.id))
    }
}

impl Status {
    fn is_loaded(&self) -> bool {
        self.kind != "notLoaded"
    }

    fn waiting(&self) -> Option<Waiting> {
        self.flags.iter().find_map(|flag| match flag.as_str() {
            "waitingOnApproval" => Some(Waiting::Approval),
            "waitingOnUserInput" => Some(Waiting::Input),
            _ => None,
        })
    }
}

fn of_result(result: &RawValue) -> Option<News> {
    let answer: Answer = serde_json::from_str(result.get()).ok()?;
    match answer.user_agent {
        Some(server) => Some(News::Server(server)),
        None => answer.thread?.news(),
    }
}

fn of_notification(method: &str, params: &RawValue) -> Option<News> {
    fn read<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Option<T> {
        serde_json::from_str(params.get()).ok()
    }
    match method {
        "thread/started" => read::<ThreadNotification>(params)?.thread.news(),
        "thread/closed" | "thread/deleted" => Some(News::Closed(read::<ThreadIdNotification>(params)?.thread_id)),
        "thread/status/changed" => {
            let StatusChange { thread_id, status } = read(params)?;
            Some(match status.is_loaded() {
                true => News::Status(thread_id, status.waiting()),
                false => News::Closed(thread_id),
            })
        }
        _ => None,
    }
}

/// Codex uses one error code for most errors, so their texts are compared: those of version 0.169.0.
fn outcome(error: Option<&RawValue>) -> Outcome {
    let error = error.and_then(|error| serde_json::from_str::<RpcError>(error.get()).ok());
    let Some(RpcError { code, message }) = error else { return Outcome::Failed("no reason was given".to_owned()) };
    match code {
        -32601 => Outcome::UnknownMethod,
        -32001 => Outcome::Busy,
        _ if message.contains("requires experimentalApi") => Outcome::NotExperimental,
        _ if message.contains("unknown variant") => Outcome::UnknownMethod,
        _ if message.contains("thread not found") || message.contains("invalid thread id") => Outcome::NotLoaded,
        // Only a decrement gets this error, and the count already is what the decrement was to make it.
        _ if message.contains("count is already zero") => Outcome::Done,
        _ => Outcome::Failed(message),
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approval => "Codex waits for an approval",
            Self::Input => "Codex waits for an answer",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Busy => "the app-server is overloaded",
            Self::NotLoaded => "it does not have the thread",
            Self::UnknownMethod => "it does not know the method",
            Self::NotExperimental => "it needs capabilities.experimentalApi",
            Self::Failed(why) => why,
        })
    }
}

/// The message about an app-server that does not answer `method` as the tested version does, with both versions.
pub(super) fn differs(server: Option<&str>, method: &str, why: &Outcome) -> String {
    let found = server.map_or("of an unknown version", |server| version(server).unwrap_or(server));
    format!("Codex {found} does not answer {method} as Codex {TESTED_VERSION} (the tested version) does: {why}")
}

/// Whether a message of the app-server is passed on to its client. Every message is, unless it answers a request with
/// one of these new `Ids`.
pub fn is_for_client(message: &[u8]) -> bool {
    matches!(Ids::new().read(message), Message::Theirs(_))
}

/// The version in a `userAgent`: `name/VERSION (…)`.
pub(super) fn version(user_agent: &str) -> Option<&str> {
    user_agent.split_once('/')?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(message: &str) -> Option<News> {
        match Ids::new().read(message.as_bytes()) {
            Message::Theirs(news) => news,
            ours => panic!("{ours:?}"),
        }
    }

    #[test]
    fn threads_are_learned_from_answers_and_notifications() {
        let loaded = Some(News::Loaded("a".to_owned()));
        assert_eq!(news(r#"{"id":7,"result":{"thread":{"id":"a","turns":[]},"model":"m"}}"#), loaded);
        assert_eq!(news(r#"{"id":7,"result":{"thread":{"id":"a","status":{"type":"idle"}}}}"#), loaded);
        assert_eq!(news(r#"{"method":"thread/started","params":{"thread":{"id":"a"}}}"#), loaded);
        assert_eq!(news(r#"{"id":7,"result":{"thread":{"id":"a","status":{"type":"notLoaded"}}}}"#), None);
        let closed = Some(News::Closed("a".to_owned()));
        assert_eq!(news(r#"{"method":"thread/closed","params":{"threadId":"a"}}"#), closed);
        let status = |status| {
            news(&format!(r#"{{"method":"thread/status/changed","params":{{"threadId":"a","status":{status}}}}}"#))
        };
        assert_eq!(status(r#"{"type":"notLoaded"}"#), closed);
        let waiting = |waiting| Some(News::Status("a".to_owned(), waiting));
        assert_eq!(status(r#"{"type":"idle"}"#), waiting(None));
        assert_eq!(
            status(r#"{"type":"active","activeFlags":["new","waitingOnApproval"]}"#),
            waiting(Some(Waiting::Approval))
        );
        assert_eq!(status(r#"{"type":"active","activeFlags":["waitingOnUserInput"]}"#), waiting(Some(Waiting::Input)));
    }

    #[test]
    fn the_version_is_that_of_the_user_agent() {
        let answer = r#"{"id":1,"result":{"userAgent":"tui/0.169.0 (Debian 12.0.0; x86_64) xterm (tui; 1)"}}"#;
        let Some(News::Server(server)) = news(answer) else { panic!() };
        assert_eq!(version(&server), Some("0.169.0"));
        assert_eq!(version("none"), None);
    }

    #[test]
    fn messages_that_are_not_understood_are_the_clients() {
        for message in
            ["", "\n", "{", "[1]", "{\"id\":null,\"result\":{}}", "{\"id\":1,\"error\":{\"code\":-32601}}", "\u{1}"]
        {
            assert_eq!(news(message), None, "{message}");
        }
        assert_eq!(news(r#"{"id":"pausewatch-1","result":{}}"#), None, "an id of the client that looks like ours");
        assert_eq!(news(r#"{"id":3,"method":"thread/started","params":{"thread":{"id":"a"}}}"#), None, "a request");
        assert!(matches!(Ids::new().read(b"\xff"), Message::Theirs(None)));
    }

    #[test]
    fn answers_to_our_requests_are_recognized_by_their_ids() {
        let ids = Ids::new();
        let request = ids.count_request(12, Op::Increment, "a\"b");
        let request: serde_json::Value = serde_json::from_str(&request).unwrap();
        assert_eq!(
            (&request["method"], &request["params"]["threadId"]),
            (&"thread/increment_elicitation".into(), &"a\"b".into())
        );
        let answer = |rest: &str| format!("{{\"id\":{},{rest}}}", request["id"]);
        let read = |ids: &Ids, rest: &str| match ids.read(answer(rest).as_bytes()) {
            Message::Ours(12, Ok(_)) => Some(Outcome::Done),
            Message::Ours(12, Err(outcome)) => Some(outcome),
            _ => None,
        };
        assert_eq!(read(&ids, r#""result":{"count":1,"paused":true}"#), Some(Outcome::Done));
        let error = |code: i64, message: &str| {
            read(&ids, &format!(r#""error":{{"code":{code},"message":"{message}"}}"#)).expect("it is an answer to us")
        };
        assert_eq!(error(-32001, "Server overloaded; retry later."), Outcome::Busy);
        assert_eq!(error(-32600, "thread not found: a"), Outcome::NotLoaded);
        assert_eq!(
            error(-32600, "Invalid request: unknown variant `thread/increment_elicitation`, expected one of"),
            Outcome::UnknownMethod
        );
        assert_eq!(error(-32601, "Method not found"), Outcome::UnknownMethod);
        assert_eq!(
            error(-32600, "thread/increment_elicitation requires experimentalApi capability"),
            Outcome::NotExperimental
        );
        assert_eq!(error(-32600, "out-of-band elicitation count is already zero"), Outcome::Done);
        assert_eq!(error(-32603, "no"), Outcome::Failed("no".to_owned()));
        assert_eq!(read(&Ids::new(), r#""result":{}"#), None, "an answer to another bridge");
    }
}
