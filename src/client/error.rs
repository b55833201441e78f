//! What a call can end with: one variant for each thing that a caller does next, found by the machine-readable reason
//! that the server sends (`google.rpc.ErrorInfo`, domain `pausewatch`), never by a message's text.
use std::error::Error as _;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The domain of the reasons.
const DOMAIN: &str = "pausewatch";

/// Why a call failed. The gRPC status is kept: [`Error::status`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field is out of its limits. Nothing changed; the same call will always be refused.
    #[error("{description}")]
    InvalidField {
        /// The field, as the proto names it.
        field: String,
        /// What it was and what is allowed.
        description: String,
        /// What the server sent.
        status: Box<Status>,
    },
    /// The request id was used by a call with other content. Nothing changed by this call.
    #[error("{}", .0.message())]
    RequestIdReused(Box<Status>),
    /// A decrement at count 0: there is nothing to close. Nothing changed.
    #[error("{}", .0.message())]
    NoOutstandingElicitation(Box<Status>),
    /// The named elicitation never was on this thread, or was closed so long ago that it is forgotten. Nothing changed.
    #[error("{}", .0.message())]
    ElicitationUnknown(Box<Status>),
    /// The named elicitation was closed before, by a decrement. Nothing changed.
    #[error("{}", .0.message())]
    ElicitationReleased(Box<Status>),
    /// The named elicitation was closed before, by the end of its lease. Nothing changed.
    #[error("{}", .0.message())]
    ElicitationExpired(Box<Status>),
    /// The thread has as many open elicitations as are allowed. Nothing changed; there is room when one closes.
    #[error("{}", .0.message())]
    TooManyElicitations(Box<Status>),
    /// The caller, or all callers together, have as much as the coordinator lets them have. Nothing changed. For a limit of
    /// calls a second, retries within the deadline did not help.
    #[error("{}", .status.message())]
    LimitExceeded {
        /// Which limit, as the coordinator names it: `streams-per-caller`.
        limit: String,
        /// When another try may help.
        retry_after: Option<Duration>,
        /// What the server sent.
        status: Box<Status>,
    },
    /// The token is missing, wrong or has expired: see [`Error::reason`]. Nothing changed; get another token.
    #[error("{}", .0.message())]
    Unauthenticated(Box<Status>),
    /// The token does not open this thread, or its role may not do this: see [`Error::reason`]. Nothing changed.
    #[error("{}", .0.message())]
    PermissionDenied(Box<Status>),
    /// The coordinator could not store the change, and retries within the deadline did not help. Call again with the
    /// same request id: it counts once.
    #[error("{}", .0.message())]
    StoreUnavailable(Box<Status>),
    /// No coordinator answered: none listens there, it is draining, or the connection broke, and retries within the
    /// deadline did not help. The outcome is unknown. Call again with the same request id: it counts once.
    #[error("{}", .0.message())]
    Unavailable(Box<Status>),
    /// The deadline passed. The outcome is unknown. Call again with the same request id: it counts once.
    #[error("{}", .0.message())]
    DeadlineExceeded(Box<Status>),
    /// Anything else; see the code. Whether something changed is unknown.
    #[error("{}", .0.message())]
    Other(Box<Status>),
}

impl Error {
    /// The status as it came, or as this library made it when nothing came.
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

    /// The server's reason, for example `ELICITATION_EXPIRED`; `None` when it gave none, or never answered.
    pub fn reason(&self) -> Option<String> {
        reason(self.status())
    }

    /// Whether the call may succeed if it is made again just so, with the same request id.
    pub fn is_transient(&self) -> bool {
        let outage = matches!(self, Self::StoreUnavailable(_) | Self::Unavailable(_) | Self::DeadlineExceeded(_));
        outage || self.call_less_often().is_some()
    }

    /// How long to wait, if it is only that there were too many calls in this second. Any other limit is met until
    /// somebody closes something.
    pub(super) fn call_less_often(&self) -> Option<Duration> {
        match self {
            Self::LimitExceeded { limit, retry_after, .. } if limit.starts_with("calls-per-second") => {
                Some(retry_after.unwrap_or(Duration::from_secs(1)))
            }
            _ => None,
        }
    }

    /// A field that this library refuses before it sends anything, worded as the server words it.
    pub(crate) fn invalid_field(field: &str, description: String) -> Self {
        let mut details = tonic_types::ErrorDetails::with_bad_request_violation(field, &description);
        details.set_error_info("INVALID_FIELD", DOMAIN, [("field".to_owned(), field.to_owned())]);
        let status = Status::with_error_details(Code::InvalidArgument, description.clone(), details);
        Self::InvalidField { field: field.to_owned(), description, status: Box::new(status) }
    }

