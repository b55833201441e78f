//! The parts of a server that do not depend on its store: files, the state that calls share, and the layers before its
//! services.
use super::access::Access;
use super::admission::ServiceContext;
use super::audit::Trail;
use super::config::{Config, StartError};
use super::grpc::{Elicitations, MakeElicitations};
use super::http::{Browsers, HttpContext};
use super::listen::{Listener, Tcp};
use super::pause_log::{ChangeObservers, PauseLog};
use super::reload::{self, FileDigests, Source};
use super::routes::{self, LayerStack};
use super::tls::Tls;
use crate::clock::Clock;
use crate::coordinator::metrics::Metrics;
use crate::coordinator::quota::Accounts;
use crate::coordinator::{ChangeObserver, Settings};
#[cfg(feature = "etcd")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The parts of a server that do not depend on its store.
pub(super) struct Base {
    pub(super) config: Config,
    tcp: Tcp,
    seen: FileDigests,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) trail: Option<Arc<Mutex<Trail>>>,
    pub(super) guard: LayerStack,
}

impl Base {
    pub(super) fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let tcp = config.tcp();
        let seen = FileDigests::before_loading(config.files());
        let tls = config.tls.clone().map(|files| Tls::load(files, config.http)).transpose();
        let tls = tls.map_err(StartError::Security)?;
        let access = config.access.clone().map(|access| Access::load(access, clock.clone())).transpose();
        let access = access.map_err(StartError::Security)?;
        if access.is_some() && tls.is_none() && config.insecure {
            tracing::warn!("--insecure: others on the network can read and use the tokens; use TLS instead");
        }
        let context = Arc::new(ServiceContext {
            metrics: Arc::<Metrics>::default(),
            accounts: Arc::<Accounts>::default(),
            limits: config.limits,
            trace_calls: config.trace_calls,
        });
        let trail = config.audit.as_ref().map(|audit| {
            let trail = Trail::open(audit, context.metrics.clone(), clock.now());
            trail.map_err(|error| StartError::Audit(audit.path.display().to_string(), error))
        });
        let trail = trail.transpose()?.map(|trail| Arc::new(Mutex::new(trail)));
        let http = config.http.then(|| {
            let names = config.web_hosts.iter().map(|name| name.to_ascii_lowercase()).collect();
            let browsers = Browsers { names, has_tls: tls.is_some() };
            Arc::new(HttpContext::new(routes::methods, browsers))
        });
        let guard = LayerStack { context, clock, access, http, drain: CancellationToken::new() };
        Ok(Base { config, tcp, seen, tls, trail, guard })
    }

    /// The settings of an engine.
    pub(super) fn settings(&self) -> Box<dyn Fn() -> Settings + Send + Sync> {
        let Config { anonymous_ttl, max_pause, limits, log_every_pause, .. } = self.config;
        let (trail, metrics) = (self.trail.clone(), self.guard.context.metrics.clone());
        Box::new(move || {
            let mut witnesses: Vec<Box<dyn ChangeObserver>> = vec![Box::new(PauseLog::new(log_every_pause))];
            witnesses.extend(trail.clone().map(|trail| Box::new(trail) as Box<dyn ChangeObserver>));
            let witness: Option<Box<dyn ChangeObserver>> = Some(Box::new(ChangeObservers(witnesses)));
            Settings { anonymous_ttl, max_pause, limits: Some(limits), metrics: metrics.clone(), witness }
        })
    }

    /// The service of an engine.
    pub(super) fn elicitations(&self) -> MakeElicitations {
        let (context, access) = (self.guard.context.clone(), self.guard.access.clone());
        Box::new(move |coordinator, clock| Elicitations::new(coordinator, clock, context.clone(), access.clone()))
    }

    pub(super) async fn open_listeners(&self) -> Result<Vec<Listener>, StartError> {
        let mut listeners = Vec::new();
        for listen in &self.config.listen {
            listeners.push(Listener::open(listen, self.tcp).await?);
        }
        Ok(listeners)
    }

    /// The files that are reloaded at run time, with what to do when one changes.
    pub(super) fn sources(&self) -> Vec<Source> {
        let certificates = self.tls.iter().cloned().map(|tls| certificates(tls, &self.seen));
        certificates.chain(self.guard.access.clone().map(|access| tokens(access, &self.seen))).collect()
    }

    /// Other files that are reloaded at run time; `None`: there are none.
    #[cfg(feature = "etcd")]
    pub(super) fn source(&self, what: &'static str, files: Vec<PathBuf>, reload: reload::Load) -> Option<Source> {
        (!files.is_empty()).then(|| Source::new(what, files, &self.seen, reload))
    }
}

fn certificates(tls: Arc<Tls>, seen: &FileDigests) -> Source {
    let reload = Box::new({
        let tls = tls.clone();
        move || tls.reload()
    });
    Source::new("certificates", tls.files(), seen, reload)
}

fn tokens(access: Arc<Access>, seen: &FileDigests) -> Source {
    let files = access.files();
    if let Some(path) = access.secret_file() {
        reload::warn_if_open_to_others("--tokens", path);
    }
    Source::new("tokens", files, seen, Box::new(move || access.reload()))
}
