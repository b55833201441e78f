//! The address of a coordinator, as one string.
//!
//! `host:port` (an IPv6 host in brackets), `http://host[:port]`, `https://host[:port]`, `unix:PATH` (also
//! `unix:///PATH`). For several replicas, it is the addresses of all, separated by commas. A printed address parses to
//! the same address.
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
    str::FromStr,
};

/// The default address of a coordinator.
const DEFAULT: &str = "127.0.0.1:7420";
/// The maximum number of addresses of one coordinator: far more replicas than are useful.
const MAX_ADDRESSES: usize = 16;

/// The address of a coordinator.
///
/// ```
/// use pausewatch::client::Address;
///
/// assert_eq!(Address::default().to_string(), "127.0.0.1:7420");
/// assert!("unix:/run/pausewatch.sock".parse::<Address>().is_ok());
/// assert!("localhost".parse::<Address>().is_err()); // no port
/// assert!("a.example:7420,b.example:7420".parse::<Address>().is_ok()); // two replicas
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP address in plain text: `host:port`, with an IPv6 host in brackets.
    Tcp(String),
    /// A TCP address with TLS: `host:port`, with an IPv6 host in brackets.
    Tls(String),
    /// A Unix socket. A relative path is resolved against the working directory at each connection attempt.
    Unix(PathBuf),
    /// The TCP addresses of several replicas.
    Replicas(Replicas),
}

/// The addresses of the replicas of one coordinator: 2 to 16 different ones, either all with TLS or all without. Made
/// by parsing an [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Replicas(Vec<Address>);

impl Replicas {
    /// The addresses, in the order in which they were written.
    pub fn addresses(&self) -> &[Address] {
        &self.0
    }
}

/// The error of an invalid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// `host` without `:port`.
    #[error("address {0:?}: the port is missing; write host:port, for example {DEFAULT}")]
    PortMissing(String),
    /// Any other invalid address.
    #[error("address {address:?}: {problem}; write host:port, http://host:port, https://host:port or unix:PATH")]
    Malformed {
        /// The invalid text.
        address: String,
        /// The problem.
        problem: String,
    },
}

