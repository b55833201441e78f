//! What is wrong with a configuration.
use std::fmt::Display;
use std::path::Path;

/// An error in the environment, in the config file or in a [`Config`](super::Config); the text says what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn in_file(path: &Path, why: impl Display) -> Self {
        Self(format!("config file {}: {why}", path.display()))
    }
}
