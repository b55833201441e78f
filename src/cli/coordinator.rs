//! The coordinator that tells when the thread is paused: the configured one, or a private one in this process.
//!
//! 1. A private coordinator listens before the command starts, in a directory that nobody else can enter, and leaves
//!    nothing behind: its state is in memory, and the directory goes when it is dropped.
use crate::{
    client::{Address, Client, ConfigError, Settings, Token},
    server::{self, Listen, Server, StoreConfig},
};
use std::{
    ffi::OsString,
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// Ends an elicitation whose holder asked for no lease, as `serve` does by default: a lost decrement must not freeze a
/// command for ever (G2).
const ANONYMOUS_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Where the command and its clock find the pauses of the thread.
pub(crate) struct Coordinator {
    client: Client,
    address: Address,
    settings: Settings,
    private: Option<TempDir>,
}

impl Coordinator {
    /// The one that the user runs. Needs a tokio runtime.
    ///
    /// # Errors
    /// The settings do not go together.
    pub(crate) fn configured(settings: Settings) -> Result<Self, ConfigError> {
        let config = settings.config()?;
        Ok(Self { client: Client::with_config(&config)?, address: config.address, settings, private: None })
    }

    /// A new one, served by the runtime that this is called on for as long as that runs.
    pub(crate) async fn private() -> Result<Self, String> {
        // The path of a Unix socket has at most 107 bytes: a deep TMPDIR may leave no room.
        let mut bases = vec![std::env::temp_dir()];
        bases.extend((bases[0] != Path::new("/tmp")).then(|| PathBuf::from("/tmp")));
        let mut problem = String::new();
        for base in bases {
            match Self::private_beneath(&base).await {
                Ok(coordinator) => return Ok(coordinator),
                Err(why) => problem = why,
            }
        }
        Err(problem)
    }

    async fn private_beneath(base: &Path) -> Result<Self, String> {
        let directory = tempfile::Builder::new()
            .prefix("pausewatch-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(base)
            .map_err(|error| error.to_string())?;
        let socket = directory.path().join("socket");
        let server = Server::start(server::Config {
            listen: vec![Listen::Unix(socket.clone())],
            store: StoreConfig::Memory,
            anonymous_ttl: Some(ANONYMOUS_TTL),
            ..server::Config::default()
        });
        let server = server.await.map_err(|error| error.to_string())?;
        tokio::spawn(server.run(std::future::pending()));
        let settings = Settings { address: Some(Address::Unix(socket)), ..Settings::default() };
        let configured = Self::configured(settings).map_err(|error| error.to_string())?;
        Ok(Self { private: Some(directory), ..configured })
    }

    pub(crate) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// What the command finds in its environment, so that all it starts calls this coordinator as we do. What does not
    /// hold for this one is empty, which counts as not set.
    pub(crate) fn environment(&self, thread_id: &str) -> Vec<(OsString, OsString)> {
        let Settings { token, tls_ca, tls_cert, tls_key, .. } = &self.settings;
        let of_file = |path: &Option<PathBuf>| path.clone().unwrap_or_default().into_os_string();
        let optional = [
            ("PAUSEWATCH_TOKEN", token.as_ref().map(Token::secret).unwrap_or_default().into()),
            ("PAUSEWATCH_TLS_CA", of_file(tls_ca)),
            ("PAUSEWATCH_TLS_CERT", of_file(tls_cert)),
            ("PAUSEWATCH_TLS_KEY", of_file(tls_key)),
        ];
        let always =
            [("PAUSEWATCH_ADDRESS", self.address.to_string().into()), ("PAUSEWATCH_THREAD_ID", thread_id.into())];
        let said = |(name, value): &(&str, OsString)| !value.is_empty() || std::env::var_os(name).is_some();
        let all = always.into_iter().chain(optional.into_iter().filter(said));
        all.map(|(name, value)| (name.into(), value)).collect()
    }
}
