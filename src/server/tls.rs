//! TLS for TCP listeners: certificate, key, and optionally the authorities of client certificates.
//!
//! The files can be replaced while connections are open: open connections keep the old certificates, new ones get the
//! new. Sessions are resumed only within the same configuration, and never where clients need a certificate: a resumed
//! session does not show the certificate again, which may have expired meanwhile.
use super::{named_file, reload};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The files for TLS, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain of the server, with its own certificate first.
    pub cert: PathBuf,
    /// The private key of the certificate: PKCS #8, PKCS #1 (RSA) or SEC 1 (EC), not encrypted.
    pub key: PathBuf,
    /// Clients must have a certificate of one of these authorities; `None`: no client certificates.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let TlsFiles { cert, key, client_ca } = self.clone();
        [cert, key].into_iter().chain(client_ca).collect()
    }
}

/// Accepts TLS connections.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    protocols: &'static [&'static [u8]],
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files. `http`: HTTP/1 is also served.
    ///
    /// # Errors
    /// Which file is invalid, and why.
    pub(super) fn load(files: TlsFiles, http: bool) -> Result<Arc<Self>, String> {
        let protocols: &[&[u8]] = if http { &[b"h2", b"http/1.1"] } else { &[b"h2"] };
        let current = RwLock::new(read(&files, protocols)?);
        Ok(Arc::new(Tls { files, protocols, current }))
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.paths()
    }

    /// Reads the files again. If one is invalid, everything stays as it was.
    ///
    /// # Errors
    /// Which file is invalid, and why.
    pub(super) fn reload(&self) -> Result<(), String> {
        let new = read(&self.files, self.protocols)?;
        *self.current.write().expect("no panic while locked") = new;
        Ok(())
    }

    /// The acceptor for the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().expect("no panic while locked").clone().into()
    }
}

fn read(files: &TlsFiles, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.expect("ring has what TLS 1.2 and 1.3 need");
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = |why: String| format!("--tls-client-ca {}: {why}", path.display());
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path).map_err(wrong)? {
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(error.to_string()))?)
        }
    };
    let (cert, key) = (files.cert.display(), files.key.display());
    let chain = certificates(&files.cert).map_err(|why| format!("--tls-cert {cert}: {why}"))?;
    let private = named_file::read(&files.key)
        .and_then(|pem| PrivateKeyDer::from_pem_slice(&pem).map_err(|error| why(error, "unencrypted private key")));
    let private = private.map_err(|why| format!("--tls-key {key}: {why}"))?;
    reload::warn_if_open_to_others("--tls-key", &files.key);
    let config = builder.with_single_cert(chain, private);
    let mut config = config.map_err(|error| format!("--tls-cert {cert} and --tls-key {key}: {error}"))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    if files.client_ca.is_none() {
        config.ticketer = ring::Ticketer::new().map_err(|error| format!("TLS: {error}"))?;
    } else {
        // Without a ticketer, tickets would name sessions in the storage.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    Ok(Arc::new(config))
}

/// The certificates in a file, at least one.
///
/// # Errors
/// The file cannot be read, or it contains none or a malformed one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let expected = "certificate";
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&named_file::read(path)?).collect();
    match all {
        Ok(none) if none.is_empty() => Err(why(pem::Error::NoItemsFound, expected)),
        all => all.map_err(|error| why(error, expected)),
    }
}

fn why(error: pem::Error, expected: &str) -> String {
    match error {
        pem::Error::NoItemsFound => format!("it contains no {expected} in PEM format"),
        error => format!("{error} (expected: {expected} in PEM format)"),
    }
}
