//! The errors of calls: one variant for each thing that a caller does next. The variant follows from the reason that the
//! server sends (`google.rpc.ErrorInfo`, domain `pausewatch`), never from a message's text.
use crate::causes;
use crate::core::types::InvalidField;
use std::error::Error as _;
use std::{fmt, sync::Arc, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The domain of our `ErrorInfo` details.
const DOMAIN: &str = "pausewatch";

/// The error of a call. [`Error::status`] is its gRPC status.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field is out of its limits. Nothing changed; the same call is always refused.
    #[error("{}", .status.message())]
    InvalidField {
        /// The field's name in the proto.
        field: String,
        /// Its value and what is allowed: `is empty; allowed: 1 to 64 bytes`.
        description: String,
        /// The gRPC status.
        status: Box<Status>,
    },
    /// The request id was used by a call with other content. This call changed nothing.
    #[error("{}", .0.message())]
    RequestIdReused(Box<Status>),
    /// The thread has no open elicitation to close. Nothing changed.
    #[error("{}", .0.message())]
    NoOutstandingElicitation(Box<Status>),
    /// The elicitation never existed on this thread, or was closed too long ago to be remembered. Nothing changed.
    #[error("{}", .0.message())]
    ElicitationUnknown(Box<Status>),
    /// The elicitation was closed before by a decrement. Nothing changed.
    #[error("{}", .0.message())]
    ElicitationReleased(Box<Status>),
    /// The elicitation was closed before by the expiry of its lease. Nothing changed.
    #[error("{}", .0.message())]
    ElicitationExpired(Box<Status>),
    /// The thread has the maximum number of open elicitations. Nothing changed; call again after one is closed.
    #[error("{}", .0.message())]
    TooManyElicitations(Box<Status>),
    /// A limit of the caller, or of all callers together, is reached. Nothing changed. A limit of calls per second was
    /// retried within the deadline.
    #[error("{}", .status.message())]
    LimitExceeded {
        /// The coordinator's name of the limit, for example `streams-per-caller`.
        limit: String,
        /// How long to wait before the next attempt, if the coordinator sent it.
        retry_after: Option<Duration>,
        /// The gRPC status.
        status: Box<Status>,
    },
    /// The token is missing, invalid or expired: see [`Error::reason`]. Nothing changed; get another token.
    #[error("{}", .0.message())]
    Unauthenticated(Box<Status>),
    /// The token does not permit this thread, or its role does not permit this call: see [`Error::reason`]. Nothing changed.
    #[error("{}", .0.message())]
    PermissionDenied(Box<Status>),
    /// The coordinator could not store the change, and retries within the deadline failed too. Call again with the same
    /// request id: the call counts once.
    #[error("{}", .0.message())]
    StoreUnavailable(Box<Status>),
    /// No coordinator responded (none listens there, it is draining, or the connection broke), and retries within the
    /// deadline failed too. The outcome is unknown. Call again with the same request id: the call counts once.
    #[error("{}", .0.message())]
    Unavailable(Box<Status>),
    /// The deadline passed. The outcome is unknown. Call again with the same request id: the call counts once.
    #[error("{}", .0.message())]
    DeadlineExceeded(Box<Status>),
    /// Any other error; see [`Error::code`]. The outcome is unknown.
    #[error("{}", .0.message())]
    Other(Box<Status>),
}

impl Error {
    /// The status that the server sent, or that this library made without a response.
    pub fn status(&self) -> &Status {
        match self {
            Self::InvalidField { status, .. }
            | Self::LimitExceeded { status, .. }
            | Self::RequestIdReused(status)
            | Self::NoOutstandingElicitation(status)
            | Self::ElicitationUnknown(status)
            | Self::ElicitationReleased(status)
            | Self::ElicitationExpired(status)
            | Self::TooManyElicitations(status)
            | Self::Unauthenticated(status)
            | Self::PermissionDenied(status)
            | Self::StoreUnavailable(status)
            | Self::Unavailable(status)
            | Self::DeadlineExceeded(status)
            | Self::Other(status) => status,
        }
    }

