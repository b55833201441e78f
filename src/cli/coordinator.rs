//! The coordinator of `run` and `exec-server`: the configured one, or a private one in this process.
//!
//! 1. A private coordinator listens before the command starts, in a directory that only this user can enter, and leaves
//!    nothing behind: its state is in memory, and dropping it removes the directory. The token of a command opens only
//!    its own thread, and those that it waits for.
//! 2. The directory contains only the socket, nothing that the coordinator reads. If commands of several threads use it, it
//!    is outside the paths that sandboxed commands can write, if possible: otherwise a command could replace the socket and
//!    impersonate the coordinator.
use super::token::{KEY_VARIABLE, now, signed_anew};
use crate::{
    client::{Address, Client, ConfigError, Settings, Token, TokenSource, is_pipe_or_device},
    core::scope::Scope,
    server::access::{
        AccessConfig, Grant, Role,
        mint::{self, Signer},
    },
    server::{self, Listen, Server, StoreConfig},
};
use std::{
    ffi::OsString,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

#[cfg(feature = "exec-server")]
use crate::server::access::{JwtConfig, PublicKeys};

/// The lease of elicitations without a `ttl`, as in `serve` by default: a lost decrement must not pause a command forever
/// (G2).
const ANONYMOUS_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The lifetime of a command's token beyond its time limit: a person may take a weekend. The token opens one thread, so a
/// shorter lifetime gains little.
const TOKEN_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The maximum length of the path of a Unix socket, in bytes.
const MAX_SOCKET_PATH: usize = 107;
/// The maximum length of the path of its parent directory, in bytes.
const MAX_BASE_LENGTH: usize = 80;

/// A coordinator, and how commands reach it.
pub(crate) struct Coordinator {
    client: Client,
    address: Address,
    settings: Settings,
    command_token: CommandToken,
    private: Option<PrivateSocket>,
}

/// The socket of a private coordinator.
enum PrivateSocket {
    /// In its own temporary directory, which is removed with it.
    Temporary { _directory: TempDir },
    /// At a path that the caller chose.
    Given,
}

/// The token of commands.
enum CommandToken {
    /// Our own.
    Own,
    /// A token that is signed for the command's thread.
    #[cfg(feature = "exec-server")]
    Signed(Arc<Signer>),
}

/// The tokens of `run`, signed with one key.
pub(crate) struct SignedTokens {
    /// In the environment of the command, where it cannot be replaced.
    command: Token,
    /// Our own token, renewed as long as the command runs.
    own: TokenSource,
}

impl SignedTokens {
    /// Both open these threads, the first of which is the command's. `limit`: the time limit of the command.
    ///
    /// # Errors
    /// They cannot be signed.
    pub(crate) fn sign(signer: Signer, thread_ids: &[String], limit: Duration) -> Result<Self, String> {
        let command = sign(&signer, thread_ids, limit)?;
        Ok(Self { command, own: signed_anew(signer.into(), for_threads(thread_ids), now)? })
    }
}

/// Signs a token that opens these threads, the first of which is the command's, for a command with this time limit.
fn sign(signer: &Signer, thread_ids: &[String], limit: Duration) -> Result<Token, String> {
    let signed = signer.sign(&for_threads(thread_ids), now(), limit.saturating_add(TOKEN_TTL))?;
    Token::new(&signed).map_err(|error| error.to_string())
}

fn for_threads(thread_ids: &[String]) -> mint::Token {
    mint::Token {
        subject: format!("run {}", thread_ids.first().map_or("", String::as_str)).chars().take(64).collect(),
        role: Role::Holder,
        threads: thread_ids.to_vec(),
        prefixes: Vec::new(),
    }
}

/// The token of an exec server, which reads every thread and is sent only to the coordinator.
#[cfg(feature = "exec-server")]
fn for_all() -> mint::Token {
    let (subject, role) = ("exec-server".to_owned(), Role::Watcher);
    mint::Token { subject, role, threads: Vec::new(), prefixes: vec![String::new()] }
}

/// The directory of a private coordinator's socket.
struct Directory(TempDir);

impl Directory {
    /// Creates it outside the directories for temporary files, which sandboxed commands can write; if that is impossible, in
    /// one of these.
    fn create() -> Result<Self, String> {
        let temporary = std::env::temp_dir();
        let writable = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from).into_iter().chain([temporary.clone()]);
        let outside =
            bases_outside(bases(), &writable.collect::<Vec<_>>()).find_map(|base| Self::create_in(&base).ok());
        if let Some(outside) = outside {
            return Ok(outside);
        }
        let base = if temporary.as_os_str().len() > MAX_BASE_LENGTH { Path::new("/tmp") } else { &temporary };
        Self::create_in(base).or_else(|_| Self::create_in(Path::new("/tmp"))).map_err(|error| error.to_string())
    }

    /// Creates it outside the writable paths; if that is impossible, in the directory for temporary files.
    #[cfg(feature = "exec-server")]
    fn create_outside(writable: &[PathBuf]) -> Result<Self, String> {
        let outside = bases_outside(bases(), writable).find_map(|base| Self::create_in(&base).ok());
        outside.map_or_else(Self::create, Ok).inspect(|Self(directory)| {
            if is_below(directory.path(), writable) {
                tracing::warn!(
                    directory = %directory.path().display(),
                    "sandboxed commands can replace the socket of the coordinator: set XDG_RUNTIME_DIR to a directory that \
                     they cannot write"
                );
            }
        })
    }

    fn create_in(base: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("pausewatch-").permissions(Permissions::from_mode(0o700)).tempdir_in(base).map(Self)
    }

    async fn serve(&self, access: AccessConfig) -> Result<Address, String> {
        serve(self.0.path().join("socket"), access).await
    }
}

