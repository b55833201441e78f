//! TLS of the connections to servers, with certificates that may be renewed while the program runs.
//!
//! 1. Every server is verified: its certificate by the authorities, and its name by the host of the address.
//! 2. If a file becomes invalid, the last valid certificates are used.
//! 3. An open connection keeps its certificates. A TLS session is resumed only with the same certificates.
//! 4. A key is never printed.
use super::ConfigError;
use super::pem::{Kind, Pem};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::ServiceExt;

/// The name of HTTP/2 in the handshake (ALPN, RFC 7301).
const HTTP2: &[u8] = b"h2";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The trusted certificate authorities and the client certificate of a TLS connection.
///
/// The files of [`Tls::load`] may be replaced at any time: every new connection uses their present content. While one
/// of them is invalid, a `tracing` warning says so, and the last valid ones are used. Clones share the last valid ones.
#[derive(Clone, Default)]
pub struct Tls {
    loaded: Certificates,
    current: Arc<Mutex<Current>>,
}

/// The trusted authorities (`None`: those of the system), and the certificate chain and the key of this client.
#[derive(Clone, Default, PartialEq, Eq)]
struct Certificates {
    ca: Option<Pem>,
    identity: Option<(Pem, Pem)>,
}

#[derive(Default)]
struct Current {
    /// The last valid certificates; `None`: there was no channel yet.
    good: Option<(Certificates, Arc<ClientConfig>)>,
    /// The problem of the last connection attempt.
    problem: Option<String>,
}

impl Tls {
    /// Reads certificates and a key from PEM files. `ca`: authorities to trust instead of the system's. `identity`: the
    /// certificate chain and the key of this client.
    ///
    /// # Errors
    /// A file cannot be read, or contains no PEM of its kind.
    pub fn load(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> Result<Self, ConfigError> {
        Self::of(ca, identity, Pem::read)
    }

    /// Certificates and a key in PEM that are not in files: from a secret store, or a variable. The arguments are those
    /// of [`Tls::load`]. They do not change.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pausewatch::client::{Config, Tls};
    ///
    /// let ca = "-----BEGIN CERTIFICATE-----\n..."; // from a secret store
    /// let config = Config { address: "https://pauses.example:7420".parse()?, tls: Some(Tls::from_pem(Some(ca), None)?), ..Config::default() };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// One of them contains no PEM of its kind.
    pub fn from_pem(ca: Option<&str>, identity: Option<(&str, &str)>) -> Result<Self, ConfigError> {
        Self::of(ca, identity, |setting, kind, text| Pem::new(setting, kind, text.into()))
    }

    fn of<T>(
        ca: Option<T>,
        identity: Option<(T, T)>,
        pem: impl Fn(&'static str, Kind, T) -> Result<Pem, String>,
    ) -> Result<Self, ConfigError> {
        let pem = |setting, kind, from| pem(setting, kind, from).map_err(ConfigError::new);
        let ca = ca.map(|ca| pem("tls_ca", Kind::Certificate, ca)).transpose()?;
        let identity = match identity {
            Some((cert, key)) => Some((pem("tls_cert", Kind::Certificate, cert)?, pem("tls_key", Kind::Key, key)?)),
            None => None,
        };
        Ok(Self { loaded: Certificates { ca, identity }, current: Arc::default() })
    }

    /// A channel to `address`, which begins with `https://`, with the settings of `endpoint`. It connects lazily.
    /// `limit`: the timeout of the connection, and of the TLS handshake.
    pub(super) fn channel(&self, endpoint: Endpoint, address: Uri, limit: Duration) -> Result<Channel, ConfigError> {
        let wrong = |why: &str| ConfigError::new(format!("TLS: {why}"));
        let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host).map_err(|error| wrong(&error.to_string()))?.to_owned();
        // Fails at once if the certificates are invalid from the start.
        self.lock().config_of(&self.loaded).map_err(|why| wrong(&why))?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limit));
        let (tls, to) = (self.clone(), address.clone());
        let connect = move |_| tls.clone().connect(tcp.clone(), to.clone(), name.clone(), limit);
        Ok(endpoint.origin(address).connect_with_connector_lazy(tower::service_fn(connect)))
    }

    async fn connect(
        self,
        tcp: HttpConnector,
        to: Uri,
        name: ServerName<'static>,
        limit: Duration,
    ) -> Result<TokioIo<TlsStream<TcpStream>>, BoxError> {
        let stream = tcp.oneshot(to).await?.into_inner();
        let handshake = TlsConnector::from(self.config()?).connect(name, stream);
        let stream = timeout(limit, handshake).await.map_err(|_| format!("no TLS handshake within {limit:?}"))??;
        match stream.get_ref().1.alpn_protocol() {
            Some(HTTP2) => Ok(TokioIo::new(stream)),
            _ => Err("the server did not agree to HTTP/2 in the TLS handshake".into()),
        }
    }

    /// The configuration of the next connection: the present content of the files, or the last valid ones.
    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let mut current = self.lock();
        let newest = self.loaded.read_again().and_then(|newest| current.config_of(&newest));
        let problem = newest.as_ref().err().cloned();
        let is_new = current.problem != problem;
        current.problem = problem;
        match (newest, &current.good) {
            (Err(why), Some((_, last))) => {
                if is_new {
                    tracing::warn!(
                        "{why}; still using the last good certificates. Fix the file: it is read for each connection"
                    );
                }
                Ok(last.clone())
            }
            (newest, _) => newest,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    /// The configuration of valid certificates, which become the last valid ones.
    fn config_of(&mut self, certificates: &Certificates) -> Result<Arc<ClientConfig>, String> {
        match &self.good {
            Some((good, config)) if good == certificates => Ok(config.clone()),
            _ => {
                let config = certificates.config()?;
                self.good = Some((certificates.clone(), config.clone()));
                Ok(config)
            }
        }
    }
}