    /// The gRPC code.
    pub fn code(&self) -> Code {
        self.status().code()
    }

    /// The server's reason, for example `ELICITATION_EXPIRED`; `None` if it sent none, or did not respond.
    pub fn reason(&self) -> Option<String> {
        reason(self.status())
    }

    /// Whether the same call, with the same request id, may succeed later.
    pub fn is_transient(&self) -> bool {
        let outage = matches!(self, Self::StoreUnavailable(_) | Self::Unavailable(_) | Self::DeadlineExceeded(_));
        outage || self.rate_limit_delay().is_some()
    }

    /// How long to wait if the limit of calls per second was exceeded. `None`: another error, or another limit, which stays
    /// exceeded until something is closed.
    pub(super) fn rate_limit_delay(&self) -> Option<Duration> {
        match self {
            Self::LimitExceeded { limit, retry_after, .. } if limit.starts_with("calls-per-second") => {
                Some(retry_after.unwrap_or(Duration::from_secs(1)))
            }
            _ => None,
        }
    }

    /// Adds the address and the causes to the text of an error if the transport could not reach the address.
    pub(super) fn at(self, address: &dyn fmt::Display) -> Self {
        match self {
            Self::Unavailable(status) if status.source().is_some() => {
                let causes = causes::listed(&status);
                let hint = hint(&causes).unwrap_or_default();
                let mut named = Status::unavailable(format!("{address}: {causes}{hint}"));
                named.set_source(Arc::new(*status));
                Self::Unavailable(Box::new(named))
            }
            other => other,
        }
    }

    /// The error of a deadline that passed in this client.
    pub(crate) fn deadline_exceeded(after: Duration) -> Self {
        Self::DeadlineExceeded(Box::new(Status::deadline_exceeded(format!("no answer within {after:?}"))))
    }

    /// The error of a deadline that passed in this client, in the attempt after the one that ended with `last`. If that
    /// attempt ended with UNAVAILABLE, this one waited for a connection, which explains more than the deadline.
    pub(super) fn deadline_exceeded_after(last: Option<Self>, after: Duration) -> Self {
        let late = Self::deadline_exceeded(after);
        let Some(Self::Unavailable(last)) = last else { return late };
        let mut status = Status::unavailable(format!("{}; {late}", last.message()));
        if last.source().is_some() {
            // `at` makes the text from the causes.
            status
                .set_source(Arc::new(NobodyUntilDeadline { text: format!("{}; {late}", causes::listed(&last)), last }));
        }
        Self::Unavailable(Box::new(status))
    }
}

/// The cause of the last failed attempt, and that the next attempt had no answer until the deadline.
#[derive(Debug)]
struct NobodyUntilDeadline {
    text: String,
    last: Box<Status>,
}

impl fmt::Display for NobodyUntilDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NobodyUntilDeadline {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last.source()
    }
}

/// Parts of transport errors, and hints at their usual causes.
const HINTS: [(&str, &str); 8] = [
    // FRAME_SIZE_ERROR (RFC 9113, 4.2): text such as `HTTP/1.1` or `SSH-2.0`, and the alert of a TLS server, have a
    // length of some megabytes when they are read as a frame.
    (
        "frame with invalid size",
        "; what answers there speaks no HTTP/2 in plain text: it is another program, such as a web server of HTTP/1 or \
         sshd, or a coordinator with TLS, whose address begins with https://",
    ),
    // `openssl req -x509` makes such a certificate by default.
    (
        "CaUsedAsEndEntity",
        "; the server's certificate is one that signs others (CA:TRUE), which is not taken for a server's: \
         have it made with basicConstraints=critical,CA:FALSE",
    ),
    ("UnknownIssuer", "; name the file of its authority with tls_ca (PAUSEWATCH_TLS_CA)"),
    ("not valid for name", "; use a name in the certificate as the host of the address"),
    ("InvalidContentType", "; if the server speaks plain text, its address begins with http://"),
    ("alert: CertificateRequired", "; name a client certificate with tls_cert and tls_key"),
    ("Permission denied", "; only the user of the server can open its Unix socket"),
    ("Operation not permitted", "; a sandbox around this program may forbid connections"),
];

fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().filter(|info| info.domain == DOMAIN).map(|info| info.reason)
}

/// Converts a field that this library refuses before it sends anything to the error that the server would send.
impl From<InvalidField> for Error {
    fn from(invalid: InvalidField) -> Self {
        let message = invalid.to_string();
        let InvalidField { field, was, allowed } = invalid;
        let description = format!("is {was}; allowed: {allowed}");
        let mut details = ErrorDetails::with_bad_request_violation(&field, &description);
        let metadata = [("field", field.clone()), ("was", was), ("allowed", allowed.to_owned())];
        details.set_error_info("INVALID_FIELD", DOMAIN, metadata.map(|(key, value)| (key.to_owned(), value)));
        let status = Box::new(Status::with_error_details(Code::InvalidArgument, message, details));
        Self::InvalidField { field, description, status }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let known = reason(&status);
        let status = Box::new(status);
        match known.as_deref() {
            Some("INVALID_FIELD") => {
                let violation =
                    status.get_details_bad_request().and_then(|bad| bad.field_violations.into_iter().next());
                let (field, description) = violation.map(|v| (v.field, v.description)).unwrap_or_default();
                let description = if description.is_empty() { status.message().to_owned() } else { description };
                Self::InvalidField { field, description, status }
            }
            Some("REQUEST_ID_REUSED") => Self::RequestIdReused(status),
            Some("NO_OUTSTANDING_ELICITATION") => Self::NoOutstandingElicitation(status),
            Some("ELICITATION_UNKNOWN") => Self::ElicitationUnknown(status),
            Some("ELICITATION_RELEASED") => Self::ElicitationReleased(status),
            Some("ELICITATION_EXPIRED") => Self::ElicitationExpired(status),
            Some("TOO_MANY_ELICITATIONS") => Self::TooManyElicitations(status),
            Some("LIMIT_EXCEEDED") => {
                let metadata = status.get_details_error_info().map(|info| info.metadata).unwrap_or_default();
                let limit = metadata.get("limit").cloned().unwrap_or_default();
                let retry_after = status.get_details_retry_info().and_then(|info| info.retry_delay);
                Self::LimitExceeded { limit, retry_after, status }
            }
            Some("STORE_UNAVAILABLE") => Self::StoreUnavailable(status),
            _ => match status.code() {
                Code::Unavailable => Self::Unavailable(status),
                Code::DeadlineExceeded => Self::DeadlineExceeded(status),
                // Determined by the code alone, because a proxy in front of the server may require tokens too.
                Code::Unauthenticated => Self::Unauthenticated(status),
                Code::PermissionDenied => Self::PermissionDenied(status),
                _ if status.source().is_some() => Self::Unavailable(Box::new(connection_lost(&status))),
                _ => Self::Other(status),
            },
        }
    }
}

/// The status of a broken connection. A status with a source was made by this client: the transport failed before the
/// response was complete. tonic's code depends on the layer (UNKNOWN, CANCELLED, INTERNAL); callers need only
/// UNAVAILABLE.
fn connection_lost(status: &Status) -> Status {
    let causes = causes::listed(status);
    let hint = hint(&causes).unwrap_or_default();
    Status::unavailable(format!("connection lost: {causes}{hint}"))
}

