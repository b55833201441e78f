//! The bearer token of a client (RFC 6750), which is never printed.
use super::{ConfigError, input_file};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};
use tonic::metadata::{Ascii, MetadataValue};

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

    /// When it expires, if it is a JSON web token (RFC 7519) with an expiry. Its signature is not checked.
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

/// The source of a client's token, for tokens that are replaced before they expire.
///
/// The client asks the source for every attempt of a call, for every stream, and again while a stream is open: with a
/// JSON web token after two thirds of its remaining life, and at least once a minute. A new token is sent on the open
/// stream, which stays open. The source must answer at once: a source that asks another service should cache its token.
#[derive(Clone)]
pub struct TokenSource(Arc<dyn Fn() -> Result<Token, ConfigError> + Send + Sync>);

impl TokenSource {
    /// A source that calls `get`. If that fails, the call fails with [`Error::Unauthenticated`](super::Error::Unauthenticated) and
    /// is not sent.
    pub fn new(get: impl Fn() -> Result<Token, ConfigError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(get))
    }

    /// The token in a file, which is read each time, without surrounding white space. A pipe or a device is read only
    /// once: this waits for the writer of a pipe, and fails after 5 s if there is none.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let (path, once): (PathBuf, _) = (path.into(), OnceLock::new());
        Self::new(move || match once.get() {
            None if !input_file::is_pipe_or_device(&path) => token_in(&path),
            _ => once.get_or_init(|| token_in(&path)).clone(),
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

fn token_in(path: &Path) -> Result<Token, ConfigError> {
    let wrong = |why: &dyn fmt::Display| ConfigError::new(format!("token file {}: {why}", path.display()));
    let text = input_file::read_text(path).map_err(|error| wrong(&error))?;
    Token::new(text.trim()).map_err(|error| wrong(&error))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
}
