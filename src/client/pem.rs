//! Certificates and keys in PEM (RFC 7468), from files that may be replaced while the program runs.
use super::input_file;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The content of a PEM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Certificate,
    Key,
}

/// One or more certificates, or a key. It is displayed as its setting and its file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pem {
    setting: &'static str,
    kind: Kind,
    text: Vec<u8>,
    /// The file to read again; `None`: it cannot change.
    file: Option<PathBuf>,
}

impl Pem {
    /// # Errors
    /// There is no PEM of this kind in `text`. A file of authorities without a certificate would refuse every server,
    /// and no message would say why.
    pub(super) fn new(setting: &'static str, kind: Kind, text: Vec<u8>) -> Result<Self, String> {
        let pem = Self { setting, kind, text, file: None };
        pem.checked()
    }

    /// # Errors
    /// The file cannot be read, or there is no PEM of this kind in it.
    pub(super) fn read(setting: &'static str, kind: Kind, path: &Path) -> Result<Self, String> {
        // A pipe, such as in `--tls-ca <(print-the-authority)`, can be read only once.
        let can_be_read_again = fs::metadata(path).is_ok_and(|data| data.is_file());
        let text = input_file::read(path).map_err(|error| format!("{setting} {}: {error}", path.display()))?;
        let pem = Self { setting, kind, text, file: Some(path.to_owned()) }.checked()?;
        Ok(if can_be_read_again { pem } else { Self { file: None, ..pem } })
    }

    /// The present content of its file.
    ///
    /// # Errors
    /// As [`Pem::read`]; or it is no longer a file.
    pub(super) fn read_again(&self) -> Result<Self, String> {
        let Some(path) = &self.file else { return Ok(self.clone()) };
        // Opening a pipe would wait for a writer.
        if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            return Err(format!("{self}: it is not a regular file"));
        }
        Self::read(self.setting, self.kind, path)
    }

    fn checked(self) -> Result<Self, String> {
        let (label, what): (&[u8], _) = match self.kind {
            Kind::Key => (b"PRIVATE KEY-----", "private key"),
            Kind::Certificate => (b"-----BEGIN CERTIFICATE-----", "certificate"),
        };
        match self.text.windows(label.len()).any(|window| window == label) {
            true => Ok(self),
            false => Err(format!("{self}: it contains no {what} in PEM format")),
        }
    }

    /// # Errors
    /// A PEM in it is damaged.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let all: Result<_, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        all.map_err(|error| format!("{self}: {error}"))
    }

    /// # Errors
    /// The PEM is damaged, or of no known kind of key.
    pub(super) fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| format!("{self}: {error}"))
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.setting)?;
        self.file.iter().try_for_each(|file| write!(f, " {}", file.display()))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::process::Command;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\n";

    fn pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success()));
    }

    #[test]
    fn a_pipe_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        pipe(&path);
        let writing = std::thread::spawn({
            let path = path.clone();
            move || fs::write(path, PEM).unwrap()
        });
        let first = Pem::read("tls_ca", Kind::Certificate, &path).ok().unwrap();
        writing.join().unwrap();
        assert!(first.read_again() == Ok(first));
    }

    #[test]
    fn a_file_that_became_a_pipe_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, PEM).unwrap();
        let first = Pem::read("tls_ca", Kind::Certificate, &path).ok().unwrap();
        fs::remove_file(&path).unwrap();
        pipe(&path);
        let why = first.read_again().err().unwrap();
        assert_eq!(why, format!("tls_ca {}: it is not a regular file", path.display()));
    }
}
