//! Converts messages between JSON (the mapping of proto3) and bytes, by their descriptors.
use super::envelope;
use super::methods::Method;
use crate::core::types::{InvalidField, MAX_VALUES};
use crate::escape::{escaped, escaped_json};
use crate::server::status;
use bytes::Bytes;
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde::Deserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use tonic::Status;

/// The encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Json,
    Proto,
}

/// The maximum length of an error message, which may quote the request.
const MAX_WHY: usize = 200;
/// Writes fields with default values too, otherwise a count of 0 would be omitted.
const WRITE: SerializeOptions = SerializeOptions::new().skip_default_fields(false);

/// The gRPC message of a request, with its prefix. `is_strict`: unknown fields are refused.
pub(super) fn request(method: &Method, codec: Codec, bytes: &Bytes, is_strict: bool) -> Result<Bytes, Status> {
    match codec {
        Codec::Proto => Ok(envelope::write(0, bytes)),
        Codec::Json => {
            if has_too_many_values(bytes) {
                return Err(status::of_field(InvalidField::too_many_values()));
            }
            let message = read(method, bytes, is_strict).or_else(|error| match with_integers(method, bytes)? {
                Some(json) => read(method, &json, is_strict).map_err(|error| unreadable(&error)),
                None => Err(unreadable(&error)),
            });
            let message = message?;
            serde_json::Deserializer::from_slice(bytes)
                .deserialize_map(EachOnce(&method.input))
                .map_err(|error| unreadable(&error))?;
            Ok(envelope::write(0, &message.encode_to_vec()))
        }
    }
}