/// Accepts one token, which may read and pause these threads.
fn holder(secret: &str, subject: &str, thread_ids: &[String]) -> Result<AccessConfig, String> {
    let scope = Scope::of(thread_ids, &[]).map_err(|error| error.to_string())?;
    let given = vec![(secret.to_owned(), Grant::new(subject, Role::Holder, scope))];
    Ok(AccessConfig { given, ..AccessConfig::default() })
}

/// Serves a private coordinator at the path, by a task of the current tokio runtime.
async fn serve(socket: PathBuf, access: AccessConfig) -> Result<Address, String> {
    let server = Server::start(server::Config {
        listen: vec![Listen::Unix(socket.clone())],
        store: StoreConfig::Memory,
        anonymous_ttl: Some(ANONYMOUS_TTL),
        access: Some(access),
        ..server::Config::default()
    });
    let server = server.await.map_err(|error| error.to_string())?;
    tokio::spawn(server.run(std::future::pending()));
    Ok(Address::Unix(socket))
}

/// The directories for sockets, the best first: those that a reboot clears, then the user's own.
fn bases() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let user = rustix::process::getuid().as_raw();
    let runtime = [named("XDG_RUNTIME_DIR"), Some(format!("/run/user/{user}").into()), Some("/run".into())];
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    runtime.into_iter().chain([cache]).flatten().collect()
}

/// The canonical paths of the bases that exist, are short enough, and are outside `writable`.
fn bases_outside(bases: Vec<PathBuf>, writable: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let real = bases.into_iter().filter(|base| base.is_absolute()).filter_map(|base| base.canonicalize().ok());
    real.filter(|base| base.as_os_str().len() <= MAX_BASE_LENGTH && !is_below(base, writable))
}

fn is_below(path: &Path, writable: &[PathBuf]) -> bool {
    writable.iter().filter_map(|root| root.canonicalize().ok()).any(|root| path.starts_with(root))
}

