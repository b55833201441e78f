//! The rules for browsers, on TCP. With HTTP/1.1, every web page that somebody opens on this machine can send requests
//! to the port. Browsers mark these requests in their headers.
//!
//! 1. The host of an HTTP/1 request must be one of our names: an IP address, `localhost`, or a name that the operator
//!    has configured. An attacker can make another name resolve to this machine (DNS rebinding); pages of that name
//!    would have our origin.
//! 2. A request that a page of another origin causes is refused, by `Sec-Fetch-Site` and by `Origin`, also a preflight
//!    request. Links from other origins may open our page.
//! 3. gRPC needs HTTP/2, which no browser speaks in plain text.
//!
//! No answer allows another origin to read anything. Browsers cannot use Unix sockets.
use super::{page, protocol};
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, Version};
use std::net::IpAddr;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// How browsers may reach a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Browsers {
    /// Its names besides addresses and `localhost`, in lower case.
    pub(crate) names: Vec<String>,
    /// Whether the server has TLS.
    pub(crate) has_tls: bool,
}

/// Why a request is refused.
pub(crate) type Refused = (StatusCode, &'static str);

const WRONG_HOST: Refused = (
    StatusCode::MISDIRECTED_REQUEST,
    "the Host of the request is not a name of this server: use an address or localhost, or start the server with \
     --web-host NAME",
);
const OTHER_ORIGIN: Refused =
    (StatusCode::FORBIDDEN, "a web page of another origin has caused the request: none is served here");

/// gRPC needs HTTP/2, over every transport.
pub(super) fn check_version<B>(request: &Request<B>) -> Result<(), Refused> {
    match is_old(request) && request.headers().get_all(CONTENT_TYPE).iter().any(protocol::is_grpc) {
        true => Err((StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC needs HTTP/2; this is HTTP/1")),
        false => Ok(()),
    }
}

fn is_old<B>(request: &Request<B>) -> bool {
    request.version() < Version::HTTP_2
}

impl Browsers {
    /// Checks a request that came over TCP.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        self.check_host(request)?;
        self.check_origin(request)
    }

    /// The host of a request; `None`: there are several, or it differs from the authority of the target.
    fn host<B>(request: &Request<B>) -> Option<&str> {
        let (headers, authority) = (request.headers(), request.uri().authority().map(http::uri::Authority::as_str));
        match is_old(request) {
            // The authority of a target takes precedence over the header.
            true => only(headers, HOST).filter(|host| authority.is_none_or(|authority| authority == *host)),
            false => authority.or_else(|| only(headers, HOST)),
        }
    }

    fn check_host<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        match is_old(request) && !Self::host(request).is_some_and(|host| self.is_ours(host)) {
            true => Err(WRONG_HOST),
            false => Ok(()),
        }
    }

    /// Refuses a request that a page of another origin has caused.
    pub(crate) fn check_origin<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        let headers = request.headers();
        if headers.contains_key(SITE)
            && !matches!(only(headers, SITE), Some("same-origin" | "none"))
            && !is_link_to_page(request)
        {
            return Err(OTHER_ORIGIN);
        }
        if headers.contains_key(ORIGIN) {
            let is_own = |(host, origin): (&str, &str)| match origin.split_once("://") {
                // A proxy may have added TLS.
                Some(("https", of)) => of == host && (self.has_tls || self.is_named(host)),
                Some(("http", of)) => of == host && !self.has_tls,
                _ => false,
            };
            if !Self::host(request).zip(only(headers, ORIGIN)).is_some_and(is_own) {
                return Err(OTHER_ORIGIN);
            }
        }
        Ok(())
    }

    /// Whether it is a name of this server, with or without a port.
    fn is_ours(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
        if host.contains('@') {
            return false;
        }
        let name = authority.host().to_ascii_lowercase();
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        // An IP address needs no DNS, so no attacker can redirect it.
        address.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost") || self.is_named(host)
    }

    /// Whether the operator has configured this name.
    fn is_named(&self, host: &str) -> bool {
        let name = host.parse::<http::uri::Authority>().map(|authority| authority.host().to_ascii_lowercase());
        name.is_ok_and(|name| self.names.contains(&name))
    }
}

/// Whether a person follows a link to the page.
fn is_link_to_page<B>(request: &Request<B>) -> bool {
    request.method() == Method::GET
        && only(request.headers(), MODE) == Some("navigate")
        && only(request.headers(), DESTINATION) == Some("document")
        && page::has(request.uri().path())
}

