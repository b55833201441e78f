//! Finds the problems that would keep a server from starting, without starting one: no listener is opened, and nothing
//! is written.
use super::listen::{self, Listen, ListenError};
use super::tls::Tls;
use super::{Config, StartError, metrics_http};
use crate::clock::System;
use crate::server::access::Access;
use std::sync::Arc;

/// The problems of the files that `config` names, and of its addresses. Problems that only a start shows, such as a
/// port in use or a damaged store, are not found.
pub(crate) async fn problems(config: &Config) -> Vec<String> {
    let mut wrong = files(config);
    wrong.extend(refused_addresses(config).await.iter().map(ToString::to_string));
    wrong
}

/// The addresses at which `config` does not allow to listen.
pub(super) async fn refused_addresses(config: &Config) -> Vec<ListenError> {
    let mut wrong = Vec::new();
    for listen in &config.listen {
        if let Listen::Tcp(address) = listen {
            wrong.extend(refused(address, listen::allowed(address, config.tcp()).await));
        }
    }
    if let Some(address) = &config.metrics {
        wrong.extend(refused(address, metrics_http::allowed(address, config.metrics_insecure).await));
    }
    wrong
}

fn files(config: &Config) -> Vec<String> {
    let tls = config.tls.clone().map(|files| Tls::load(files, config.http).err());
    let access = config.access.clone().map(|access| Access::load(access, Arc::new(System::new())).err());
    let mut wrong: Vec<_> = tls.into_iter().chain(access).flatten().collect();
    #[cfg(feature = "etcd")]
    if let super::StoreConfig::Etcd(replica) = &config.store {
        wrong.extend(
            crate::coordinator::store::etcd::Client::new(&replica.fleet.endpoints).err().map(|why| why.to_string()),
        );
        wrong.extend(super::fleet::PeerFiles::new(replica.peer_ca.as_ref(), config.tls.as_ref()).read().err());
    }
    if let Some(audit) = &config.audit
        && let Err(why) = audit.check()
    {
        wrong.push(StartError::Audit(audit.path.display().to_string(), std::io::Error::other(why)).to_string());
    }
    wrong
}

fn refused<T>(address: &str, allowed: Result<T, String>) -> Option<ListenError> {
    allowed.err().map(|why| ListenError::new(address, why))
}
