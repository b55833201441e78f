//! The key that signs tokens, from the command line or the environment.
use crate::client::read_text;
use crate::server::access::AUDIENCE;
use crate::server::access::mint::Signer;
use std::path::PathBuf;
use std::time::Duration;

/// The signing key, an option of `create` and `run`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Key {
    /// The private key that signs tokens, a PEM file; `pausewatch token key` creates one [env: PAUSEWATCH_TOKEN_KEY].
    // Not read by clap, because an empty variable counts as not set.
    #[arg(long, value_name = "FILE")]
    token_key: Option<PathBuf>,
    /// The `aud` of the tokens, which the server must expect.
    #[arg(long, value_name = "AUDIENCE", default_value = AUDIENCE)]
    token_audience: String,
    /// The `iss` of the tokens, if the server expects one.
    #[arg(long, value_name = "ISSUER")]
    token_issuer: Option<String>,
}

/// The variable that names the key.
pub(crate) const KEY_VARIABLE: &str = "PAUSEWATCH_TOKEN_KEY";

impl Key {
    /// `None`: no key is configured.
    ///
    /// # Errors
    /// The file contains no signing key.
    pub(crate) fn signer(&self) -> Result<Option<Signer>, String> {
        let variable = || std::env::var_os(KEY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let Some(path) = self.token_key.clone().or_else(variable) else { return Ok(None) };
        let text = read_text(&path).map_err(|error| error.to_string());
        let signer = text.and_then(|text| Signer::from_pem(&text));
        let mut signer = signer.map_err(|why| format!("token key {}: {why}", path.display()))?;
        (signer.audience, signer.issuer) = (self.token_audience.clone(), self.token_issuer.clone());
        Ok(Some(signer))
    }
}

/// The time since 1970.
pub(crate) fn now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