/// Whether the JSON has more than [`MAX_VALUES`] values, whatever they are and however they are nested: a message of
/// millions of empty strings takes a hundred times its bytes, and hundreds of milliseconds. Each value but the first
/// follows a comma, or opens or begins an array or an object.
fn has_too_many_values(json: &[u8]) -> bool {
    let (mut count, mut is_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => {
                count += 1;
                if count > MAX_VALUES {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// The same request with whole numbers written as integers: the mapping also allows `5.0`, `1e2` and `"1e2"`, which
/// `prost-reflect` does not read. `None`: there is no such number. Requests have only 32-bit integers, and none in
/// nested messages.
fn with_integers(method: &Method, json: &[u8]) -> Result<Option<Vec<u8>>, Status> {
    let integers: Vec<_> = method.input.fields().filter(|field| field.kind() == Kind::Int32).collect();
    let object = if integers.is_empty() { None } else { serde_json::from_slice::<Map<String, Value>>(json).ok() };
    let Some(mut object) = object else { return Ok(None) };
    let mut has_changed = false;
    for (name, value) in &mut object {
        let Some(field) = integers.iter().find(|field| [field.json_name(), field.name()].contains(&name.as_str()))
        else {
            continue;
        };
        let number = match value {
            Value::Number(number) => Some(number.as_f64().unwrap_or(f64::INFINITY)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let Some(number) = number else { continue };
        if number.fract() != 0.0 || number < i32::MIN.into() || number > i32::MAX.into() {
            let allowed = "a whole number of 32 bits";
            return Err(status::of_field(InvalidField::new(field.name(), start(&value.to_string()), allowed)));
        }
        (*value, has_changed) = ((number as i32).into(), true);
    }
    Ok(has_changed.then(|| Value::Object(object).to_string().into_bytes()))
}

fn read(method: &Method, json: &[u8], is_strict: bool) -> Result<DynamicMessage, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(is_strict);
    let message = DynamicMessage::deserialize_with_options(method.input.clone(), &mut reader, &options)?;
    reader.end()?;
    Ok(message)
}

/// Refuses a field that is set twice: `prost-reflect` would use the last value. (Requests have no nested fields.)
struct EachOnce<'a>(&'a MessageDescriptor);

impl<'de> Visitor<'de> for EachOnce<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut set = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let field = self.0.get_field_by_json_name(&name).or_else(|| self.0.get_field_by_name(&name));
            if let Some(number) = field.map(|field| field.number()) {
                if set.contains(&number) {
                    return Err(A::Error::custom(format!("field {name:?} is set twice")));
                }
                set.push(number);
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

fn unreadable(error: &serde_json::Error) -> Status {
    let allowed = "the request message of this call as JSON, such as {\"threadId\": \"t\"}";
    status::of_field(InvalidField::new("request", start(&error.to_string()), allowed))
}

fn start(text: &str) -> String {
    let start: String = text.chars().take(MAX_WHY).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", escaped(&start))
}

/// A message of the answer in the encoding of the client.
pub(super) fn response(method: &Method, codec: Codec, message: Bytes) -> Result<Bytes, Status> {
    if codec == Codec::Proto {
        return Ok(message);
    }
    let internal = |error: &dyn std::fmt::Display| Status::internal(format!("write the answer as JSON: {error}"));
    // JSON is about three times as large.
    let mut json = Vec::with_capacity(3 * message.len());
    let message = DynamicMessage::decode(method.output.clone(), message).map_err(|error| internal(&error))?;
    let mut writer = serde_json::Serializer::new(&mut json);
    message.serialize_with_options(&mut writer, &WRITE).map_err(|error| internal(&error))?;
    Ok(harmless(json).into())
}

/// The same JSON, escaped so that it cannot change a terminal that shows it.
fn harmless(json: Vec<u8>) -> Vec<u8> {
    if json.is_ascii() {
        return json;
    }
    let escaped = match std::str::from_utf8(&json).map(escaped_json) {
        Ok(Cow::Owned(escaped)) => Some(escaped.into_bytes()),
        _ => None,
    };
    escaped.unwrap_or(json)
}

#[cfg(test)]
mod tests {
    use super::super::methods::tests::method;
    use super::*;
    use crate::core::types::MAX_WATCHED;
    use crate::proto::v1;
    use serde_json::json;
    use tonic_types::StatusExt;

    fn increment(json: &str, is_strict: bool) -> Result<v1::IncrementElicitationRequest, Status> {
        let message = request(&method("IncrementElicitation"), Codec::Json, &json.to_owned().into(), is_strict)?;
        Ok(v1::IncrementElicitationRequest::decode(&message[5..]).unwrap())
    }

    #[test]
    fn a_request_is_read_by_its_names_in_json_or_in_the_proto() {
        let expected = v1::IncrementElicitationRequest {
            thread_id: "t/ä".into(),
            ttl: Some(prost_types::Duration { seconds: 30, nanos: 500_000_000 }),
            ..Default::default()
        };
        for json in [
            r#"{"threadId": "t/ä", "ttl": "30.5s"}"#,
            r#"{"thread_id": "t/\u00e4", "ttl": "30.500s", "reason": null}"#,
            " {\"threadId\":\"t/ä\",\"ttl\":\"30.5s\"}\r\n",
        ] {
            assert_eq!(increment(json, true).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn a_request_that_is_not_its_message_is_an_invalid_field_with_the_place() {
        for (json, why) in [
            ("", "EOF"),
            ("[]", "expected a map"),
            ("{} {}", "trailing"),
            (r#"{"threadId": 5}"#, "string"),
            (r#"{"thread": "t"}"#, "thread"),
            (r#"{"ttl": "30"}"#, "duration"),
            (r#"{"threadId": "t", "reason": "a", "reason": "b"}"#, "set twice"),
            (r#"{"threadId": "t", "thread_id": "u"}"#, "set twice"),
        ] {
            let refused = increment(json, true).expect_err(json);
            let info = refused.get_error_details().error_info().cloned().unwrap();
            assert_eq!((info.reason.as_str(), info.metadata["field"].as_str()), ("INVALID_FIELD", "request"), "{json}");
            assert!(info.metadata["was"].contains(why) && info.metadata["was"].contains("line"), "{json}: {info:?}");
        }
        assert!(increment(r#"{"thread": "t"}"#, false).is_ok(), "a client of a later version is not strict");
    }

    /// Decoded, a million empty ids take 100 MB and a third of a second.
    #[test]
    fn a_request_of_many_values_is_refused_before_it_is_decoded() {
        let counts = |json: &str| has_too_many_values(json.as_bytes());
        let ids = |id: &str, n: usize| format!(r#"{{"threadIds": [{}]}}"#, vec![id; n].join(","));
        for (json, is_refused) in [
            (ids(r#""a,[{\"\\""#, MAX_WATCHED), false),
            (ids(r#""""#, 1_000_000), true),
            (ids("[]", MAX_VALUES), true),
            (format!(r#"{{"threadIds": "{}"}}"#, ",".repeat(100_000)), false),
            ("[".repeat(100_000), true),
            (format!("{{{}}}", vec![r#""x": 1"#; 20_000].join(",")), true),
        ] {
            assert_eq!(counts(&json), is_refused, "{}", &json[..40]);
            let refused = request(&method("WatchPauseState"), Codec::Json, &json.into(), true).err();
            if let Some(refused) = refused.filter(|_| is_refused) {
                let metadata = refused.get_error_details().error_info().cloned().unwrap().metadata;
                assert_eq!((&*metadata["field"], &*metadata["was"]), ("request", "one of more than 10,100 values"));
            }
        }
    }

    #[test]
    fn a_whole_number_is_an_integer_however_it_is_written() {
        let read = |page_size: &str| {
            let json = format!(r#"{{"pageSize": {page_size}, "threadId": "t"}}"#);
            let message = request(&method("ListPauses"), Codec::Json, &json.into(), true)?;
            let read = v1::ListPausesRequest::decode(&message[5..]).unwrap();
            assert_eq!(read.thread_id, "t");
            Ok::<_, Status>(read.page_size)
        };
        for (json, number) in [
            ("5", 5),
            ("5.0", 5),
            ("1e2", 100),
            ("1.5E+1", 15),
            (r#""1e2""#, 100),
            (r#""5.0""#, 5),
            ("-0.0", 0),
            ("2147483647.0", i32::MAX),
            ("null", 0),
        ] {
            assert_eq!(read(json).unwrap(), number, "{json}");
        }
        for json in ["5.5", r#""5.5""#, "2147483648", "-2147483649", r#""1e10""#, r#""inf""#, r#""NaN""#] {
            let refused = read(json).expect_err(json);
            let metadata = refused.get_error_details().error_info().cloned().unwrap().metadata;
            assert_eq!((metadata["field"].as_str(), metadata["was"].as_str()), ("page_size", json), "{json}");
        }
        for json in ["true", "[]", r#""""#, r#"" 5""#, r#""0x5""#] {
            let refused = read(json).expect_err(json);
            assert_eq!(
                refused.get_error_details().error_info().cloned().unwrap().metadata["field"],
                "request",
                "{json}"
            );
        }
    }

    #[test]
    fn requests_have_integers_only_where_they_are_read() {
        let is_wkt = |message: MessageDescriptor| message.full_name().starts_with("google.protobuf.");
        for service in method("ListPauses").input.parent_pool().services() {
            for field in service.methods().flat_map(|method| method.input().fields().collect::<Vec<_>>()) {
                let is_read = match field.kind() {
                    Kind::Message(inner) => is_wkt(inner),
                    Kind::Int32 => !field.is_list(),
                    kind => matches!(kind, Kind::String | Kind::Bool),
                };
                assert!(is_read, "{field:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_shown_in_short_and_harmless() {
        let refused = increment(&format!("{{\"\u{9b}{}\": 1}}", "x".repeat(10_000)), true).unwrap_err();
        let was = &refused.get_error_details().error_info().cloned().unwrap().metadata["was"];
        assert!(was.chars().count() < 220 && was.ends_with('…') && was.contains("\\u{9b}"), "{was}");
    }

    #[test]
    fn an_answer_moves_no_cursor_of_the_terminal_that_shows_it() {
        let answer =
            v1::ListPauseStatesResponse { next_page_token: "a\u{9b}2J\u{202e}ä\n".into(), ..Default::default() };
        let json = response(&method("ListPauseStates"), Codec::Json, answer.encode_to_vec().into()).unwrap();
        assert_eq!(json, r#"{"pauseStates":[],"nextPageToken":"a\u009b2J\u202eä\n"}"#);
    }

    #[test]
    fn an_answer_has_its_default_values() {
        let answer = v1::DecrementElicitationResponse { count: 0, paused: false, revision: 7 };
        let json = response(&method("DecrementElicitation"), Codec::Json, answer.encode_to_vec().into()).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json, json!({ "count": 0, "paused": false, "revision": "7" }));
        let proto: Bytes = answer.encode_to_vec().into();
        assert_eq!(response(&method("DecrementElicitation"), Codec::Proto, proto.clone()).unwrap(), proto);
    }
}