impl Coordinator {
    /// The coordinator that `settings` names. `signed` replaces the token of `settings`, for the command and for us. Needs a
    /// tokio runtime.
    ///
    /// # Errors
    /// The settings contradict each other.
    pub(crate) fn configured(mut settings: Settings, signed: Option<SignedTokens>) -> Result<Self, ConfigError> {
        let own = signed.map(|SignedTokens { command, own }| {
            (settings.token, settings.token_file) = (Some(command), None);
            own
        });
        Self::connected(settings, own)
    }

    /// `own` replaces the token of `settings` for us.
    fn connected(mut settings: Settings, own: Option<TokenSource>) -> Result<Self, ConfigError> {
        let mut config = settings.config()?;
        if own.is_some() {
            (config.token, config.token_source) = (None, own);
        }
        // If the token comes from a pipe, the pipe is read now, so that no clock runs during the wait. An invalid token
        // makes the calls fail.
        let token = config.token_source.as_ref().map(TokenSource::token);
        // The pipe is empty now, so the command gets the token itself.
        if settings.token_file.as_deref().is_some_and(is_pipe_or_device) {
            (settings.token, settings.token_file) = (token.and_then(Result::ok), None);
        }
        let client = Client::with_config(&config)?;
        Ok(Self { client, address: config.address, settings, command_token: CommandToken::Own, private: None })
    }

    /// Like [`Self::configured`], for commands of many threads. `signer` signs their tokens and ours.
    ///
    /// # Errors
    /// The settings contradict each other, or a token cannot be signed.
    #[cfg(feature = "exec-server")]
    pub(crate) fn configured_for_all(settings: Settings, signer: Option<Signer>) -> Result<Self, String> {
        let signer = signer.map(Arc::new);
        let own = signer.clone().map(|signer| signed_anew(signer, for_all(), now)).transpose()?;
        let configured = Self::connected(settings, own).map_err(|error| error.to_string())?;
        let command_token = signer.map_or(CommandToken::Own, CommandToken::Signed);
        Ok(Self { command_token, ..configured })
    }

    /// A private coordinator for these threads, served by the current tokio runtime.
    pub(crate) async fn private(thread_ids: &[String]) -> Result<Self, String> {
        let secret = mint::secret()?;
        // The command and we share the token, which may read and pause the threads.
        let token = Token::new(&secret).map_err(|error| error.to_string())?;
        let access = holder(&secret, "run", thread_ids)?;
        let directory = Directory::create()?;
        let address = directory.serve(access).await?;
        let settings = Settings { address: Some(address), token: Some(token), ..Settings::default() };
        let configured = Self::configured(settings, None).map_err(|error| error.to_string())?;
        Ok(Self { private: Some(PrivateSocket::Temporary { _directory: directory.0 }), ..configured })
    }

    /// A private coordinator for one thread at a path in a directory that only this user can enter. `token`: that of the programs which may read and
    /// pause the thread. The socket is removed when the current tokio runtime, which serves it, ends.
    pub(crate) async fn private_at(socket: &Path, token: Token, thread_id: &str) -> Result<Self, String> {
        let access = holder(token.secret(), "hook claude", &[thread_id.to_owned()])?;
        let address = serve(socket.to_owned(), access).await?;
        let settings = Settings { address: Some(address), token: Some(token), ..Settings::default() };
        let configured = Self::configured(settings, None).map_err(|error| error.to_string())?;
        Ok(Self { private: Some(PrivateSocket::Given), ..configured })
    }

    /// A private coordinator for many threads: each command gets a token for its thread, signed with a new key.
    /// `writable`: the paths that sandboxed commands can write.
    #[cfg(feature = "exec-server")]
    pub(crate) async fn private_for_all(writable: &[PathBuf]) -> Result<Self, String> {
        let pair = mint::Pair::generate()?;
        let directory = Directory::create_outside(writable)?;
        // Not a file, because a command that changed it could open every thread.
        let jwt = Some(JwtConfig::with_keys(PublicKeys::Text(pair.public)));
        let address = directory.serve(AccessConfig { jwt, ..AccessConfig::default() }).await?;
        let settings = Settings { address: Some(address), ..Settings::default() };
        let configured = Self::configured_for_all(settings, Some(Signer::from_pem(&pair.private)?))?;
        Ok(Self { private: Some(PrivateSocket::Temporary { _directory: directory.0 }), ..configured })
    }

