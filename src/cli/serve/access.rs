//! The options of `serve` that say whose tokens it takes.
use crate::server::access::{AUDIENCE, AccessConfig, JwtConfig, PublicKeys};
use std::path::PathBuf;

/// With a file of tokens or of keys, every call but that for the health needs a token, on Unix sockets too.
#[derive(Debug, clap::Args)]
pub(super) struct Access {
    /// Who may do what, a TOML file of tokens: `pausewatch token add` writes it. Read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Take JSON web tokens that these public keys have signed (EdDSA, ES256, RS256), a PEM or JWKS file: `pausewatch token
    /// key` makes one. Read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    jwt_keys: Option<PathBuf>,
    /// What `aud` of a JSON web token has to be.
    #[arg(long, value_name = "AUDIENCE", default_value = AUDIENCE)]
    jwt_audience: String,
    /// What `iss` of a JSON web token has to be [default: anything].
    #[arg(long, value_name = "ISSUER")]
    jwt_issuer: Option<String>,
}

impl Access {
    /// `None`: everybody may do everything.
    pub(super) fn config(self) -> Result<Option<AccessConfig>, String> {
        let Self { tokens, jwt_keys, jwt_audience: audience, jwt_issuer: issuer } = self;
        // Whoever says one of these believes that tokens are looked at.
        if jwt_keys.is_none() && (issuer.is_some() || audience != AUDIENCE) {
            return Err("--jwt-audience and --jwt-issuer want --jwt-keys too".into());
        }
        let jwt = jwt_keys.map(|keys| JwtConfig { keys: PublicKeys::File(keys), audience, issuer });
        let is_any = tokens.is_some() || jwt.is_some();
        Ok(is_any.then_some(AccessConfig { tokens, jwt, given: Vec::new() }))
    }
}
