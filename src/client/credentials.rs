//! The credentials of a client: a bearer token (RFC 6750) and certificates in PEM (RFC 7468).
//!
//! 1. Neither a token nor a key is ever printed.
use super::ConfigError;
use crate::causes::causes;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

/// The prefix of the token in the `authorization` header.
const SCHEME: &str = "Bearer ";

/// A bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(MetadataValue<Ascii>);

impl Token {
    /// Parses a token: one or more visible ASCII characters.
    ///
    /// # Errors
    /// `text` is empty or has another character.
    pub fn new(text: &str) -> Result<Self, ConfigError> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ConfigError::new(
                "token: it is empty, or it has a character that no token has; allowed: visible ASCII ones",
            ));
        }
        let value = format!("{SCHEME}{text}").parse();
        let mut value: MetadataValue<Ascii> = value.map_err(|_| ConfigError::new("token: it cannot be sent"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// The token as text, to pass it on to another program.
    pub fn secret(&self) -> &str {
        let header = self.0.to_str().unwrap_or_default();
        header.strip_prefix(SCHEME).unwrap_or_default()
    }

    /// When it ends, if it is a JSON web token (RFC 7519) that says so. Its signature is not checked.
    pub(super) fn expires_at(&self) -> Option<SystemTime> {
        let mut parts = self.secret().split('.');
        let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
        #[derive(serde::Deserialize)]
        struct Claims {
            exp: f64,
        }
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(claims.exp).ok()?)
    }

    /// The value of the `authorization` header.
    pub(super) fn header(&self) -> MetadataValue<Ascii> {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Where a client gets its token from: for a token that ends, and is replaced by another one before it does.
///
/// It is asked for every attempt of a call, for every stream, and again while a stream is open: after two thirds of what is left
/// of the token's life if that is a JSON web token, and at least once a minute. A new token goes out on the open stream, which stays
/// open. So the source must answer at once: a source that asks another service keeps what it got.
#[derive(Clone)]
pub struct TokenSource(Arc<dyn Fn() -> Result<Token, ConfigError> + Send + Sync>);

impl TokenSource {
    /// A source that calls `get`. If that fails, the call fails with [`Error::Unauthenticated`](super::Error::Unauthenticated) and
    /// is not sent.
    pub fn new(get: impl Fn() -> Result<Token, ConfigError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(get))
    }

    /// The token in a file, which is read each time; white space around it does not count.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self::new(move || {
            let wrong = |why: &dyn fmt::Display| ConfigError::new(format!("token file {}: {why}", path.display()));
            let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
            Token::new(text.trim()).map_err(|error| wrong(&error))
        })
    }

    /// The token as it is now.
    ///
    /// # Errors
    /// Those of the source.
    pub fn token(&self) -> Result<Token, ConfigError> {
        (self.0)()
    }
}

impl PartialEq for TokenSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TokenSource {}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSource(..)")
    }
}

/// The trusted certificate authorities and the client certificate of a TLS connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Reads certificates and a key from PEM files. `ca`: authorities to trust instead of the system's. `identity`: the
    /// certificate chain and the key of this client.
    ///
    /// # Errors
    /// A file cannot be read, or contains no PEM of its kind.
    pub fn load(ca: Option<&Path>, identity: Option<(&Path, &Path)>) -> Result<Self, ConfigError> {
        let ca = ca.map(|path| read("tls_ca", path)).transpose()?;
        let identity = match identity {
            Some((cert, key)) => Some((read("tls_cert", cert)?, read("tls_key", key)?)),
            None => None,
        };
        Ok(Self { ca, identity })
    }

    /// Certificates and a key in PEM, from elsewhere than files: a secret store, or the text of a variable. The arguments are those
    /// of [`Tls::load`].
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
        let checked = |what: &str, text: &str| {
            check_pem(what, text.as_bytes()).map_err(|why| ConfigError::new(format!("{what}: {why}")))?;
            Ok(text.as_bytes().to_vec())
        };
        let ca = ca.map(|ca| checked("tls_ca", ca)).transpose()?;
        let identity = match identity {
            Some((cert, key)) => Some((checked("tls_cert", cert)?, checked("tls_key", key)?)),
            None => None,
        };
        Ok(Self { ca, identity })
    }

    /// `endpoint` with TLS.
    pub(super) fn secure(&self, endpoint: Endpoint) -> Result<Endpoint, ConfigError> {
        let mut config = ClientTlsConfig::new();
        config = match &self.ca {
            Some(ca) => config.ca_certificate(Certificate::from_pem(ca)),
            None => config.with_native_roots(),
        };
        if let Some((cert, key)) = &self.identity {
            config = config.identity(Identity::from_pem(cert, key));
        }
        endpoint.tls_config(config).map_err(|error| {
            let cause = causes(&error).last().map_or_else(|| error.to_string(), ToString::to_string);
            ConfigError::new(format!("TLS: {cause}; look at tls_ca, tls_cert and tls_key"))
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ca, identity) = (self.ca.is_some(), self.identity.is_some());
        f.debug_struct("Tls").field("ca", &ca).field("identity", &identity).finish()
    }
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    let wrong = |why: &str| ConfigError::new(format!("{what} {}: {why}", path.display()));
    let text = fs::read(path).map_err(|error| wrong(&error.to_string()))?;
    check_pem(what, &text).map_err(wrong)?;
    Ok(text)
}

