//! `pausewatch token create`: a JSON web token.
use super::grants::Grants;
use super::problem::Problem;
use super::signing_key::{Key, now};
use std::time::Duration;

/// The arguments of `token create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A server accepts the token if it was started with the public key:
  pausewatch token key issuer.key
  pausewatch serve --jwt-keys issuer.key.pub &
  export PAUSEWATCH_TOKEN=$(pausewatch token create --token-key issuer.key --thread-id t --ttl 1h)")]
pub(super) struct Args {
    #[command(flatten)]
    grants: Grants,
    /// How long the token is valid, such as 30s, 10m, 1h or 30d. It cannot be revoked earlier.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = super::super::duration::parse_validity)]
    ttl: Duration,
    #[command(flatten)]
    key: Key,
}

pub(super) fn run(args: Args) -> Result<String, Problem> {
    let signer = args.key.signer().map_err(Problem::Failed)?;
    let signer = signer.ok_or_else(|| {
        Problem::Usage(
            "no key: name one with --token-key or PAUSEWATCH_TOKEN_KEY; `pausewatch token key` creates one".into(),
        )
    })?;
    signer.sign(&args.grants.token()?, now(), args.ttl).map_err(Problem::Failed)
}
