//! Access control: tokens and their permissions.
//!
//! A caller authenticates with a bearer token, which has a [`Grant`]: a role, the threads that it opens, and an expiry
//! time. There are two kinds of tokens: static tokens of a file, which the server knows by their digest
//! (`tokens.rs`), and JSON web tokens, which it verifies with the keys that it trusts (`jwt.rs`, `keys.rs`). [`mint`]
//! makes both.
//!
//! - A1: what was not granted is denied: an unknown role, claim or key of a file is an error, never a wider grant.
//! - A2: a key has exactly one algorithm. The algorithm in a token can only exclude keys.
//! - A3: a token that has expired, or whose entry or key was removed, opens nothing from then on; its watches end.
//! - A4: no secret is kept, logged or printed; only digests of secrets are compared, in constant time.
mod caller;
mod grant;
mod jwt;
mod keys;
pub mod mint;
mod rules;
mod tokens;

pub(crate) use caller::{Caller, Denial};
pub use grant::{Grant, Role};
pub(crate) use jwt::AUDIENCE;
pub use rules::{AccessConfig, JwtConfig, PublicKeys};

use crate::clock::Clock;
use rules::Rules;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The maximum delay until an expired token is noticed, if the wall clock was set or the machine slept.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The accepted tokens. [`Access::reload`] replaces them while the server runs.
pub struct Access {
    config: AccessConfig,
    clock: Arc<dyn Clock>,
    rules: watch::Sender<Arc<Rules>>,
}

impl Access {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file is wrong, and how.
    pub fn load(config: AccessConfig, clock: Arc<dyn Clock>) -> Result<Arc<Self>, String> {
        let rules = watch::Sender::new(Arc::new(Rules::load(&config)?));
        Ok(Arc::new(Access { config, clock, rules }))
    }

    /// The files with tokens and keys.
    pub fn files(&self) -> Vec<PathBuf> {
        self.config.files()
    }

    /// The file that other users must not read.
    pub fn secret_file(&self) -> Option<&Path> {
        self.config.tokens.as_deref()
    }

    /// Reads the files again. If one is invalid, everything stays as it was.
    ///
    /// # Errors
    /// Which file is invalid, and why.
    pub fn reload(&self) -> Result<(), String> {
        let before = self.rules.borrow().clone();
        let rules = Rules::load(&self.config)?.replacing(&before, &self.config)?;
        self.rules.send_replace(Arc::new(rules));
        Ok(())
    }

    /// The caller with these `authorization` headers.
    ///
    /// # Errors
    /// The caller is unknown.
    pub fn authenticate<'a>(&self, headers: impl IntoIterator<Item = &'a [u8]>) -> Result<Arc<Caller>, Denial> {
        let mut headers = headers.into_iter();
        let header = headers.next().ok_or(Denial::Missing)?;
        if headers.next().is_some() {
            return Err(Denial::Invalid("there is more than one authorization header"));
        }
        let token = bearer(header).ok_or(Denial::Invalid("the authorization header is not `Bearer TOKEN`"))?;
        self.authenticate_token(token)
    }

    /// The caller with this token.
    ///
    /// # Errors
    /// The caller is unknown.
    pub fn authenticate_token(&self, token: &[u8]) -> Result<Arc<Caller>, Denial> {
        let rules = self.rules.borrow().clone();
        rules.caller(token, self.clock.now().wall)
    }

    /// Waits until `caller` is not accepted any more, and says why.
    pub async fn end_of(self: Arc<Self>, caller: Arc<Caller>) -> Denial {
        let mut rules = self.rules.subscribe();
        loop {
            // The change is marked as seen before the check, so that a change in between is noticed.
            if !rules.borrow_and_update().still_accept(&caller) {
                return Denial::Invalid("it was revoked");
            }
            let left = caller.grant.left(self.clock.now().wall);
            if left.is_zero() {
                return Denial::Expired;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK_AGAIN_AFTER)), if left < Duration::MAX => {}
                changed = rules.changed() => if changed.is_err() { std::future::pending().await },
            }
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("files", &self.files()).finish_non_exhaustive()
    }
}

/// The token of an `authorization` header (RFC 6750, 2.1). The scheme is written in any case (RFC 9110, 11.1).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty()).then_some(token)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
