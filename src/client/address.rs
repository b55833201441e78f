//! Where a coordinator listens, as one string.
//!
//! `host:port` (an IPv6 host in brackets), `http://host[:port]`, `unix:PATH` (also `unix:///PATH`). `https://` is known
//! and refused until this library speaks TLS: falling back to plain text would be worse than an error.
//! Printed and parsed again, an address is the same one.
use std::{fmt, path::PathBuf, str::FromStr};
use tonic::codegen::http::Uri;

/// The port that a coordinator listens on by default.
const DEFAULT: &str = "127.0.0.1:7420";

/// Where a coordinator listens.
///
/// ```
/// use pausewatch::client::Address;
///
/// assert_eq!(Address::default().to_string(), "127.0.0.1:7420");
/// assert!("unix:/run/pausewatch.sock".parse::<Address>().is_ok());
/// assert!("localhost".parse::<Address>().is_err()); // no port
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP address in plain text: `host:port`, with an IPv6 host in brackets.
    Tcp(String),
    /// A Unix socket. A relative path is taken from the working directory at each connect.
    Unix(PathBuf),
}

/// Why a string is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// `https://`: this build has no TLS.
    #[error("address {0:?}: https:// needs TLS, which this version does not have yet")]
    TlsUnsupported(String),
    /// `host` without `:port`.
    #[error("address {0:?}: the port is missing; write host:port, for example {DEFAULT}")]
    PortMissing(String),
    /// Anything else that cannot be read.
    #[error("address {address:?}: {problem}; write host:port, http://host:port or unix:PATH")]
    Malformed {
        /// What was given.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Default for Address {
    fn default() -> Self {
        Self::Tcp(DEFAULT.to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => f.write_str(authority),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(s: &str) -> Result<Self, AddressError> {
        let malformed = |problem: &str| AddressError::Malformed { address: s.to_owned(), problem: problem.to_owned() };
        if let Some(path) = s.strip_prefix("unix:") {
            // unix:///PATH has an empty host, as file:///PATH has; unix://HOST/PATH would mean another machine.
            let path = match path.strip_prefix("//") {
                Some(absolute) if absolute.starts_with('/') => absolute,
                Some(_) => return Err(malformed("unix:// must be followed by an absolute path")),
                None => path,
            };
            return match path.is_empty() {
                true => Err(malformed("the path is missing")),
                false if path.contains('\0') => Err(malformed("a path has no NUL")),
                false => Ok(Self::Unix(path.into())),
            };
        }
        let (bare, default_port) = match s.split_once("://") {
            None => (s, None),
            Some(("http", rest)) => (rest.strip_suffix('/').unwrap_or(rest), Some(80)),
            Some(("https", _)) => return Err(AddressError::TlsUnsupported(s.to_owned())),
            Some((scheme, _)) => return Err(malformed(&format!("the scheme {scheme:?} is unknown"))),
        };
        if bare.is_empty() {
            return Err(malformed("the host is missing"));
        }
        if bare.contains(['/', '?', '#', '@']) {
            return Err(malformed("there is more in it than a host and a port"));
        }
        let uri: Uri = format!("http://{bare}/").parse().map_err(|error| malformed(&format!("{error}")))?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| malformed("the host is missing"))?;
        // Of an unreadable port, Uri says only that there is none.
        let after_host = bare.strip_prefix(host).unwrap_or_default();
        let port = match (after_host.strip_prefix(':'), default_port) {
            (Some(port), _) => port.parse().ok().filter(|port| *port > 0),
            (None, Some(port)) => Some(port),
            (None, None) => return Err(AddressError::PortMissing(s.to_owned())),
        };
        let port: u16 = port.ok_or_else(|| malformed("the port is no number from 1 to 65535"))?;
        Ok(Self::Tcp(format!("{host}:{port}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_printed_in_its_short_form() {
        for (given, printed) in [
            ("127.0.0.1:7420", "127.0.0.1:7420"),
            ("localhost:1", "localhost:1"),
            ("[::1]:7420", "[::1]:7420"),
            ("http://example.com:65535", "example.com:65535"),
            ("http://example.com/", "example.com:80"),
            ("http://[::1]:7420/", "[::1]:7420"),
            ("unix:/run/p.sock", "unix:/run/p.sock"),
            ("unix:///run/p.sock", "unix:/run/p.sock"),
            ("unix:p.sock", "unix:p.sock"),
        ] {
            let address: Address = given.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(address.to_string(), printed);
            assert_eq!(printed.parse(), Ok(address), "{printed} read again");
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (given, why) in [
            ("", "the host is missing"),
            (":7420", ""),
            ("localhost", "the port is missing"),
            ("[::1]", "the port is missing"),
            ("::1:7420", ""),
            ("host:0", "the port is no number"),
            ("host:65536", ""),
            ("host:", "the port is no number"),
            ("http://", "the host is missing"),
            ("http://host:7420/path", "more in it"),
            ("user@host:7420", "more in it"),
            ("ftp://host:21", "\"ftp\" is unknown"),
            ("https://host:7420", "needs TLS"),
            ("unix:", "the path is missing"),
            ("unix://host/p.sock", "absolute path"),
        ] {
            let error = given.parse::<Address>().expect_err(given).to_string();
            assert!(error.contains(why), "{given}: {error}");
            assert!(error.contains(&format!("{given:?}")), "{given} is quoted: {error}");
        }
    }
}
