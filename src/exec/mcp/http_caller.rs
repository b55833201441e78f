//! Who calls over HTTP, and whether a person is asked for it. It is an extension of each HTTP request.
use super::{peer::Peer, scope::Context};
use http::{HeaderMap, request::Parts};
use serde::{Deserialize, de::IgnoredAny};
use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

/// The headers that proxies add.
const PROXY_HEADERS: [&str; 7] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip"];

/// The sender of an HTTP request.
#[derive(Debug, Clone)]
pub(super) struct HttpCaller {
    pub(super) peer: Peer,
    /// Why nobody is asked for it.
    pub(super) unable: Option<&'static str>,
}

impl HttpCaller {
    /// `None`: the call came over standard input.
    pub(super) fn of(context: &Context) -> Option<&Self> {
        context.extensions.get::<Parts>()?.extensions.get()
    }
}

/// A connection, and who has sent its last request that was checked.
pub(super) struct Connection {
    peer: SocketAddr,
    local: SocketAddr,
    known: Mutex<Option<Peer>>,
}

impl Connection {
    pub(super) fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        Self { peer, local, known: Mutex::default() }
    }

    /// Who has sent a request with this body. The first request is checked, and each one that may answer a question: the connection may have
    /// been passed on meanwhile. Call it when the whole body has arrived.
    ///
    /// # Errors
    /// Why the request must be refused.
    pub(super) async fn sender(&self, headers: &HeaderMap, body: &[u8]) -> Result<Peer, &'static str> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = known().filter(|_| !may_answer(body));
        let peer = match checked {
            Some(peer) => peer,
            None => {
                let (peer, local) = (self.peer, self.local);
                let found = tokio::task::spawn_blocking(move || Peer::of(peer, local)).await;
                let found = found.unwrap_or(Err("the sender of this request cannot be determined\n"))?;
                *known() = Some(found);
                found
            }
        };
        // The peer of the connection is a proxy.
        Ok(if PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)) { Peer::Elsewhere } else { peer })
    }
}

/// Whether a message may be the answer to a question: a response, or a call with answers. Everything that is not certainly another message may be one.
fn may_answer(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
        params: Option<Params>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        input_responses: Option<IgnoredAny>,
    }
    // An array would be read as the fields of one message.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let message = is_object.then(|| serde_json::from_slice::<Message>(body).ok()).flatten();
    !body.is_empty()
        && message.is_none_or(|Message { result, error, params }| {
            result.is_some() || error.is_some() || params.is_some_and(|params| params.input_responses.is_some())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_may_answer_a_question_is_found() {
        for body in [
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "result": {}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "\u0072esult": {}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}"#,
            r#"{"method": "tools/call", "params": {"name": "shell", "inputResponses": {}}}"#,
            r#"{"method": "tools/call", "params": {"inputResponses": null, "inputResponses": {}}}"#,
            r#"{"result": null, "result": {}}"#,
            r#"[{"method": "ping"}]"#,
            r#"[null, null, {"result": {}}]"#,
            "{",
        ] {
            assert!(may_answer(body.as_bytes()), "{body}");
        }
        for body in ["", r#"{"method": "ping", "id": 1}"#, r#"{"method": "tools/call", "params": {"name": "shell"}}"#] {
            assert!(!may_answer(body.as_bytes()), "{body}");
        }
    }
}
