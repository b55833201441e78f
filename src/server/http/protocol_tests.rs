use super::super::methods::tests::method;
use super::*;
use tonic::Code;

/// A request with these headers.
fn head(verb: &str, query: &str, headers: &[(&str, &str)]) -> request::Parts {
    let mut request = http::Request::builder().method(verb).uri(format!("/s/m{query}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn asked(name: &str, verb: &str, query: &str, headers: &[(&str, &str)]) -> Result<Asked, Refusal> {
    read(&head(verb, query, headers), Some(&method(name)))
}

fn form(name: &str, verb: &str, headers: &[(&str, &str)]) -> Result<Form, u16> {
    let asked = asked(name, verb, "", headers).map(|asked| asked.form);
    asked.map_err(|refusal| refusal.http.map_or(0, |status| status.as_u16()))
}

const JSON: (&str, &str) = ("content-type", "application/json");
const PROTO: (&str, &str) = ("content-type", "application/proto");
const STREAM_JSON: (&str, &str) = ("content-type", "application/connect+json");
const STREAM_PROTO: (&str, &str) = ("content-type", "application/connect+proto");
const SSE: (&str, &str) = ("accept", "text/event-stream");

#[test]
fn the_content_type_says_the_form_and_is_of_the_kind_of_the_method() {
    let (unary, stream) = ("IncrementElicitation", "WatchPauseState");
    assert_eq!(form(unary, "POST", &[JSON]), Ok(Form::Unary(Codec::Json)));
    assert_eq!(form(unary, "POST", &[PROTO]), Ok(Form::Unary(Codec::Proto)));
    assert_eq!(form(stream, "POST", &[STREAM_JSON]), Ok(Form::Stream(Codec::Json)));
    assert_eq!(form(stream, "POST", &[STREAM_PROTO]), Ok(Form::Stream(Codec::Proto)));
    assert_eq!(form(stream, "POST", &[JSON, SSE]), Ok(Form::Events));
    assert_eq!(form(stream, "POST", &[JSON, ("accept", "*/*, Text/Event-Stream;q=0.5")]), Ok(Form::Events));
    for charset in ["application/json; charset=utf-8", "Application/JSON;charset=UTF-8"] {
        assert_eq!(form(unary, "POST", &[("content-type", charset)]), Ok(Form::Unary(Codec::Json)), "{charset}");
    }
    for refused in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "", "a/json"]
    {
        assert_eq!(form(unary, "POST", &[("content-type", refused)]), Err(415), "{refused}");
    }
    for (name, headers) in [
        (unary, &[][..]),
        (unary, &[JSON, JSON]),
        (unary, &[STREAM_JSON]),
        (stream, &[PROTO]),
        (stream, &[JSON]),
        (stream, &[PROTO, SSE]),
    ] {
        assert_eq!(form(name, "POST", headers), Err(415), "{name} {headers:?}");
    }
}

#[test]
fn get_is_for_what_changes_nothing() {
    assert_eq!(form("GetPauseState", "GET", &[]), Ok(Form::Unary(Codec::Json)));
    assert_eq!(form("ListPauseStates", "GET", &[JSON]), Ok(Form::Unary(Codec::Json)));
    assert_eq!(form("WatchPauseState", "GET", &[SSE]), Ok(Form::Events));
    for (name, verb, headers) in [
        ("WatchPauseState", "GET", &[][..]),
        ("IncrementElicitation", "GET", &[]),
        ("DecrementElicitation", "GET", &[JSON]),
        ("RenewElicitation", "GET", &[SSE]),
        ("GetPauseState", "HEAD", &[]),
        ("GetPauseState", "PUT", &[JSON]),
        ("IncrementElicitation", "OPTIONS", &[]),
        ("IncrementElicitation", "DELETE", &[JSON]),
    ] {
        assert_eq!(form(name, verb, headers), Err(405), "{verb} {name}");
    }
    let get = asked("GetPauseState", "GET", "?encoding=proto&message=%0a%01t", &[]).unwrap();
    assert_eq!(
        (get.form, get.codec, &get.message.unwrap()[..]),
        (Form::Unary(Codec::Proto), Codec::Proto, &b"\n\x01t"[..])
    );
    let unknown = asked("GetPauseState", "GET", "?encoding=xml", &[]).unwrap_err();
    assert_eq!(
        unknown.http,
        Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        "it must be like any other content type of a POST"
    );
    let events = asked("WatchPauseState", "GET", "", &[SSE]).unwrap();
    assert_eq!((events.codec, &events.message.unwrap()[..]), (Codec::Json, &b"{}"[..]));
}

#[test]
fn a_path_without_a_method_is_not_found_and_a_stream_of_requests_is_for_grpc() {
    for (verb, headers, status) in [("POST", &[JSON][..], 404), ("GET", &[], 404), ("POST", &[], 415)] {
        let refusal = read(&head(verb, "", headers), None).unwrap_err();
        assert_eq!(refusal.http.unwrap().as_u16(), status, "{verb} {headers:?}");
    }
    assert_eq!(grpc_alone().http, Some(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    let refusal = asked("Watch", "POST", "", &[STREAM_PROTO]).unwrap_err();
    assert_eq!((refusal.status.code(), refusal.http), (Code::Unimplemented, None));
}

#[test]
fn unknown_fields_are_for_clients_of_the_protocol() {
    let is_strict = |verb, query: &str, headers: &[_]| asked("GetPauseState", verb, query, headers).unwrap().is_strict;
    assert!(is_strict("POST", "", &[JSON]) && is_strict("GET", "", &[]));
    assert!(!is_strict("POST", "", &[JSON, ("connect-protocol-version", "1")]));
    assert!(!is_strict("GET", "?connect=v1", &[]));
}

#[test]
fn a_timeout_is_milliseconds() {
    let timeout = |text| asked("GetPauseState", "POST", "", &[JSON, ("connect-timeout-ms", text)]);
    assert_eq!(timeout("0").unwrap().timeout, Some(Duration::ZERO));
    assert_eq!(timeout("9999999999").unwrap().timeout, Some(Duration::from_millis(9_999_999_999)));
    for bad in ["", "-1", "+1", "1s", "10000000000", "1.5", " "] {
        let refusal = timeout(bad).expect_err(bad);
        assert_eq!(refusal.status.code(), Code::InvalidArgument, "{bad}");
        assert!(refusal.status.message().contains("connect-timeout-ms"), "{bad}");
    }
}

#[test]
fn a_compressed_request_is_refused_by_the_name_of_its_encoding_and_in_its_form() {
    let refusal = asked("GetPauseState", "POST", "", &[JSON, ("content-encoding", "gzip")]).unwrap_err();
    assert_eq!((refusal.status.code(), refusal.form), (Code::Unimplemented, Some(Form::Unary(Codec::Json))));
    assert!(refusal.status.message().contains("\"gzip\""), "{}", refusal.status.message());
    let encoding = ("connect-content-encoding", "br");
    let refusal = asked("WatchPauseState", "POST", "", &[STREAM_PROTO, encoding]).unwrap_err();
    assert_eq!(refusal.form, Some(Form::Stream(Codec::Proto)));
    assert!(refusal.status.message().contains("\"br\""), "{}", refusal.status.message());
    assert!(asked("GetPauseState", "POST", "", &[JSON, ("content-encoding", "identity")]).is_ok());
    let version = asked("GetPauseState", "POST", "", &[JSON, ("connect-protocol-version", "2")]).unwrap_err();
    assert!(version.status.message().contains("connect-protocol-version"), "{}", version.status.message());
}
