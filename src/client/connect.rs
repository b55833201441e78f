//! Makes channels that connect lazily, are kept alive, and reconnect.
use super::serial_executor::SerialExecutor;
use super::{Address, Config, ConfigError};
use hyper::rt::{Read, Write};
use std::error::Error;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::Service;

/// The timeout of one connection attempt, and of its TLS handshake: short enough for a second attempt within the default deadline.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval and timeout of pings: an unreachable peer is detected within 15 s, idle or not, and 10,000 clients cost their
/// server 1,000 pings per second.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// A channel to one address that connects at the first call, and reconnects whenever the connection is lost. `config.address`
/// is not used.
pub(crate) fn channel(address: &Address, config: &Config) -> Result<Channel, ConfigError> {
    let uri = |scheme: &str, authority: &str| {
        format!("{scheme}://{authority}").parse::<Uri>().expect("an Address holds a valid authority")
    };
    Ok(match address {
        Address::Tcp(authority) => {
            endpoint_settings(uri("http", authority).into()).connect_timeout(CONNECT_TIMEOUT).connect_lazy()
        }
        Address::Tls(authority) => {
            let tls = config.tls.clone().unwrap_or_default();
            tls.channel(endpoint_settings(unnamed()), uri("https", authority), CONNECT_TIMEOUT)?
        }
        Address::Unix(path) => unix_channel(path.clone()),
        Address::Replicas(list) => return channel(&list.addresses()[0], config),
    })
}

fn endpoint_settings(endpoint: Endpoint) -> Endpoint {
    endpoint
        .executor(SerialExecutor::default())
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
}

/// A channel whose connections `connector` opens, with the usual settings.
pub(crate) fn channel_over<C>(connector: C) -> Channel
where
    C: Service<Uri> + Send + 'static,
    C::Response: Read + Write + Send + Unpin,
    C::Future: Send,
    Box<dyn Error + Send + Sync>: From<C::Error>,
{
    endpoint_settings(unnamed()).connect_timeout(CONNECT_TIMEOUT).connect_with_connector_lazy(connector)
}

/// For a connector that already knows its target. Requests need a valid authority, which servers log.
fn unnamed() -> Endpoint {
    Endpoint::from_static("http://localhost")
}

#[cfg(unix)]
fn unix_channel(path: std::path::PathBuf) -> Channel {
    use hyper_util::rt::TokioIo;
    use tokio::net::UnixStream;

    // tonic's own "unix:" form refuses paths that are not UTF-8.
    channel_over(tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    }))
}

#[cfg(not(unix))]
fn unix_channel(_: std::path::PathBuf) -> Channel {
    use hyper_util::rt::TokioIo;

    // Every call fails with UNAVAILABLE and this text.
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector_lazy(tower::service_fn(|_| async {
        let unsupported = "Unix sockets are not available on this system";
        Err::<TokioIo<tokio::net::TcpStream>, _>(std::io::Error::new(std::io::ErrorKind::Unsupported, unsupported))
    }))
}
