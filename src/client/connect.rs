//! From an address to a channel: lazy, kept alive, reconnecting.
use super::address::Address;
use super::config::Config;
use super::config_error::ConfigError;
use super::serial_executor::InTurn;
use hyper::rt::{Read, Write};
use std::error::Error;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::Service;

/// A connection that takes longer is tried anew: short enough for a second try within the default deadline.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A ping this often and an answer this soon: a peer that died without a word is noticed within 15 s, idle or not, and
/// 10,000 clients cost their server 1,000 pings a second.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(5);

/// A channel that connects at the first call, and again whenever the connection is lost.
pub(crate) fn channel(config: &Config) -> Result<Channel, ConfigError> {
    let endpoint = |scheme: &str, authority: &str| {
        let endpoint = Endpoint::from_shared(format!("{scheme}://{authority}"));
        endpoint_settings(endpoint.expect("an Address holds a valid authority"))
    };
    Ok(match &config.address {
        Address::Tcp(authority) => endpoint("http", authority).connect_lazy(),
        Address::Tls(authority) => {
            let tls = config.tls.clone().unwrap_or_default();
            tls.secure(endpoint("https", authority))?.connect_lazy()
        }
        Address::Unix(path) => unix_channel(path.clone()),
    })
}

fn endpoint_settings(endpoint: Endpoint) -> Endpoint {
    endpoint
        .executor(InTurn::default())
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER)
        .keep_alive_while_idle(true)
}

/// A channel whose connections `connector` makes, with the settings of all others.
pub(crate) fn channel_over<C>(connector: C) -> Channel
where
    C: Service<Uri> + Send + 'static,
    C::Response: Read + Write + Send + Unpin,
    C::Future: Send,
    Box<dyn Error + Send + Sync>: From<C::Error>,
{
    // The authority that requests carry which go to no host: any valid one will do, and servers log it.
    endpoint_settings(Endpoint::from_static("http://localhost")).connect_with_connector_lazy(connector)
}

#[cfg(unix)]
fn unix_channel(path: std::path::PathBuf) -> Channel {
    use hyper_util::rt::TokioIo;
    use tokio::net::UnixStream;

    // Not tonic's own "unix:" form, which takes no path that is not UTF-8.
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
