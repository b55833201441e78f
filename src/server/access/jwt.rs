//! JSON web tokens (RFC 7519) signed by a key of ours (RFC 7515, compact form).
//!
//! | claim | |
//! | --- | --- |
//! | `sub` | the subject, for logs: 1 to 256 bytes |
//! | `aud` | the audience of the server, or a list that contains it |
//! | `exp` | required; no leeway |
//! | `nbf` | optional: the token is not valid before this time, less [`LEEWAY`] |
//! | `iss` | checked if the server is configured with an issuer |
//! | `pausewatch` | `{"role": "holder", "threads": ["t"], "prefixes": ["team-a/"]}`; another member makes it invalid |
//!
//! The signature is checked before anything that it signs is parsed. The usual library, `jsonwebtoken`, has no backend
//! for `ring`, and reads the clock itself; here `now` is an argument.
use super::caller::Denial;
use super::grant::{Grant, Rights};
use super::keys::Key;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use std::sync::Arc;

/// The default audience of tokens, for `pausewatch token` and the server.
pub(crate) const AUDIENCE: &str = "pausewatch";
/// How far the clock of the issuer may be ahead of ours, in nanoseconds.
pub(super) const LEEWAY: i64 = 5 * SECOND;
const SECOND: i64 = 1_000_000_000;

const UNKNOWN: Denial = Denial::Invalid("it is neither a token of this server nor signed by a key that it trusts");

/// The claims that a token must have.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) audience: String,
    pub(super) issuer: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that the server would have to understand: none are supported.
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    aud: Option<Audience>,
    iss: Option<String>,
    exp: Option<f64>,
    nbf: Option<f64>,
    pausewatch: Option<Rights>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// The permissions of `token` at `wall`, and the key that signed it.
pub(super) fn verify(
    token: &[u8],
    keys: &[Arc<Key>],
    expected: &Expected,
    wall: i64,
) -> Result<(Grant, Arc<Key>), Denial> {
    let (key, claims) = signed(token, keys).ok_or(UNKNOWN)?;
    let claims: Claims = serde_json::from_slice(&claims).map_err(|_| Denial::Invalid("its claims cannot be read"))?;
    let expires = nanos(claims.exp.ok_or(Denial::Invalid("it has no `exp`"))?);
    if expires <= wall {
        return Err(Denial::Expired);
    }
    if claims.nbf.is_some_and(|from| nanos(from).saturating_sub(LEEWAY) > wall) {
        return Err(Denial::Invalid("it is not valid yet (`nbf`)"));
    }
    let is_for_us = match &claims.aud {
        Some(Audience::One(one)) => *one == expected.audience,
        Some(Audience::Many(many)) => many.contains(&expected.audience),
        None => false,
    };
    if !is_for_us {
        return Err(Denial::Invalid("it is for another audience (`aud`)"));
    }
    if expected.issuer.is_some() && claims.iss != expected.issuer {
        return Err(Denial::Invalid("it is of another issuer (`iss`)"));
    }
    let rights = claims.pausewatch.ok_or(Denial::Invalid("it has no claim `pausewatch`"))?;
    let subject = claims.sub.ok_or(Denial::Invalid("it has no `sub`"))?;
    let grant = Grant::parse(&subject, &rights, Some(expires));
    Ok((grant.map_err(|_| Denial::Invalid("its `sub` or its claim `pausewatch` is wrong"))?, key))
}

/// The signed claims, and the key that signed them.
fn signed(token: &[u8], keys: &[Arc<Key>]) -> Option<(Arc<Key>, Vec<u8>)> {
    let token = std::str::from_utf8(token).ok()?;
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let [header, claims, signature] = [header, claims, signature].map(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let header: Header = serde_json::from_slice(&header?).ok()?;
    if header.crit.is_some() {
        return None;
    }
    let (claims, signature) = (claims?, signature?);
    let may_be = |key: &&Arc<Key>| key.is_for(&header.alg) && key.may_be(header.kid.as_deref());
    let key = keys.iter().filter(may_be).find(|key| key.verifies(message.as_bytes(), &signature))?;
    Some((key.clone(), claims))
}

/// Seconds since 1970, possibly with a fraction.
fn nanos(seconds: f64) -> i64 {
    // Saturates for times that are too far away.
    (seconds * SECOND as f64) as i64
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
mod tests;