/// Advice about a failed connection, if the text of its error shows the cause.
pub(crate) fn hint(said: &str) -> Option<&'static str> {
    HINTS.iter().find(|(part, _)| said.contains(part)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: Code, reason: &str, domain: &str) -> Status {
        let details = ErrorDetails::with_error_info(reason, domain, [("thread_id".to_owned(), "t".to_owned())]);
        Status::with_error_details(code, "in words", details)
    }

    #[test]
    fn variants_follow_the_reason_not_the_code_or_text() {
        let error = Error::from(refused(Code::NotFound, "ELICITATION_EXPIRED", DOMAIN));
        assert!(matches!(error, Error::ElicitationExpired(_)), "{error:?}");
        assert_eq!((error.code(), error.reason().as_deref()), (Code::NotFound, Some("ELICITATION_EXPIRED")));
        assert_eq!(error.to_string(), "in words");

        let foreign = Error::from(refused(Code::NotFound, "ELICITATION_EXPIRED", "example.com"));
        assert!(matches!(foreign, Error::Other(_)) && foreign.reason().is_none(), "{foreign:?}");
        assert!(matches!(Error::from(Status::not_found("ELICITATION_EXPIRED")), Error::Other(_)));
    }

    #[test]
    fn an_expired_token_is_unauthenticated_and_not_transient() {
        let expired = Error::from(refused(Code::Unauthenticated, "TOKEN_EXPIRED", DOMAIN));
        assert!(matches!(expired, Error::Unauthenticated(_)) && !expired.is_transient(), "{expired:?}");
        assert_eq!(expired.reason().as_deref(), Some("TOKEN_EXPIRED"));
        assert!(matches!(Error::from(Status::permission_denied("by a proxy")), Error::PermissionDenied(_)));
    }

    #[test]
    fn a_failed_store_and_a_lost_connection_are_different_and_both_transient() {
        let store = Error::from(refused(Code::Unavailable, "STORE_UNAVAILABLE", DOMAIN));
        assert!(matches!(store, Error::StoreUnavailable(_)) && store.is_transient());
        let draining = Error::from(Status::unavailable("draining"));
        assert!(matches!(draining, Error::Unavailable(_)) && draining.is_transient());
        let mut broken = Status::unknown("transport error");
        broken.set_source(std::sync::Arc::new(std::io::Error::other("reset by peer")));
        let broken = Error::from(broken);
        assert!(matches!(broken, Error::Unavailable(_)), "{broken:?}");
        assert_eq!((broken.code(), broken.to_string().as_str()), (Code::Unavailable, "connection lost: reset by peer"));
        assert!(!Error::from(Status::unknown("the server's own words")).is_transient());
    }

    #[test]
    fn only_the_limit_of_calls_per_second_is_transient() {
        let met = |limit: &str| {
            let metadata = [("limit".to_owned(), limit.to_owned())];
            let mut details = ErrorDetails::with_error_info("LIMIT_EXCEEDED", DOMAIN, metadata);
            details.set_retry_info(Some(Duration::from_millis(20)));
            Error::from(Status::with_error_details(Code::ResourceExhausted, "in words", details))
        };
        let calls = met("calls-per-second-per-caller");
        assert_eq!((calls.is_transient(), calls.rate_limit_delay()), (true, Some(Duration::from_millis(20))));
        let open = met("open-elicitations");
        assert!(!open.is_transient() && open.rate_limit_delay().is_none());
        let Error::LimitExceeded { limit, retry_after, .. } = &open else { panic!("{open:?}") };
        assert_eq!((limit.as_str(), *retry_after), ("open-elicitations", Some(Duration::from_millis(20))));
    }

    #[test]
    fn a_field_refused_by_the_library_gives_the_same_error_as_one_refused_by_the_server() {
        let invalid = InvalidField::new("thread_id", "empty", "1 to 256 bytes");
        let local = Error::from(invalid.clone());
        assert_eq!(local.to_string(), invalid.to_string());
        let parsed = Error::from(local.status().clone());
        let Error::InvalidField { field, description, .. } = &parsed else { panic!("{parsed:?}") };
        assert_eq!((field.as_str(), description.as_str()), ("thread_id", "is empty; allowed: 1 to 256 bytes"));
        assert_eq!((parsed.reason().as_deref(), parsed.to_string()), (Some("INVALID_FIELD"), local.to_string()));
    }
}
