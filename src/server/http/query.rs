//! The query of a GET: the message, and its encoding.
use super::json::Codec;
use crate::core::types::InvalidField;
use crate::server::status;
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use percent_encoding::percent_decode;
use tonic::Status;

/// Accepts base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The parameters of the query.
#[derive(Debug, PartialEq)]
pub(super) struct Query {
    /// `None`: an unknown encoding.
    pub(super) codec: Option<Codec>,
    pub(super) message: Bytes,
    /// `connect=v1`: the client uses the Connect protocol.
    pub(super) is_of_client: bool,
}

/// Reads a query. The defaults are JSON and an empty message, for people who type it.
pub(super) fn read(query: &str) -> Result<Query, Status> {
    let (mut codec, mut message, mut is_base64, mut is_of_client) = (Some(Codec::Json), None, false, false);
    for (name, value) in query.split('&').filter(|pair| !pair.is_empty()).map(pair) {
        match (&name[..], &value[..]) {
            (b"encoding", b"json") => codec = Some(Codec::Json),
            (b"encoding", b"proto") => codec = Some(Codec::Proto),
            (b"encoding", _) => codec = None,
            (b"message", _) if message.is_some() => return Err(invalid("message", b"set twice", "one")),
            (b"message", _) => message = Some(value),
            // Other values have no meaning.
            (b"base64", b"1") => is_base64 = true,
            (b"connect", b"v1") => is_of_client = true,
            (b"connect", _) => return Err(invalid("connect", &value, "v1")),
            (b"compression", b"" | b"identity") => {}
            (b"compression", _) => {
                let value = String::from_utf8_lossy(&value);
                return Err(Status::unimplemented(format!(
                    "compression {value:?} is not supported: send the message uncompressed"
                )));
            }
            // Other parameters are ignored: a proxy may have added one.
            _ => {}
        }
    }
    let message = match (message, codec) {
        (None, Some(Codec::Proto)) => Vec::new(),
        (None, _) => b"{}".to_vec(),
        (Some(text), _) if is_base64 => BASE64
            .decode(&text)
            .map_err(|error| invalid("message", error.to_string().as_bytes(), "base64url, as base64=1 says"))?,
        (Some(text), _) => text,
    };
    Ok(Query { codec, message: message.into(), is_of_client })
}

fn pair(pair: &str) -> (Vec<u8>, Vec<u8>) {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    (decoded(name), decoded(value))
}

fn decoded(text: &str) -> Vec<u8> {
    percent_decode(text.replace('+', " ").as_bytes()).collect()
}

fn invalid(field: &'static str, was: &[u8], allowed: &'static str) -> Status {
    status::of_field(InvalidField::new(field, format!("{:?}", String::from_utf8_lossy(was)), allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_its_message_as_text_or_in_base64() {
        let of = |text: &str| read(text).map(|query| (query.codec, query.message, query.is_of_client)).unwrap();
        assert_eq!(of(""), (Some(Codec::Json), "{}".into(), false));
        assert_eq!(of("encoding=proto&connect=v1"), (Some(Codec::Proto), Bytes::new(), true));
        assert_eq!(of("encoding=xml").0, None);
        assert_eq!(of("message={}&base64=yes").1, "{}", "only 1 means something");
        let json: Bytes = r#"{"threadId":"a b/ä"}"#.into();
        assert_eq!(of("message=%7B%22threadId%22:%22a+b/%C3%A4%22}").1, json);
        for padding in ["", "=", "%3D"] {
            let base64 = "eyJ0aHJlYWRJZCI6ImEgYi_DpCJ9";
            assert_eq!(of(&format!("base64=1&message={base64}&x=y")).1, json, "{padding}");
            assert_eq!(of(&format!("message=_v8{padding}&base64=1&encoding=proto")).1, &b"\xfe\xff"[..]);
        }
    }

    #[test]
    fn what_a_query_cannot_say_is_refused_by_its_name() {
        for (text, named) in [
            ("base64=1&message=a*b", "message"),
            ("message=1&message=2", "message"),
            ("connect=v2", "connect"),
            ("compression=gzip", "compression"),
        ] {
            assert!(read(text).expect_err(text).message().contains(named), "{text}");
        }
    }
}
