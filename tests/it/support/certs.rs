//! Certificates made for a test, as files.
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};

/// A certificate authority.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub(crate) struct Issued {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate for a server at `localhost` and 127.0.0.1, or for a client.
    pub(crate) fn issue(&self) -> Issued {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        Issued { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// The authority's own certificate, used by a server.
    pub(crate) fn itself(&self) -> Issued {
        Issued { cert: self.pem.clone(), key: self.issuer.key().serialize_pem() }
    }

    /// Writes the certificate of the authority.
    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        write(path, &self.pem);
        path.to_owned()
    }
}

impl Issued {
    /// Writes `NAME.crt` and `NAME.key`.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let path = |extension| directory.join(format!("{name}.{extension}"));
        write(&path("crt"), &self.cert);
        write(&path("key"), &self.key);
        (path("crt"), path("key"))
    }
}

fn write(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