/// The value of a header that occurs exactly once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Browsers {
        Browsers { names: vec!["pausewatch.lan".into()], has_tls: false }
    }

    fn check(browsers: &Browsers, version: Version, line: (&str, &str), headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().version(version).method(line.0).uri(line.1);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let checked = check_version(&request).and_then(|()| browsers.check(&request));
        checked.map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn a_request_of_http1_has_one_host_which_is_ours() {
        let check = |headers: &[_]| check(&ours(), Version::HTTP_11, ("POST", "/x"), headers);
        for host in [
            "127.0.0.1:7420",
            "127.0.0.1",
            "10.1.2.3:80",
            "[::1]:7420",
            "[::1]",
            "localhost",
            "LocalHost:7420",
            "a.localhost",
            "pausewatch.lan:1",
            "PauseWatch.LAN",
        ] {
            assert_eq!(check(&[("host", host)]), 200, "{host}");
        }
        for host in [
            "",
            "evil.test:7420",
            "127.0.0.1.evil.test",
            "localhost.evil.test",
            "evillocalhost",
            "localhost.",
            "localhost@evil.test",
            "evil.test@localhost",
            "127.1",
            "0x7f000001",
            "::1",
            "[::1",
            "a/localhost",
            "x.pausewatch.lan",
            "localhost:7420:1",
            "localhost evil.test",
            "localhost,evil.test",
        ] {
            assert_eq!(check(&[("host", host)]), 421, "{host}");
        }
        assert_eq!(check(&[]), 421);
        assert_eq!(check(&[("host", "localhost"), ("host", "evil.test")]), 421);
        assert_eq!(check(&[("host", "localhost"), ("host", "localhost")]), 421);
    }

    #[test]
    fn a_whole_address_in_the_request_line_is_the_host() {
        let check = |target| check(&ours(), Version::HTTP_11, ("POST", target), &[("host", "localhost:1")]);
        assert_eq!((check("http://localhost:1/x"), check("http://evil.test/x"), check("/x")), (200, 421, 200));
    }

    #[test]
    fn a_request_caused_by_a_page_of_another_origin_is_refused() {
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let target = if version == Version::HTTP_2 { "http://localhost:1/x" } else { "/x" };
            let check = |method, headers: &[_]| {
                let host = [("host", "localhost:1")];
                check(&ours(), version, (method, target), &[&host, headers].concat())
            };
            for headers in [
                &[][..],
                &[("origin", "http://localhost:1"), ("sec-fetch-site", "same-origin")],
                &[("sec-fetch-site", "none")],
                &[("origin", "http://localhost:1")],
            ] {
                assert_eq!(check("POST", headers), 200, "{version:?} {headers:?}");
            }
            for headers in [
                &[("origin", "http://localhost:2"), ("sec-fetch-site", "same-site")][..],
                &[("origin", "http://evil.test"), ("sec-fetch-site", "cross-site")],
                &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
                &[("sec-fetch-site", "same-site")],
                &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
                &[("sec-fetch-site", "")],
                &[("origin", "http://evil.test")],
                &[("origin", "https://localhost:1")],
                &[("origin", "http://localhost")],
                &[("origin", "http://localhost:10")],
                &[("origin", "null")],
                &[("origin", "")],
                &[("origin", "http://localhost:1"), ("origin", "http://evil.test")],
            ] {
                for method in ["POST", "GET", "OPTIONS"] {
                    assert_eq!(check(method, headers), 403, "{version:?} {method} {headers:?}");
                }
            }
        }
    }

    #[test]
    fn with_tls_the_origin_is_https() {
        let tls = Browsers { has_tls: true, ..ours() };
        let check =
            |origin| check(&tls, Version::HTTP_11, ("POST", "/x"), &[("host", "localhost"), ("origin", origin)]);
        assert_eq!((check("https://localhost"), check("http://localhost")), (200, 403));
    }

    /// A proxy in front of the server may add the TLS.
    #[test]
    fn of_a_host_that_the_operator_has_named_the_origin_may_be_https() {
        let check =
            |host, origin| check(&ours(), Version::HTTP_11, ("POST", "/x"), &[("host", host), ("origin", origin)]);
        for (host, origin, status) in [
            ("pausewatch.lan", "https://pausewatch.lan", 200),
            ("pausewatch.lan", "http://pausewatch.lan", 200),
            ("pausewatch.lan:1", "https://pausewatch.lan:1", 200),
            ("pausewatch.lan", "https://evil.test", 403),
            ("pausewatch.lan", "https://pausewatch.lan:1", 403),
            ("localhost:1", "https://localhost:1", 403),
            ("127.0.0.1", "https://127.0.0.1", 403),
        ] {
            assert_eq!(check(host, origin), status, "{host} {origin}");
        }
    }

    #[test]
    fn a_link_from_elsewhere_may_lead_to_the_page_and_to_nothing_else() {
        let check = |method, path, mode, destination| {
            let site = [("host", "localhost:1"), ("sec-fetch-site", "cross-site")];
            let headers = [&site[..], &[("sec-fetch-mode", mode), ("sec-fetch-dest", destination)]].concat();
            check(&ours(), Version::HTTP_11, (method, path), &headers)
        };
        assert_eq!(check("GET", "/", "navigate", "document"), 200);
        assert_eq!(check("GET", "/", "navigate", "iframe"), 403);
        assert_eq!(check("GET", "/page.js", "no-cors", "script"), 403);
        assert_eq!(check("POST", "/", "navigate", "document"), 403);
        assert_eq!(check("GET", "/x", "navigate", "document"), 403);
    }

    #[test]
    fn grpc_needs_http2() {
        for (version, content_type, status) in [
            (Version::HTTP_11, "application/grpc", 505),
            (Version::HTTP_11, "Application/GRPC-web+proto", 505),
            (Version::HTTP_10, "application/grpc", 505),
            (Version::HTTP_11, "application/json", 200),
            (Version::HTTP_2, "application/grpc", 200),
        ] {
            let headers = [("host", "localhost"), ("content-type", content_type)];
            assert_eq!(check(&ours(), version, ("POST", "/x"), &headers), status, "{version:?} {content_type}");
        }
    }
}
