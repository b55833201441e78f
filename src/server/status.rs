//! Converts refusals to gRPC statuses: the code, an `ErrorInfo` with every dynamic part (AIP-193), and further details.
use crate::core::types::{InvalidField, MAX_OPEN, ThreadId};
use crate::core::{Exceeded, Refusal};
use crate::proto::v1;
use crate::server::access::{Denial, Role};
use std::collections::HashMap;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Domain of every `ErrorInfo`.
pub(crate) const DOMAIN: &str = "pausewatch";
/// The retry delay after the store has refused a change.
const RETRY_STORE_AFTER: Duration = Duration::from_secs(1);

/// The longest quotation of a client's text, in bytes: a client can make an answer as long as its header, and HTTP/2
/// triples what is escaped in it.
const MAX_QUOTED: usize = 100;

/// The text of a client in an answer: escaped, then cut.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        let escaped = c.escape_debug().to_string();
        if quoted.len() + escaped.len() > MAX_QUOTED {
            return quoted + "…\"";
        }
        quoted += &escaped;
    }
    quoted + "\""
}

pub(crate) fn of_field(invalid: InvalidField) -> Status {
    of(&Refusal::InvalidField(invalid))
}

pub(crate) fn of_limit(exceeded: Exceeded) -> Status {
    of(&Refusal::LimitExceeded(exceeded))
}

pub(crate) fn of(refusal: &Refusal) -> Status {
    let (code, reason, metadata): (Code, &str, &[(&str, String)]) = match refusal {
        Refusal::InvalidField(InvalidField { field, was, allowed }) => {
            let metadata = &[("field", field.clone()), ("was", was.clone()), ("allowed", (*allowed).to_owned())];
            return with_details(refusal, Code::InvalidArgument, "INVALID_FIELD", metadata, |details| {
                details.add_bad_request_violation(field, format!("is {was}; allowed: {allowed}"));
            });
        }
        Refusal::NoOutstanding { thread } => {
            let metadata = &[("thread_id", thread.to_string()), ("count", "0".to_owned())];
            return with_details(
                refusal,
                Code::FailedPrecondition,
                "NO_OUTSTANDING_ELICITATION",
                metadata,
                |details| {
                    let description = "a decrement needs an open elicitation, and the count is 0";
                    details.add_precondition_failure_violation("COUNT", thread.as_str(), description);
                },
            );
        }
        Refusal::StoreUnavailable { why } => {
            let metadata = &[("why", (*why).to_owned())];
            return with_details(refusal, Code::Unavailable, "STORE_UNAVAILABLE", metadata, |details| {
                details.set_retry_info(Some(RETRY_STORE_AFTER));
            });
        }
        // Without `ErrorInfo`, because its reason would mean that nothing was changed, and without a retry delay,
        // because a client should try another address at once.
        Refusal::NotLeading { .. } => return Status::unavailable(refusal.to_string()),
        Refusal::LimitExceeded(exceeded) => {
            let Exceeded { limit, was, allowed, caller, retry_after } = exceeded;
            let caller = caller.as_ref().map(|caller| ("caller", caller.to_string()));
            let numbers =
                [("limit", limit.name().to_owned()), ("was", was.to_string()), ("allowed", allowed.to_string())];
            let metadata: Vec<_> = numbers.into_iter().chain(caller).collect();
            return with_details(refusal, Code::ResourceExhausted, "LIMIT_EXCEEDED", &metadata, |details| {
                details.set_retry_info(Some(*retry_after));
            });
        }
        Refusal::RequestIdReused { thread, request_id } => (
            Code::InvalidArgument,
            "REQUEST_ID_REUSED",
            &[("thread_id", thread.to_string()), ("request_id", request_id.to_string())],
        ),
        Refusal::Unknown { thread, elicitation_id } => (
            Code::NotFound,
            "ELICITATION_UNKNOWN",
            &[("thread_id", thread.to_string()), ("elicitation_id", elicitation_id.to_string())],
        ),
        Refusal::Released { thread, elicitation_id, ago_ms } => (
            Code::NotFound,
            "ELICITATION_RELEASED",
            &[
                ("thread_id", thread.to_string()),
                ("elicitation_id", elicitation_id.to_string()),
                ("closed_ms_ago", ago_ms.to_string()),
            ],
        ),
        Refusal::Expired { thread, elicitation_id, ago_ms } => (
            Code::NotFound,
            "ELICITATION_EXPIRED",
            &[
                ("thread_id", thread.to_string()),
                ("elicitation_id", elicitation_id.to_string()),
                ("closed_ms_ago", ago_ms.to_string()),
                ("ended_by", "lease".to_owned()),
            ],
        ),
        // This is the reason of an expired lease too: both mean the same for the holder, and every client knows it.
        Refusal::Capped { thread, elicitation_id, ago_ms } => (
            Code::NotFound,
            "ELICITATION_EXPIRED",
            &[
                ("thread_id", thread.to_string()),
                ("elicitation_id", elicitation_id.to_string()),
                ("closed_ms_ago", ago_ms.to_string()),
                ("ended_by", "max_pause".to_owned()),
            ],
        ),
        Refusal::TooMany { thread } => (
            Code::ResourceExhausted,
            "TOO_MANY_ELICITATIONS",
            &[("thread_id", thread.to_string()), ("limit", MAX_OPEN.to_string())],
        ),
    };
    with_details(refusal, code, reason, metadata, |_| ())
}

