//! Server-sent events (the HTML standard, 9.2): messages in JSON, one per line, for `curl -N` and `EventSource`.
use super::error::written;
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

/// An event with a message; JSON has no line breaks.
pub(super) fn append_message(bytes: &mut BytesMut, json: &[u8]) {
    bytes.reserve(json.len() + 8);
    bytes.put_slice(b"data: ");
    bytes.put_slice(json);
    bytes.put_slice(b"\n\n");
}

/// The last event of a stream that ended with an error.
pub(super) fn error(error: &Value) -> Bytes {
    format!("event: error\ndata: {}\n\n", written(error)).into()
}
