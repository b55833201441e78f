//! The error of a tool call.

/// Why a tool failed, as a text that the model reads: it says what to do instead.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The response to a cancelled call, which the client ignores.
pub(super) fn cancelled() -> Refusal {
    Refusal("cancelled".to_owned())
}
