//! Why a tool cannot do what was requested.

/// What a tool answers that cannot do what it was asked for: what to do instead.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// What a cancelled call is answered with; nobody reads it.
pub(super) fn cancelled() -> Refusal {
    Refusal("cancelled".to_owned())
}