    /// A deadline that passed on this side.
    pub(crate) fn deadline(after: Duration) -> Self {
        Self::DeadlineExceeded(Box::new(Status::deadline_exceeded(format!("no answer within {after:?}"))))
    }
}

/// What a transport says, and what that mostly means.
const HINTS: [(&str, &str); 2] = [
    // FRAME_SIZE_ERROR (RFC 9113, 4.2): what a TLS server answers to plain text, read as a frame, has about a megabyte.
    ("frame with invalid size", "; if the server speaks TLS, its address begins with https://"),
    // What `openssl req -x509` makes unless told otherwise.
    (
        "CaUsedAsEndEntity",
        "; the server's certificate is one that signs others (CA:TRUE), which is not taken for a server's: \
         have it made with basicConstraints=critical,CA:FALSE",
    ),
];

fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().filter(|info| info.domain == DOMAIN).map(|info| info.reason)
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
                Code::Unavailable => Self::Unavailable(match hint(status.message()) {
                    Some(hint) => Box::new(Status::unavailable(format!("{}{hint}", status.message()))),
                    None => status,
                }),
                Code::DeadlineExceeded => Self::DeadlineExceeded(status),
                // By their code: a proxy in front of the server may ask for tokens as well.
                Code::Unauthenticated => Self::Unauthenticated(status),
                Code::PermissionDenied => Self::PermissionDenied(status),
                _ if status.source().is_some() => Self::Unavailable(Box::new(broken(&status))),
                _ => Self::Other(status),
            },
        }
    }
}

/// A status with a source was made on this side: the transport failed before an answer was whole. tonic names the code
/// after the layer that noticed (UNKNOWN, CANCELLED, INTERNAL); to a caller it is one thing.
fn broken(status: &Status) -> Status {
    let mut causes = Vec::new();
    let mut source = status.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !causes.iter().any(|known: &String| known.contains(&text)) {
            causes.push(text);
        }
        source = cause.source();
    }
    let causes = causes.join(": ");
    let hint = hint(&causes).unwrap_or_default();
    Status::unavailable(format!("connection lost: {causes}{hint}"))
}

fn hint(said: &str) -> Option<&'static str> {
    HINTS.iter().find(|(part, hint)| said.contains(part) && !said.ends_with(hint)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

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
    fn who_needs_another_token_is_told_so() {
        let expired = Error::from(refused(Code::Unauthenticated, "TOKEN_EXPIRED", DOMAIN));
        assert!(matches!(expired, Error::Unauthenticated(_)) && !expired.is_transient(), "{expired:?}");
        assert_eq!(expired.reason().as_deref(), Some("TOKEN_EXPIRED"));
        assert!(matches!(Error::from(Status::permission_denied("by a proxy")), Error::PermissionDenied(_)));
    }

    #[test]
    fn a_store_that_cannot_write_and_a_lost_connection_are_told_apart_and_both_transient() {
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
    fn only_the_limit_of_calls_a_second_is_worth_another_try() {
        let met = |limit: &str| {
            let metadata = [("limit".to_owned(), limit.to_owned())];
            let mut details = ErrorDetails::with_error_info("LIMIT_EXCEEDED", DOMAIN, metadata);
            details.set_retry_info(Some(Duration::from_millis(20)));
            Error::from(Status::with_error_details(Code::ResourceExhausted, "in words", details))
        };
        let calls = met("calls-per-second-per-caller");
        assert_eq!((calls.is_transient(), calls.call_less_often()), (true, Some(Duration::from_millis(20))));
        let open = met("open-elicitations");
        assert!(!open.is_transient() && open.call_less_often().is_none());
        let Error::LimitExceeded { limit, retry_after, .. } = &open else { panic!("{open:?}") };
        assert_eq!((limit.as_str(), *retry_after), ("open-elicitations", Some(Duration::from_millis(20))));
    }

    #[test]
    fn a_refusal_made_here_reads_as_the_servers_does() {
        let made = Error::invalid_field("thread_id", "thread_id is empty".to_owned());
        let read = Error::from(made.status().clone());
        let Error::InvalidField { field, description, .. } = &read else { panic!("{read:?}") };
        assert_eq!((field.as_str(), description.as_str()), ("thread_id", "thread_id is empty"));
        assert_eq!(read.reason().as_deref(), Some("INVALID_FIELD"));
    }
}