/// Without a certificate in `tls_ca`, every server would be refused, and nobody would know why.
fn check_pem(what: &str, text: &[u8]) -> Result<(), &'static str> {
    let (label, missing): (&[u8], _) = match what {
        "tls_key" => (b"PRIVATE KEY-----", "there is no PEM of a private key in it"),
        _ => (b"-----BEGIN CERTIFICATE-----", "there is no PEM of a certificate in it"),
    };
    text.windows(label.len()).any(|window| window == label).then_some(()).ok_or(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_and_never_shown() {
        let token = Token::new("s3cret.token~+/=").unwrap();
        assert_eq!(token.header().to_str().unwrap(), "Bearer s3cret.token~+/=");
        assert_eq!(token.secret(), "s3cret.token~+/=");
        assert!(!format!("{token:?} {:?}", token.header()).contains("s3cret"));
        for wrong in ["", "two words", "line\nbreak", "\u{e9}"] {
            let error = Token::new(wrong).unwrap_err().to_string();
            assert!(error.starts_with("token: ") && (wrong.is_empty() || !error.contains(wrong)), "{error}");
        }
    }

    #[test]
    fn a_json_web_token_says_when_it_ends_and_others_do_not() {
        // {"aud":"x","exp":1700000000,"sub":"a"}
        let token = Token::new("e30.eyJhdWQiOiJ4IiwiZXhwIjoxNzAwMDAwMDAwLCJzdWIiOiJhIn0.c2ln").unwrap();
        assert_eq!(token.expires_at(), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)));
        for other in ["opaque", "a.b.c", "e30.e30.e30", "e30.eyJleHAiOiAieCJ9.c2ln", "e30.eyJleHAiOjF9", "e30.+.c2ln"] {
            assert_eq!(Token::new(other).unwrap().expires_at(), None, "{other}");
        }
    }

    #[test]
    fn a_token_file_is_read_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let source = TokenSource::file(&path);
        assert!(source.token().unwrap_err().to_string().contains("token file"));
        for text in ["first", "second\n"] {
            fs::write(&path, text).unwrap();
            assert_eq!(source.token().unwrap().secret(), text.trim());
        }
        fs::write(&path, "two words").unwrap();
        let error = source.token().unwrap_err().to_string();
        assert!(error.contains("visible ASCII") && !error.contains("words"), "{error}");
    }

    #[test]
    fn a_file_that_is_none_is_named() {
        let error = Tls::load(Some(Path::new("/nonexistent/ca.pem")), None).unwrap_err().to_string();
        assert!(error.starts_with("tls_ca /nonexistent/ca.pem: No such file"), "{error}");
        let error = Tls::load(None, Some((Path::new("Cargo.toml"), Path::new("Cargo.toml")))).unwrap_err().to_string();
        assert_eq!(error, "tls_cert Cargo.toml: there is no PEM of a certificate in it");
        let error = Tls::from_pem(None, Some(("-----BEGIN CERTIFICATE-----", "s3cret"))).unwrap_err().to_string();
        assert_eq!(error, "tls_key: there is no PEM of a private key in it");
        let error = Tls::from_pem(Some("-----BEGIN PRIVATE KEY-----"), None).unwrap_err().to_string();
        assert_eq!(error, "tls_ca: there is no PEM of a certificate in it");
    }
}
