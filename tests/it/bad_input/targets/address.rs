//! Addresses that a client connects to and a server listens on: what is printed parses to the same address, and all
//! else is refused.
use pausewatch::client::Address;
use pausewatch::server::Listen;
use std::path::Path;

pub(super) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<Address>() {
        Ok(address) => {
            assert_eq!(address.to_string().parse(), Ok(address.clone()), "{text:?}, printed and read again");
            if let Address::Tcp(authority) | Address::Tls(authority) = &address {
                let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
                assert!(port.is_some_and(|port: u16| port > 0), "{text:?} has no port: {authority:?}");
                let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{authority}"));
                assert!(endpoint.is_ok(), "{text:?} was accepted, but nobody can connect to {authority:?}");
            }
        }
        Err(error) => {
            let printed = format!("{text:?}");
            assert!(error.to_string().contains(&printed), "{printed} is not quoted: {error}");
        }
    }
    if let Ok(listen) = text.parse::<Listen>() {
        assert_eq!(listen.to_string().parse(), Ok(listen.clone()), "{text:?}, printed and read again");
        if let Listen::Unix(path) = &listen
            && !text.contains('\0')
        {
            check_that_clients_take(path);
        }
    }
}

/// A client accepts the address that a server prints when it listens.
fn check_that_clients_take(path: &Path) {
    let printed = Listen::Unix(path.to_owned()).to_string();
    assert_eq!(printed.parse(), Ok(Address::Unix(path.to_owned())), "{printed:?}");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    super::texts(&[
        "127.0.0.1:7420",
        "localhost:1",
        "[::1]:65535",
        "[fe80::1%25eth0]:80",
        "http://example.com/",
        "https://h:443",
        "https://[::1]/",
        "unix:/run/p.sock",
        "unix:///run/p.sock",
        "unix:p.sock",
        "user@host:1",
        "host:1/path?query#fragment",
    ])
}
