//! What the statuses of the service say of tokens, which nobody has here: that they build is all that is asked.

#[derive(Clone, Copy)]
pub(crate) struct Role;

impl Role {
    pub(crate) fn name(self) -> &'static str {
        "nobody"
    }
}

#[derive(Debug, thiserror::Error)]
#[allow(dead_code)]
#[error("{self:?}")]
pub(crate) enum Denial {
    Missing,
    Invalid(&'static str),
    Expired,
}
