//! The client's `initialize` request, with the one capability that the bridge needs.
//!
//! `thread/increment_elicitation` is part of the experimental API, which a connection has to ask for. Over stdio there is one
//! connection, the client's own, so the bridge adds `"experimentalApi":true` to its capabilities.
//!
//! 1. Every other byte of the line stays as it is.
//! 2. If the client sets the capability itself, to true or false, the bridge does not change it.
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const CAPABILITY: &str = "experimentalApi";

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: String,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// A client's line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// `initialize` that already has the capability, or that cannot get it. It is passed on unchanged.
    Initialize,
    /// `initialize`, completed.
    Completed(Vec<u8>),
    /// Another message, or text that is not a message.
    Other,
}

/// Reads a line of the client, and completes it if it is `initialize`.
pub fn complete(line: &[u8]) -> Line {
    let Ok(text) = std::str::from_utf8(line) else { return Line::Other };
    match serde_json::from_str::<Request<'_>>(text) {
        Ok(request) if request.method == "initialize" && request.id.is_some() => match request.params {
            Some(params) => insertion(text, params).map_or(Line::Initialize, |(at, until, added)| {
                Line::Completed([&line[..at], added.as_bytes(), &line[until..]].concat())
            }),
            None => Line::Initialize,
        },
        _ => Line::Other,
    }
}

/// The range of `text` to replace, and its replacement. `None`: nothing to do.
fn insertion(text: &str, params: &RawValue) -> Option<(usize, usize, String)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(params.get()).ok()?;
    let Some(capabilities) = members.get("capabilities") else {
        let at = offset(text, params.get()) + 1;
        let comma = if members.is_empty() { "" } else { "," };
        return Some((at, at, format!("\"capabilities\":{{\"{CAPABILITY}\":true}}{comma}")));
    };
    let at = offset(text, capabilities.get());
    if capabilities.get() == "null" {
        return Some((at, at + "null".len(), format!("{{\"{CAPABILITY}\":true}}")));
    }
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(capabilities.get()).ok()?;
    let comma = if members.is_empty() { "" } else { "," };
    (!members.contains_key(CAPABILITY)).then(|| (at + 1, at + 1, format!("\"{CAPABILITY}\":true{comma}")))
}

/// The offset of `part`, which is a slice of `text`.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> String {
        match complete(line.as_bytes()) {
            Line::Completed(line) => {
                serde_json::from_slice::<serde_json::Value>(&line).expect("it is still JSON");
                String::from_utf8(line).unwrap()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_capability_is_added_and_nothing_else_changes() {
        for (capabilities, expected) in [
            (r#""capabilities": {},"#, r#""capabilities": {"experimentalApi":true},"#),
            (r#""capabilities":null,"#, r#""capabilities":{"experimentalApi":true},"#),
            (r#""capabilities":{ "x": [1.50] },"#, r#""capabilities":{"experimentalApi":true, "x": [1.50] },"#),
        ] {
            let line = |capabilities| {
                format!(
                    "{{\"method\": \"initialize\",\"id\":1, \"params\": {{ {capabilities} \"n\": 123456789012345678901 }} }}\r\n"
                )
            };
            assert_eq!(completed(&line(capabilities)), line(expected));
        }
        let absent = r#"{"id":0,"method":"initialize","params":{"clientInfo":{}}}"#;
        let expected =
            r#"{"id":0,"method":"initialize","params":{"capabilities":{"experimentalApi":true},"clientInfo":{}}}"#;
        assert_eq!(completed(absent), expected);
        assert_eq!(
            completed(r#"{"id":0,"method":"initialize","params":{}}"#),
            r#"{"id":0,"method":"initialize","params":{"capabilities":{"experimentalApi":true}}}"#
        );
    }

    #[test]
    fn a_client_that_names_the_capability_is_not_overruled() {
        for value in ["true", "false"] {
            let line = format!(
                r#"{{"id":"a","method":"initialize","params":{{"capabilities":{{"experimentalApi":{value}}}}}}}"#
            );
            assert_eq!(complete(line.as_bytes()), Line::Initialize);
        }
    }

    #[test]
    fn other_lines_are_left_alone() {
        for line in [
            &b"{\"id\":1,\"method\":\"thread/start\",\"params\":{}}\n"[..],
            b"{\"method\":\"initialize\",\"params\":{}}\n",
            b"\"initialize\"\n",
            b"{\"id\":1,\"method\":\"initialize\"",
            b"\xff initialize\n",
            b"\n",
        ] {
            assert_eq!(complete(line), Line::Other, "{}", line.escape_ascii());
        }
        for params in ["[]", "7", r#"{"capabilities":[]}"#] {
            let line = format!(r#"{{"id":1,"method":"initialize","params":{params}}}"#);
            assert_eq!(complete(line.as_bytes()), Line::Initialize, "{line}");
        }
    }
}
