//! How a client connects.
use super::address::Address;
use super::config_error::ConfigError;
use super::credentials::{Tls, Token};
use std::time::Duration;

/// How long a call may take, retries included, by default.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);

/// How a [`Client`](super::Client) connects and how long it is patient.
///
/// ```
/// # use pausewatch::client::Config;
/// # use std::time::Duration;
/// let config = Config { deadline: Duration::from_secs(1), ..Config::default() };
/// assert_eq!(config.address.to_string(), "127.0.0.1:7420");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the coordinator listens. Default: `127.0.0.1:7420`.
    pub address: Address,
    /// How long a call may take, retries included; the server is told as well. Default: 5 s. A watch has none, except
    /// for its first answer.
    pub deadline: Duration,
    /// How often a call that found nobody (UNAVAILABLE) is made again within its deadline. Default: as often as fits. A
    /// program that would rather know at once that no coordinator runs sets it to 0.
    pub retries: usize,
    /// Sent with every call. Never in plain text, except to this machine.
    pub token: Option<Token>,
    /// For an [`Address::Tls`]; `None`: it trusts whom the system trusts.
    pub tls: Option<Tls>,
}

impl Default for Config {
    fn default() -> Self {
        Self { address: Address::default(), deadline: DEFAULT_DEADLINE, retries: usize::MAX, token: None, tls: None }
    }
}

impl Config {
    /// Whether this may be: no token to strangers, and no TLS that would not be used.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Self { address, .. } = self;
        let encrypted = address.is_encrypted();
        if self.tls.is_some() && !encrypted {
            return Err(ConfigError::new(format!(
                "tls_ca, tls_cert and tls_key need an address that begins with https://, not {address}"
            )));
        }
        if self.token.is_some() && !encrypted && !address.is_local() {
            return Err(ConfigError::new(format!(
                "the token would be sent to {address} in plain text: use https://, a Unix socket or loopback"
            )));
        }
        Ok(())
    }
}
