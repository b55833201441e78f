//! Settings that another process names: they may be hostile, or about another thread.
//!
//! 1. No file that they name is read.
//! 2. No credential of this process goes to an address of theirs.
use super::{Environment, Settings, THREAD_VARIABLES};
use crate::client::ConfigError;
use std::env;

impl Settings {
    /// Like [`Settings::from_env`], for a process whose environment may be that of another thread, such as a child of a daemon:
    /// its variables do not name the thread. The config file may.
    pub(crate) fn without_thread_of_environment() -> Result<Self, ConfigError> {
        Self::load(None, &|name| env::var_os(name).filter(|_| !THREAD_VARIABLES.contains(&name)))
    }

    /// The address, the thread and the token in the variables of another process, without the files that these name: they
    /// would be read with the rights of this process.
    pub(crate) fn of_other_process(environment: Environment<'_>) -> Result<Self, ConfigError> {
        let Self { address, thread_id, thread_source, token, .. } = Self::from_variables(environment)?;
        Ok(Self { address, thread_id, thread_source, token, ..Self::default() })
    }

    /// The settings of `self`, which may be hostile; those that `self` does not have come from `other`. The credentials of
    /// `other` are for the coordinator of `other`: with another address, only the thread comes from `other`.
    #[must_use]
    pub(crate) fn or_at_same_address(self, other: Self) -> Self {
        match &self.address {
            Some(address) if *address != other.address.clone().unwrap_or_default() => {
                let thread = Self { thread_id: other.thread_id, thread_source: other.thread_source, ..Self::default() };
                self.or(thread)
            }
            _ => self.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::all;
    use super::*;
    use crate::client::Token;

    #[test]
    fn credentials_are_for_the_address_of_their_source() {
        let own = Settings { tls_cert: None, tls_key: None, ..all() };
        let thread =
            Settings { thread_id: own.thread_id.clone(), thread_source: own.thread_source, ..Settings::default() };
        let at = |address: &str| Settings { address: address.parse().ok(), ..Settings::default() };
        for other in ["https://other:1", "127.0.0.1:7420", "unix:/s", "https://h:1,https://other:1"] {
            let expected = Settings { address: at(other).address, ..thread.clone() };
            assert_eq!(at(other).or_at_same_address(own.clone()), expected, "{other}");
        }
        assert_eq!(at("https://h:1").or_at_same_address(own.clone()), own);
        assert_eq!(Settings::default().or_at_same_address(own.clone()), own);
        // Without an address of its own, the other source is about the default address.
        let token = Settings { token: Token::new("s3cret").ok(), ..Settings::default() };
        assert_eq!(at("127.0.0.1:7420").or_at_same_address(token.clone()).token, token.token);
        assert_eq!(at("127.0.0.1:7421").or_at_same_address(token).token, None);
    }

    #[test]
    fn another_process_names_no_files() {
        let variables = |name: &str| {
            Some(match name {
                "PAUSEWATCH_ADDRESS" => "https://h:1".into(),
                "PAUSEWATCH_TOKEN" => "s3cret".into(),
                "CODEX_THREAD_ID" => "t".into(),
                "PAUSEWATCH_TOKEN_FILE" | "PAUSEWATCH_TLS_CA" | "PAUSEWATCH_TLS_CERT" | "PAUSEWATCH_TLS_KEY" => {
                    "/f".into()
                }
                _ => return None,
            })
        };
        let expected =
            Settings { thread_source: Some("CODEX_THREAD_ID"), tls_ca: None, tls_cert: None, tls_key: None, ..all() };
        assert_eq!(Settings::of_other_process(&variables), Ok(expected));
    }
}
