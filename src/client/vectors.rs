//! Reads `clients/vectors`, the test cases that all client libraries share, for unit tests.
use serde_json::Value;
use std::{collections::HashMap, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The cases of a file.
pub(super) fn cases(file: &str) -> Vec<Value> {
    let path = format!("{}/clients/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the file is part of the repository");
    let mut content: Value = serde_json::from_str(&text).expect("the file is JSON");
    let Value::Array(cases) = content["cases"].take() else { panic!("{file} has cases") };
    assert!(!cases.is_empty());
    cases
}

/// Fails if the object has a key that the test does not know.
#[track_caller]
pub(super) fn check_keys(object: &Value, known: &[&str]) {
    let unknown: Vec<_> =
        object.as_object().expect("cases are objects").keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?} in {object}");
}

pub(super) fn milliseconds(object: &Value, key: &str) -> Option<i64> {
    object.get(key).map(|value| value.as_i64().unwrap_or_else(|| panic!("{key} in {object}")))
}

pub(super) fn duration(object: &Value, key: &str) -> Option<Duration> {
    milliseconds(object, key).map(|value| Duration::from_millis(value.try_into().expect("durations are not negative")))
}

/// A status of the server. `code`: as the gRPC specification spells it.
pub(super) fn status(code: &str, reason: Option<&str>, limit: Option<&str>, retry_after: Option<Duration>) -> Status {
    let code = match code {
        "DEADLINE_EXCEEDED" => Code::DeadlineExceeded,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "INTERNAL" => Code::Internal,
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "NOT_FOUND" => Code::NotFound,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        "UNAVAILABLE" => Code::Unavailable,
        other => panic!("{other} is not known here"),
    };
    let mut details = ErrorDetails::new();
    if let Some(reason) = reason {
        let limit = limit.map(|limit| ("limit".to_owned(), limit.to_owned()));
        details.set_error_info(reason, "pausewatch", limit.into_iter().collect::<HashMap<_, _>>());
    }
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code, "in words", details)
}
