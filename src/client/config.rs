//! How a client connects: the address, the credentials and the deadlines.
use super::{Address, ConfigError, Tls, Token, TokenSource};
use std::time::Duration;

/// The default deadline of a call, retries included.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);

/// How a [`Client`](super::Client) connects, and how long it waits.
///
/// ```
/// # use pausewatch::client::Config;
/// # use std::time::Duration;
/// let config = Config { deadline: Duration::from_secs(1), ..Config::default() };
/// assert_eq!(config.address.to_string(), "127.0.0.1:7420");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the coordinator listens, or each of its replicas. Default: `127.0.0.1:7420`.
    pub address: Address,
    /// The deadline of a call, retries included; it is sent to the server too. Default: 5 s. For a watch it applies to
    /// opening the stream only.
    pub deadline: Duration,
    /// The maximum number of retries of a call within its deadline, when the coordinator is unavailable or limits calls per
    /// second. Default: unlimited. 0 reports at once that no coordinator runs.
    pub retries: usize,
    /// The token that is sent with every call; in plain text only to this machine.
    pub token: Option<Token>,
    /// The source of the token, which is asked for every call. Used instead of `token`.
    pub token_source: Option<TokenSource>,
    /// TLS settings, for addresses with TLS only. `None`: trusts the system's certificate authorities.
    pub tls: Option<Tls>,
}

impl Default for Config {
    fn default() -> Self {
        let (address, token, token_source, tls) = Default::default();
        Self { address, deadline: DEFAULT_DEADLINE, retries: usize::MAX, token, token_source, tls }
    }
}

impl Config {
    /// Refuses a token that would be sent to another machine in plain text, and TLS settings that would not be used.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Self { address, .. } = self;
        if self.tls.is_some() {
            check_tls(address)?;
        }
        if (self.token.is_some() || self.token_source.is_some()) && !address.is_encrypted() && !address.is_local() {
            return Err(ConfigError::new(format!(
                "the token would be sent to {address} in plain text: use https://, a Unix socket or loopback"
            )));
        }
        Ok(())
    }
}

/// Refuses TLS settings for an address in plain text.
pub(super) fn check_tls(address: &Address) -> Result<(), ConfigError> {
    match address.is_encrypted() {
        true => Ok(()),
        false => Err(ConfigError::new(format!(
            "tls_ca, tls_cert and tls_key need an address that begins with https://; {address} is plain text"
        ))),
    }
}