impl Certificates {
    fn read_again(&self) -> Result<Self, String> {
        let ca = self.ca.as_ref().map(Pem::read_again).transpose()?;
        let identity = match &self.identity {
            Some((cert, key)) => Some((cert.read_again()?, key.read_again()?)),
            None => None,
        };
        Ok(Self { ca, identity })
    }

    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| ring::default_provider().into());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?.with_root_certificates(self.authorities()?);
        let mut config = match &self.identity {
            Some((cert, key)) => builder
                .with_client_auth_cert(cert.certificates()?, key.private_key()?)
                .map_err(|error| format!("{cert}, {key}: {error}"))?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![HTTP2.into()];
        Ok(config.into())
    }

    fn authorities(&self) -> Result<RootCertStore, String> {
        let (certificates, none_is_usable) = match &self.ca {
            Some(ca) => (ca.certificates()?, format!("{ca}: no certificate in it is usable")),
            None => {
                let system = rustls_native_certs::load_native_certs();
                (system.certs, "the system has no certificates of authorities; name a file of them as tls_ca".into())
            }
        };
        let mut authorities = RootCertStore::empty();
        let (usable, _) = authorities.add_parsable_certificates(certificates);
        if usable == 0 { Err(none_is_usable) } else { Ok(authorities) }
    }
}

/// Compares the loaded content and its files.
impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.loaded == other.loaded
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Certificates { ca, identity } = &self.loaded;
        f.debug_struct("Tls").field("ca", &ca.is_some()).field("identity", &identity.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_wrong_is_named() {
        let error = Tls::load(Some(Path::new("/nonexistent/ca.pem")), None).unwrap_err().to_string();
        assert!(error.starts_with("tls_ca /nonexistent/ca.pem: No such file"), "{error}");
        let error = Tls::load(None, Some((Path::new("Cargo.toml"), Path::new("Cargo.toml")))).unwrap_err().to_string();
        assert_eq!(error, "tls_cert Cargo.toml: it contains no certificate in PEM format");
        let error = Tls::from_pem(None, Some(("-----BEGIN CERTIFICATE-----", "s3cret"))).unwrap_err().to_string();
        assert_eq!(error, "tls_key: it contains no private key in PEM format");
        let error = Tls::from_pem(Some("-----BEGIN PRIVATE KEY-----"), None).unwrap_err().to_string();
        assert_eq!(error, "tls_ca: it contains no certificate in PEM format");
    }

    #[test]
    fn a_damaged_authority_is_refused_before_a_call() {
        let refused = |pem: &str| {
            let tls = Tls::from_pem(Some(pem), None).unwrap();
            let address = Uri::from_static("https://localhost:1");
            tls.channel(Endpoint::from_static("http://localhost"), address, Duration::from_secs(1))
                .unwrap_err()
                .to_string()
        };
        let damaged = refused("-----BEGIN CERTIFICATE-----\nMII\n");
        assert!(damaged.starts_with("TLS: tls_ca: "), "{damaged}");
        let useless = refused("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        assert_eq!(useless, "TLS: tls_ca: no certificate in it is usable");
    }
}