impl Address {
    /// Whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        match self {
            Self::Replicas(Replicas(list)) => list.iter().all(Self::is_encrypted),
            _ => matches!(self, Self::Tls(_)),
        }
    }

    /// The address of each replica; the address itself if there is one.
    pub(crate) fn each(&self) -> &[Self] {
        match self {
            Self::Replicas(Replicas(list)) => list,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether plain text sent to this address stays on this machine.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Replicas(Replicas(list)) => list.iter().all(Self::is_local),
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
            // With unix:, the second slash would parse as an empty host.
            Self::Unix(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                write!(f, "unix://{}", path.display())
            }
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Replicas(Replicas(list)) => list.iter().enumerate().try_for_each(|(index, address)| {
                let comma = if index == 0 { "" } else { "," };
                write!(f, "{comma}{address}")
            }),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(s: &str) -> Result<Self, AddressError> {
        // A path may contain commas; replicas have no Unix sockets, because they are on several machines.
        match s.contains(',') && !s.starts_with("unix:") {
            true => replicas(s),
            false => one(s),
        }
    }
}

fn replicas(s: &str) -> Result<Address, AddressError> {
    let malformed = |problem: String| AddressError::Malformed { address: s.to_owned(), problem };
    let mut list = Vec::new();
    for entry in s.split(',') {
        if entry.is_empty() {
            return Err(malformed("an entry of the list is empty".to_owned()));
        }
        if entry.starts_with("unix:") {
            return Err(malformed("a list has no unix: address".to_owned()));
        }
        let address = one(entry).map_err(|error| malformed(format!("entry {entry:?}: {error}")))?;
        if list.contains(&address) {
            return Err(malformed(format!("{address} is named twice")));
        }
        list.push(address);
    }
    if list.len() > MAX_ADDRESSES {
        return Err(malformed(format!("it has {} addresses; allowed: up to {MAX_ADDRESSES}", list.len())));
    }
    if list.iter().any(|address| address.is_encrypted() != list[0].is_encrypted()) {
        return Err(malformed("either all addresses of a list begin with https://, or none".to_owned()));
    }
    Ok(Address::Replicas(Replicas(list)))
}

fn one(s: &str) -> Result<Address, AddressError> {
    let malformed = |problem: &str| AddressError::Malformed { address: s.to_owned(), problem: problem.to_owned() };
    if let Some(path) = s.strip_prefix("unix:") {
        // unix:///PATH has an empty host, like file:///PATH; unix://HOST/PATH would name another machine.
        let path = match path.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            Some(_) => return Err(malformed("unix:// must be followed by an absolute path")),
            None => path,
        };
        return match path.is_empty() {
            true => Err(malformed("the path is missing")),
            false if path.contains('\0') => Err(malformed("a path has no NUL")),
            false => Ok(Address::Unix(path.into())),
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
    if !bare.starts_with('[') && bare.matches(':').count() > 1 {
        return Err(malformed("an IPv6 address needs brackets, as in [::1]:7420"));
    }
    let (host, port) = split(bare).ok_or_else(|| malformed("it has a [ without its ]"))?;
    if host.is_empty() {
        return Err(malformed("the host is missing"));
    }
    if !is_host(host) {
        let what = "the host is neither a name of ASCII letters, digits, '-', '_' and '.', nor an IPv4 address, nor an IPv6 address in brackets";
        return Err(malformed(what));
    }
    let port = match (port, default_port) {
        (Some(port), _) => port_of(port).ok_or_else(|| malformed("the port is not a number from 1 to 65535"))?,
        (None, Some(port)) => port,
        (None, None) => return Err(AddressError::PortMissing(s.to_owned())),
    };
    let authority = format!("{host}:{port}");
    Ok(if s.starts_with("https:") { Address::Tls(authority) } else { Address::Tcp(authority) })
}

/// Splits into the host, with its brackets, and the text after the colon.
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

/// The rule of all clients (clients/vectors/addresses.json). An IPv6 zone is refused: it has no meaning on other machines.
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
    fn every_form_is_parsed_and_printed_in_its_short_form() {
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
            ("unix:/run/a,b.sock", "unix:/run/a,b.sock"),
            ("a:1,http://b/,[::1]:7420", "a:1,b:80,[::1]:7420"),
            ("https://a:1,https://b", "https://a:1,https://b:443"),
        ] {
            let address: Address = given.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(address.to_string(), printed);
            assert_eq!(printed.parse(), Ok(address), "{printed} parsed again");
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_the_problem() {
        for (given, why) in [
            ("", "the host is missing"),
            (":7420", ""),
            ("localhost", "the port is missing"),
            ("[::1]", "the port is missing"),
            ("::1:7420", "needs brackets"),
            ("http://2001:db8::1", "needs brackets"),
            ("host:0", "the port is not a number"),
            ("host:65536", ""),
            ("host:", "the port is not a number"),
            ("http://", "the host is missing"),
            ("http://host:7420/path", "more in it"),
            ("user@host:7420", "more in it"),
            ("ftp://host:21", "\"ftp\" is unknown"),
            ("https://", "the host is missing"),
            ("https://host:0", "the port is not a number"),
            ("unix:", "the path is missing"),
            ("unix://host/p.sock", "absolute path"),
            (",", "an entry of the list is empty"),
            ("a:1,", "an entry of the list is empty"),
            ("a:1,b", "entry \"b\": "),
            ("a:1, b:1", "entry \" b:1\": "),
            ("a:80,http://a", "a:80 is named twice"),
            ("https://a:1,b:1", "or none"),
            ("a:1,unix:/run/p.sock", "no unix: address"),
            ("a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10,a:11,a:12,a:13,a:14,a:15,a:16,a:17", "it has 17 addresses"),
        ] {
            let error = given.parse::<Address>().expect_err(given).to_string();
            assert!(error.contains(why), "{given}: {error}");
            assert!(error.contains(&format!("{given:?}")), "{given} is quoted: {error}");
        }
    }
}
