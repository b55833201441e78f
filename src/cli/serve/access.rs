//! The options of `serve` about tokens.
use crate::server::access::{AUDIENCE, AccessConfig, JwtConfig, PublicKeys};
use std::path::PathBuf;

/// With a token file or a key file, every call except for health needs a token, also on Unix sockets.
#[derive(Debug, clap::Args)]
pub(super) struct Access {
    /// A TOML file of tokens and what they grant, written by `pausewatch token add`. Reloaded when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Accept JSON web tokens signed with a key in this PEM or JWKS file of public keys (EdDSA, ES256, RS256); `pausewatch
    /// token key` creates one. Reloaded when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    jwt_keys: Option<PathBuf>,
    /// The required `aud` of a JSON web token.
    #[arg(long, value_name = "AUDIENCE", default_value = AUDIENCE)]
    jwt_audience: String,
    /// The required `iss` of a JSON web token [default: any].
    #[arg(long, value_name = "ISSUER")]
    jwt_issuer: Option<String>,
}

impl Access {
    /// `None`: every client may make every call.
    pub(super) fn config(self) -> Result<Option<AccessConfig>, String> {
        let Self { tokens, jwt_keys, jwt_audience: audience, jwt_issuer: issuer } = self;
        // These options without keys would suggest a check that does not happen.
        if jwt_keys.is_none() && (issuer.is_some() || audience != AUDIENCE) {
            return Err("--jwt-audience and --jwt-issuer need --jwt-keys too".into());
        }
        let jwt = jwt_keys.map(|keys| JwtConfig { keys: PublicKeys::File(keys), audience, issuer });
        let is_any = tokens.is_some() || jwt.is_some();
        Ok(is_any.then_some(AccessConfig { tokens, jwt, given: Vec::new() }))
    }
}
