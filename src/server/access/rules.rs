//! The tokens that are accepted at present. New files replace all rules.
use super::caller::{Caller, Denial, Origin};
use super::grant::Grant;
use super::jwt::{self, AUDIENCE, Expected};
use super::keys::{self, Key};
use super::tokens::{self, Digest};
use crate::server::named_file::read_text;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The maximum number of JSON web tokens that are remembered, so that their signature is not verified for each call:
/// about 500 bytes each.
const REMEMBERED: usize = 10_000;

/// Where tokens come from.
#[derive(Clone, Debug, Default)]
pub struct AccessConfig {
    /// A file of static tokens.
    pub tokens: Option<PathBuf>,
    /// JSON web tokens.
    pub jwt: Option<JwtConfig>,
    /// Tokens that are not in a file, with their grants.
    pub given: Vec<(String, Grant)>,
}

/// Which JSON web tokens are accepted.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    /// The public keys.
    pub keys: PublicKeys,
    /// The required `aud`.
    pub audience: String,
    /// The required `iss`, if any.
    pub issuer: Option<String>,
}

/// Where public keys come from: PEM, or a JWKS.
#[derive(Clone, Debug)]
pub enum PublicKeys {
    /// A file, which is reloaded when it changes.
    File(PathBuf),
    /// The text of keys that never change.
    Text(String),
}

impl JwtConfig {
    /// The keys of a file, and otherwise the defaults of `pausewatch token create`.
    pub fn new(keys: impl Into<PathBuf>) -> Self {
        Self::with_keys(PublicKeys::File(keys.into()))
    }

    /// The same defaults with other keys.
    pub fn with_keys(keys: PublicKeys) -> Self {
        JwtConfig { keys, audience: AUDIENCE.into(), issuer: None }
    }
}

impl PublicKeys {
    fn file(&self) -> Option<&PathBuf> {
        match self {
            PublicKeys::File(path) => Some(path),
            PublicKeys::Text(_) => None,
        }
    }

    fn load(&self) -> Result<Vec<Key>, String> {
        match self {
            PublicKeys::File(path) => {
                read_text(path).and_then(|text| keys::parse(&text)).map_err(|why| named("--jwt-keys", path, &why))
            }
            PublicKeys::Text(text) => keys::parse(text),
        }
    }
}

impl AccessConfig {
    /// The files that are read.
    pub fn files(&self) -> Vec<PathBuf> {
        self.tokens.iter().chain(self.jwt.as_ref().and_then(|jwt| jwt.keys.file())).cloned().collect()
    }
}

pub(super) struct Rules {
    tokens: HashMap<Digest, Arc<Caller>>,
    /// The number of tokens in the file; `None`: there is no file, or it has no entry `token`.
    in_file: Option<usize>,
    keys: Vec<Arc<Key>>,
    expected: Expected,
    /// By the digest of the token.
    verified: Mutex<HashMap<Digest, Arc<Caller>>>,
}

impl Rules {
    pub(super) fn load(config: &AccessConfig) -> Result<Self, String> {
        let file = match &config.tokens {
            Some(path) => {
                read_text(path).and_then(|text| tokens::parse(&text)).map_err(|why| named("--tokens", path, &why))?
            }
            None => None,
        };
        let in_file = file.as_ref().map(HashMap::len);
        let mut tokens = file.unwrap_or_default();
        tokens.extend(config.given.iter().map(|(token, grant)| (Digest::of(token.as_bytes()), grant.clone())));
        let known = |(digest, grant)| (digest, Arc::new(Caller { grant, origin: Origin::Static(digest) }));
        let keys = config.jwt.as_ref().map_or(Ok(Vec::new()), |jwt| jwt.keys.load())?;
        let expected = Expected {
            audience: config.jwt.as_ref().map_or_else(|| AUDIENCE.into(), |jwt| jwt.audience.clone()),
            issuer: config.jwt.as_ref().and_then(|jwt| jwt.issuer.clone()),
        };
        Ok(Rules {
            tokens: tokens.into_iter().map(known).collect(),
            in_file,
            keys: keys.into_iter().map(Arc::new).collect(),
            expected,
            verified: Mutex::default(),
        })
    }

    /// These rules as the successors of `before`.
    ///
    /// # Errors
    /// The file of tokens is empty and was not before: it is being written, or something went wrong.
    pub(super) fn replacing(self, before: &Rules, config: &AccessConfig) -> Result<Self, String> {
        match &config.tokens {
            Some(path) if self.in_file.is_none() && before.in_file.is_some_and(|count| count > 0) => {
                Err(named("--tokens", path, "there is no token in it; to revoke all, write `token = []`"))
            }
            _ => Ok(self),
        }
    }

    /// The caller with this token, at `wall`.
    pub(super) fn caller(&self, token: &[u8], wall: i64) -> Result<Arc<Caller>, Denial> {
        let digest = Digest::of(token);
        let remembered = || self.verified.lock().expect("no panic while locked").get(&digest).cloned();
        let caller = match self.tokens.get(&digest).cloned().or_else(remembered) {
            Some(caller) => caller,
            None => self.verify(token, digest, wall)?,
        };
        if caller.grant.left(wall) == Duration::ZERO {
            return Err(Denial::Expired);
        }
        Ok(caller)
    }

    fn verify(&self, token: &[u8], digest: Digest, wall: i64) -> Result<Arc<Caller>, Denial> {
        let (grant, key) = jwt::verify(token, &self.keys, &self.expected, wall)?;
        let caller = Arc::new(Caller { grant, origin: Origin::Jwt(key.clone()) });
        let mut verified = self.verified.lock().expect("no panic while locked");
        if verified.len() >= REMEMBERED {
            verified.retain(|_, caller| !caller.grant.left(wall).is_zero());
        }
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(digest, caller.clone());
        Ok(caller)
    }

    /// Whether these rules accept a caller that older rules have accepted, apart from its expiry.
    pub(super) fn still_accept(&self, caller: &Caller) -> bool {
        match &caller.origin {
            Origin::Static(digest) => self.tokens.get(digest).is_some_and(|known| known.grant == caller.grant),
            Origin::Jwt(key) => self.keys.contains(key),
            // A forwarded call does not last.
            #[cfg(feature = "etcd")]
            Origin::Forwarded => false,
        }
    }
}

fn named(flag: &str, path: &Path, why: &str) -> String {
    format!("{flag} {}: {why}", path.display())
}
