//! Where a coordinator listens, as one string.
//!
//! `host:port` (an IPv6 host in brackets), `http://host[:port]`, `https://host[:port]`, `unix:PATH` (also `unix:///PATH`).
//! Printed and parsed again, an address is the same one.
use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr};
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
    /// A TCP address with TLS: `host:port`, with an IPv6 host in brackets.
    Tls(String),
    /// A Unix socket. A relative path is taken from the working directory at each connect.
    Unix(PathBuf),
}

/// Why a string is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// `host` without `:port`.
    #[error("address {0:?}: the port is missing; write host:port, for example {DEFAULT}")]
    PortMissing(String),
    /// Anything else that cannot be read.
    #[error("address {address:?}: {problem}; write host:port, http://host:port, https://host:port or unix:PATH")]
    Malformed {
        /// What was given.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Address {
    /// Whether what is sent there in plain text stays on this machine.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(authority) | Self::Tls(authority) => {
                let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
                let ip: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
                // RFC 6761, 6.3: localhost is always loopback.
                ip.map_or(host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
            }
        }
    }
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
            Self::Tls(authority) => write!(f, "https://{authority}"),
            // Else the second slash would be read as an empty host.
            Self::Unix(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                write!(f, "unix://{}", path.display())
            }
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
            Some((scheme @ ("http" | "https"), rest)) => {
                (rest.strip_suffix('/').unwrap_or(rest), Some(if scheme == "http" { 80 } else { 443 }))
            }
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
        let authority = format!("{host}:{port}");
        Ok(if s.starts_with("https:") { Self::Tls(authority) } else { Self::Tcp(authority) })
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
            ("https://example.com:7420", "https://example.com:7420"),
            ("https://[::1]/", "https://[::1]:443"),
            ("unix:/run/p.sock", "unix:/run/p.sock"),
            ("unix:///run/p.sock", "unix:/run/p.sock"),
            ("unix:p.sock", "unix:p.sock"),
            ("unix:////run/p.sock", "unix:////run/p.sock"),
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
            ("https://", "the host is missing"),
            ("https://host:0", "the port is no number"),
            ("unix:", "the path is missing"),
            ("unix://host/p.sock", "absolute path"),
        ] {
            let error = given.parse::<Address>().expect_err(given).to_string();
            assert!(error.contains(why), "{given}: {error}");
            assert!(error.contains(&format!("{given:?}")), "{given} is quoted: {error}");
        }
    }
}