    pub(crate) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// One line for people: the thread with its source, if one is named, and the coordinator.
    pub(crate) fn described(&self, thread: Option<(&str, &str)>) -> String {
        let coordinator = match self.is_private() {
            true => "a private coordinator".to_owned(),
            false => format!("coordinator at {}", self.address),
        };
        match thread {
            Some((thread_id, source)) => format!("thread {thread_id:?} from {source}, {coordinator}"),
            None => coordinator,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The environment variables for a command, so that its child processes call this coordinator. A variable that does not
    /// apply is empty, which counts as not set. TLS settings of a config file do not apply to a plaintext address
    /// (`client/settings.rs`, 4).
    pub(crate) fn environment(&self, thread_id: &str) -> Vec<(OsString, OsString)> {
        let Settings { token_file, tls_ca, tls_cert, tls_key, .. } = &self.settings;
        let is_own = matches!(self.command_token, CommandToken::Own);
        let token = match &self.command_token {
            CommandToken::Own => self.settings.token.clone(),
            #[cfg(feature = "exec-server")]
            CommandToken::Signed(signer) => sign(signer, &[thread_id.to_owned()], Duration::ZERO)
                .inspect_err(|why| tracing::warn!(thread_id, why, "sign a token for a command"))
                .ok(),
        };
        // The command may run in another directory.
        let file = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let optional_file = |path: &Option<PathBuf>| path.as_ref().map(file).unwrap_or_default().into_os_string();
        let config = std::env::var_os("PAUSEWATCH_CONFIG").map(PathBuf::from);
        let optional = [
            ("PAUSEWATCH_CONFIG", optional_file(&config)),
            ("PAUSEWATCH_TOKEN", token.as_ref().map(Token::secret).unwrap_or_default().into()),
            ("PAUSEWATCH_TOKEN_FILE", if is_own { optional_file(token_file) } else { OsString::new() }),
            // With the signing key, a command could open every thread.
            (KEY_VARIABLE, OsString::new()),
            ("PAUSEWATCH_TLS_CA", optional_file(tls_ca)),
            ("PAUSEWATCH_TLS_CERT", optional_file(tls_cert)),
            ("PAUSEWATCH_TLS_KEY", optional_file(tls_key)),
        ];
        let address = match &self.address {
            Address::Unix(path) => {
                let absolute = Some(file(path)).filter(|path| path.as_os_str().len() <= MAX_SOCKET_PATH);
                Address::Unix(absolute.unwrap_or_else(|| path.clone()))
            }
            address => address.clone(),
        };
        let always = [("PAUSEWATCH_ADDRESS", address.to_string().into()), ("PAUSEWATCH_THREAD_ID", thread_id.into())];
        let is_needed = |(name, value): &(&str, OsString)| !value.is_empty() || std::env::var_os(name).is_some();
        let all = always.into_iter().chain(optional.into_iter().filter(is_needed));
        all.map(|(name, value)| (name.into(), value)).collect()
    }
}

#[cfg(all(test, feature = "exec-server"))]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_outside_writable_paths() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let [writable, own, link] = ["writable", "own", "link"].map(|name| base.join(name));
        let deep = base.join("d".repeat(MAX_BASE_LENGTH));
        for made in [&writable.join("in"), &own, &deep] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::os::unix::fs::symlink(&writable, &link).unwrap();
        let outside = |bases: &[&Path]| {
            let bases = bases.iter().map(|base| base.to_path_buf()).collect();
            bases_outside(bases, std::slice::from_ref(&writable)).collect::<Vec<_>>()
        };
        let all = [&writable.join("in"), &link, &base.join("none"), &deep, Path::new("relative"), &own];
        assert_eq!(outside(&all), [own]);
        assert_eq!(outside(&[&writable]), [] as [PathBuf; 0]);
    }
}
