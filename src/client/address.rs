//! Where a coordinator listens, as one string.
//!
//! `host:port` (an IPv6 host in brackets), `http://host[:port]`, `https://host[:port]`, `unix:PATH` (also `unix:///PATH`).
//! Printed and parsed again, an address is the same one.
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
    str::FromStr,
};

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
    /// Whether what is sent there is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

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
        let (host, port) = split(bare).ok_or_else(|| malformed("it has a [ without its ]"))?;
        if host.is_empty() {
            return Err(malformed("the host is missing"));
        }
        if !is_host(host) {
            let what = "the host is no name of ASCII letters, digits, '-', '_' and '.', no IPv4 address, and no IPv6 address in brackets";
            return Err(malformed(what));
        }
        let port = match (port, default_port) {
            (Some(port), _) => port_of(port).ok_or_else(|| malformed("the port is no number from 1 to 65535"))?,
            (None, Some(port)) => port,
            (None, None) => return Err(AddressError::PortMissing(s.to_owned())),
        };
        let authority = format!("{host}:{port}");
        Ok(if s.starts_with("https:") { Self::Tls(authority) } else { Self::Tcp(authority) })
    }
}

/// The host, with its brackets, and what stands after the colon behind it.
fn split(bare: &str) -> Option<(&str, Option<&str>)> {
    let host = match bare.starts_with('[') {
        true => &bare[..=bare.find(']')?],
        false => bare.split(':').next().unwrap_or_default(),
    };
    let rest = &bare[host.len()..];
    match rest.strip_prefix(':') {
        None if !rest.is_empty() => None,
        port => Some((host, port)),
    }
}

/// As all clients have it (clients/scenarios/addresses.txt). A zone of an IPv6 address means nothing on another machine.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(ip) => ip.parse::<Ipv6Addr>().is_ok(),
        None => host.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c)),
    }
}

fn port_of(digits: &str) -> Option<u16> {
    let is_plain = digits.bytes().all(|c| c.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_plain)
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
