//! The options of replicas over etcd.
use crate::coordinator::store::etcd::{Endpoints, FleetConfig};
use crate::server::{ReplicaConfig, StoreConfig};
use std::path::PathBuf;

/// Replicas over etcd.
#[derive(Debug, clap::Args)]
pub(super) struct EtcdArgs {
    /// A member of the etcd cluster that keeps the state with --store etcd, such as https://etcd-1:2379. Name all members. Several
    /// servers with the same members and prefix are the replicas of one fleet: all serve, one leads, and the others take over.
    /// Repeatable, or with commas between them.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd_endpoints: Vec<String>,
    /// The beginning of the keys of this fleet in etcd.
    #[arg(long, value_name = "PREFIX", default_value = "/pausewatch/", value_parser = prefix)]
    etcd_prefix: String,
    /// The authorities of the certificates of etcd, a PEM file [default: those of the system].
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// The certificate that etcd knows this server by, a PEM file.
    #[arg(long, value_name = "FILE")]
    etcd_cert: Option<PathBuf>,
    /// The key of --etcd-cert, a PEM file.
    #[arg(long, value_name = "FILE")]
    etcd_key: Option<PathBuf>,
    /// Leave the history of etcd's keys alone, because other programs need it: something else has to compact etcd then. Without
    /// this, the leader compacts it every minute.
    #[arg(long)]
    no_etcd_compact: bool,
    /// Where clients and other replicas reach this one, HOST:PORT or https://HOST:PORT [default: the first --listen].
    #[arg(long, value_name = "ADDRESS", value_parser = advertised)]
    advertise: Option<String>,
    /// The authorities of the certificates of the other replicas, a PEM file [default: those of the system].
    #[arg(long, value_name = "FILE")]
    peer_ca: Option<PathBuf>,
}

impl EtcdArgs {
    /// Where the state is kept, with `--store etcd`.
    ///
    /// # Errors
    /// No member is named.
    pub(super) fn store(self) -> Result<StoreConfig, String> {
        if self.etcd_endpoints.is_empty() {
            return Err("--store etcd needs --etcd-endpoints, such as http://127.0.0.1:2379".into());
        }
        let EtcdArgs { etcd_endpoints: urls, etcd_ca: ca, etcd_cert: cert, etcd_key: key, .. } = self;
        let endpoints = Endpoints { urls, ca, cert, key };
        let fleet = FleetConfig { endpoints, prefix: self.etcd_prefix, compact: !self.no_etcd_compact };
        Ok(StoreConfig::Etcd(Box::new(ReplicaConfig { fleet, advertise: self.advertise, peer_ca: self.peer_ca })))
    }

    /// `store`, which needs none of these options.
    ///
    /// # Errors
    /// Members are named in vain.
    pub(super) fn unused(self, store: StoreConfig) -> Result<StoreConfig, String> {
        match self.etcd_endpoints.is_empty() {
            true => Ok(store),
            false => Err("--etcd-endpoints has no effect without --store etcd: add that, or leave it out".into()),
        }
    }
}

/// The beginning of keys.
///
/// # Errors
/// It is empty or too long, or has control characters.
pub(crate) fn prefix(text: &str) -> Result<String, String> {
    match text.trim_matches('/').is_empty() || text.len() > 256 || text.contains(char::is_control) {
        true => Err("expected 1 to 256 bytes besides slashes, without control characters, such as /pausewatch/".into()),
        false => Ok(text.to_owned()),
    }
}

fn advertised(text: &str) -> Result<String, String> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
    let port = authority.rsplit_once(':').map(|(host, port)| (host.is_empty(), port.parse::<u16>()));
    match port {
        Some((false, Ok(1..))) if !authority.contains('/') => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT or https://HOST:PORT".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{advertised, prefix};

    #[test]
    fn an_advertised_address_has_a_host_and_a_port() {
        for good in ["a:1", "https://a.example:7420", "http://127.0.0.1:7420", "[::1]:7420"] {
            assert!(advertised(good).is_ok(), "{good}");
        }
        for bad in ["", "a", ":1", "a:0", "a:x", "https://a", "a:1/b", "unix:/a"] {
            assert!(advertised(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_prefix_has_more_than_slashes() {
        assert!(prefix("/a/").is_ok() && prefix("a").is_ok());
        assert!(prefix("").is_err() && prefix("//").is_err() && prefix("/a\n").is_err());
    }
}
