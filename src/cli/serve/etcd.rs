//! The options of replicas over etcd.
use crate::coordinator::store::etcd::{Endpoints, FleetConfig};
use crate::server::{Listen, ReplicaConfig, StoreConfig};
use std::net::IpAddr;
use std::path::PathBuf;
use tonic::transport::Uri;

/// Replicas over etcd.
#[derive(Debug, clap::Args)]
pub(super) struct EtcdArgs {
    /// A member of the etcd cluster that keeps the state with --store etcd, such as https://etcd-1:2379. Name all members. Several
    /// servers with the same members and prefix are the replicas of one fleet: all serve, one leads, and the others take over.
    /// Repeatable, or with commas between them.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = member)]
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
    /// An option needs another one.
    pub(super) fn store(self) -> Result<StoreConfig, String> {
        if self.etcd_endpoints.is_empty() {
            return Err("--store etcd needs --etcd-endpoints, such as http://127.0.0.1:2379".into());
        }
        let EtcdArgs { etcd_endpoints: urls, etcd_ca: ca, etcd_cert: cert, etcd_key: key, .. } = self;
        match (&cert, &key) {
            (Some(_), None) => return Err("--etcd-cert needs --etcd-key too".into()),
            (None, Some(_)) => return Err("--etcd-key needs --etcd-cert too".into()),
            _ => {}
        }
        let has_files = ca.is_some() || cert.is_some();
        if let Some(url) = urls.iter().find(|url| has_files && !url.starts_with("https://")) {
            return Err(format!("--etcd-ca, --etcd-cert and --etcd-key need https, and --etcd-endpoints has {url}"));
        }
        let endpoints = Endpoints { urls, ca, cert, key };
        let fleet = FleetConfig { endpoints, prefix: self.etcd_prefix, compact: !self.no_etcd_compact };
        Ok(StoreConfig::Etcd(Box::new(ReplicaConfig { fleet, advertise: self.advertise, peer_ca: self.peer_ca })))
    }

    /// Why other replicas could not reach this one, which listens at `listen`.
    pub(super) fn unreachable(&self, listen: &[Listen]) -> Option<String> {
        let first = listen.first().filter(|first| self.advertise.is_none() && !is_of_one_machine(first))?;
        Some(format!(
            "--store etcd with --listen {first} needs --advertise HOST:PORT: where other replicas reach this one"
        ))
    }

    /// Returns `store`, which uses none of these options.
    ///
    /// # Errors
    /// One of them is set, and would have no effect.
    pub(super) fn unused(self, store: StoreConfig) -> Result<StoreConfig, String> {
        let set = [
            ("--etcd-endpoints", !self.etcd_endpoints.is_empty()),
            ("--etcd-ca", self.etcd_ca.is_some()),
            ("--etcd-cert", self.etcd_cert.is_some()),
            ("--etcd-key", self.etcd_key.is_some()),
            ("--no-etcd-compact", self.no_etcd_compact),
            ("--advertise", self.advertise.is_some()),
            ("--peer-ca", self.peer_ca.is_some()),
        ];
        match set.iter().find(|(_, is_set)| *is_set) {
            None => Ok(store),
            Some((option, _)) => Err(format!("{option} has no effect without --store etcd: add that, or leave it out")),
        }
    }
}

/// Whether the address that a server listens at names one machine, so that others may reach the server there: not
/// `0.0.0.0`, `[::]`, or a Unix socket.
fn is_of_one_machine(listen: &Listen) -> bool {
    match listen {
        Listen::Tcp(address) => !is_unspecified(address),
        Listen::Unix(_) => false,
    }
}

/// Whether the host of `HOST:PORT` is `0.0.0.0` or `[::]`, which name no machine.
fn is_unspecified(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().is_ok_and(|host| host.is_unspecified())
}

/// The URL of a member of etcd.
///
/// # Errors
/// It has no scheme or host, or has a password, which would be logged.
pub(crate) fn member(text: &str) -> Result<String, String> {
    let url = text.parse::<Uri>().ok().filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    match url.as_ref().and_then(Uri::authority) {
        Some(authority) if authority.as_str().contains('@') => {
            Err("expected no user in it: a server shows etcd who it is by --etcd-cert and --etcd-key".into())
        }
        Some(authority) if !authority.host().is_empty() => Ok(text.to_owned()),
        _ => Err("expected http://HOST:PORT or https://HOST:PORT".into()),
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
        Some((false, Ok(1..))) if is_unspecified(authority) => {
            Err("expected the address of one machine, such as replica-1.example.com:7420".into())
        }
        Some((false, Ok(1..))) if !authority.contains('/') => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT or https://HOST:PORT".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{advertised, member, prefix};

    #[test]
    fn an_advertised_address_has_a_host_and_a_port() {
        for good in ["a:1", "https://a.example:7420", "http://127.0.0.1:7420", "[::1]:7420"] {
            assert!(advertised(good).is_ok(), "{good}");
        }
        for bad in ["", "a", ":1", "a:0", "a:x", "https://a", "a:1/b", "unix:/a", "0.0.0.0:7420", "https://[::]:7420"] {
            assert!(advertised(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_member_has_a_scheme_and_no_password() {
        for good in ["http://127.0.0.1:2379", "https://etcd-1:2379/", "https://[::1]:2379"] {
            assert!(member(good).is_ok(), "{good}");
        }
        for bad in ["", "foo", "etcd:2379", "ftp://x", "http://", "http://root:secret@etcd:2379"] {
            assert!(member(bad).is_err_and(|why| !why.contains("secret")), "{bad}");
        }
    }

    #[test]
    fn a_prefix_has_more_than_slashes() {
        assert!(prefix("/a/").is_ok() && prefix("a").is_ok());
        assert!(prefix("").is_err() && prefix("//").is_err() && prefix("/a\n").is_err());
    }
}
