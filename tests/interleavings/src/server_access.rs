//! The access statuses of the service. No case has tokens: this only has to compile.

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