fn with_details(
    refusal: &Refusal,
    code: Code,
    reason: &str,
    metadata: &[(&str, String)],
    more: impl FnOnce(&mut ErrorDetails),
) -> Status {
    let metadata: HashMap<_, _> = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
    more(&mut details);
    Status::with_error_details(code, refusal.to_string(), details)
}

/// The caller is unknown.
pub(crate) fn of_denial(denial: &Denial) -> Status {
    let (reason, why) = match denial {
        Denial::Missing => ("TOKEN_MISSING", None),
        Denial::Invalid(why) => ("TOKEN_INVALID", Some(*why)),
        Denial::Expired => ("TOKEN_EXPIRED", None),
    };
    let metadata = why.map(|why| ("why".to_owned(), why.to_owned()));
    let details = ErrorDetails::with_error_info(reason, DOMAIN, metadata.into_iter().collect::<HashMap<_, _>>());
    Status::with_error_details(Code::Unauthenticated, denial.to_string(), details)
}

/// The caller's role does not allow the call.
pub(crate) fn forbidden_to_role(role: Role, needed: Role) -> Status {
    let (role, needed) = (role.name(), needed.name());
    let message = format!("the token has the role {role}, and this call needs {needed}: get a token with that role");
    forbidden(message, "ROLE_FORBIDDEN", [("role", role), ("needed", needed)])
}

/// The caller's token does not open this thread. The answer does not reveal whether the thread exists.
pub(crate) fn forbidden_thread(thread: &ThreadId) -> Status {
    let message = format!("the token does not open thread {thread:?}: get one that does");
    forbidden(message, "THREAD_FORBIDDEN", [("thread_id", thread.as_str())])
}

fn forbidden<const N: usize>(message: String, reason: &str, metadata: [(&str, &str); N]) -> Status {
    let metadata: HashMap<_, _> = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
    Status::with_error_details(Code::PermissionDenied, message, details)
}

/// A refused request of a stream that continues. `thread_ids`: those that the token does not open.
pub(crate) fn refusal(request: u64, status: &Status, thread_ids: Vec<String>) -> v1::Refusal {
    let details = status.get_error_details();
    v1::Refusal {
        request,
        code: status.code() as i32,
        reason: details.error_info().map(|info| info.reason.clone()).unwrap_or_default(),
        message: status.message().to_owned(),
        thread_ids,
        retry_after: details.retry_info().and_then(|info| info.retry_delay?.try_into().ok()),
    }
}

/// The engine returned an answer of another kind than the call: a bug.
pub(crate) fn mixed_up() -> Status {
    Status::internal("the answer does not belong to the call; please report this")
}

/// A call arrived without access control although it is configured: a bug. The call is refused.
pub(crate) fn unguarded() -> Status {
    Status::internal("the call was not authorized; please report this")
}

/// The end of a watch when the server stops, or when a replica may not show the latest state.
pub(crate) fn draining() -> Status {
    Status::unavailable(
        "the server is stopping, or may not know the latest state: watch again, there or at another one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_escaped_and_cut() {
        assert_eq!(quoted("gzip \"x\"\n"), r#""gzip \"x\"\n""#);
        for long in ["a", "\"", "\u{202e}", "ä", "\0"] {
            let quoted = quoted(&long.repeat(4_000));
            assert!(quoted.ends_with("…\"") && (90..=104).contains(&quoted.len()), "{} {quoted}", quoted.len());
        }
    }
}
