//! The coordinator that tells when the thread is paused: the configured one, or a private one in this process.
//!
//! 1. A private coordinator listens before the command starts, in a directory that nobody else can enter, and leaves
//!    nothing behind: its state is in memory, and the directory goes when it is dropped. What a command gets opens its own
//!    thread alone.
//! 2. The directory has the socket in it, and nothing that the coordinator reads. Where commands are of several threads, it
//!    is, if it can be, where those in the sandbox cannot put a socket of theirs in its place, to be called by the others.
use super::token::{KEY_VARIABLE, now};
use crate::{
    client::{Address, Client, ConfigError, Settings, Token},
    core::{scope::Scope, types::ThreadId},
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
    time::Duration,
};
use tempfile::TempDir;

#[cfg(feature = "exec-server")]
use crate::server::access::{JwtConfig, PublicKeys};

/// Ends an elicitation whose holder asked for no lease, as `serve` does by default: a lost decrement must not freeze a
/// command for ever (G2).
const ANONYMOUS_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a command may be paused, its limit aside, before the token that was signed for it is of no use any more: a
/// person may take a weekend. It opens one thread, so that there is little to gain by less.
const TOKEN_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Of the token that an exec server signs for itself; it never leaves it but to the coordinator.
#[cfg(feature = "exec-server")]
const OUR_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Of the directory around the socket's own, in bytes.
const LONGEST_BASE: usize = 80;

/// Where the command and its clock find the pauses of the thread.
pub(crate) struct Coordinator {
    client: Client,
    address: Address,
    settings: Settings,
    commands: Commands,
    private: Option<TempDir>,
}

/// What commands prove themselves with.
enum Commands {
    /// What we do.
    Same,
    /// What is signed for the thread of each.
    #[cfg(feature = "exec-server")]
    Signed(Box<Signer>),
}

/// A token that opens this thread alone.
///
/// # Errors
/// It cannot be signed.
pub(crate) fn sign(signer: &Signer, thread_id: &str, limit: Duration) -> Result<Token, String> {
    let token = mint::Token {
        subject: format!("run {thread_id}").chars().take(64).collect(),
        role: Role::Holder,
        threads: vec![thread_id.to_owned()],
        prefixes: Vec::new(),
    };
    let signed = signer.sign(&token, now(), limit.saturating_add(TOKEN_TTL))?;
    Token::new(&signed).map_err(|error| error.to_string())
}

/// A token for ourselves that reads every thread, for as long as we run.
#[cfg(feature = "exec-server")]
fn sign_for_all(signer: &Signer) -> Result<Token, String> {
    let token = mint::Token {
        subject: "exec-server".to_owned(),
        role: Role::Watcher,
        threads: Vec::new(),
        prefixes: vec![String::new()],
    };
    Token::new(&signer.sign(&token, now(), OUR_TTL)?).map_err(|error| error.to_string())
}

/// Where a private coordinator listens.
struct Directory(TempDir);

impl Directory {
    /// Among the temporary files.
    fn make() -> Result<Self, String> {
        // The path of a Unix socket has at most 107 bytes: a deep TMPDIR may leave no room.
        let usual = std::env::temp_dir();
        let base = if usual.as_os_str().len() > LONGEST_BASE { Path::new("/tmp") } else { &usual };
        Self::make_in(base).or_else(|_| Self::make_in(Path::new("/tmp"))).map_err(|error| error.to_string())
    }

    /// Beneath none of these, which commands can write; if there is no such place, among the temporary files.
    #[cfg(feature = "exec-server")]
    fn make_outside(writable: &[PathBuf]) -> Result<Self, String> {
        let outside = bases_outside(bases(), writable).find_map(|base| Self::make_in(&base).ok());
        outside.map_or_else(Self::make, Ok).inspect(|Self(directory)| {
            if is_beneath(directory.path(), writable) {
                tracing::warn!(
                    directory = %directory.path().display(),
                    "commands in the sandbox can replace the socket of the coordinator: set XDG_RUNTIME_DIR to a directory \
                     of yours that they cannot write"
                );
            }
        })
    }

    fn make_in(base: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("pausewatch-").permissions(Permissions::from_mode(0o700)).tempdir_in(base).map(Self)
    }

    async fn serve(&self, access: AccessConfig) -> Result<Address, String> {
        let socket = self.0.path().join("socket");
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
}

/// Where sockets may be, the best first: what is gone after a restart of the machine, then what is the user's.
#[cfg(feature = "exec-server")]
fn bases() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let user = rustix::process::getuid().as_raw();
    let runtime = [named("XDG_RUNTIME_DIR"), Some(format!("/run/user/{user}").into()), Some("/run".into())];
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    runtime.into_iter().chain([cache]).flatten().collect()
}

/// Those that are there, have room for the name of a socket, and are beneath none of `writable`.
#[cfg(feature = "exec-server")]
fn bases_outside(bases: Vec<PathBuf>, writable: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let real = bases.into_iter().filter(|base| base.is_absolute()).filter_map(|base| base.canonicalize().ok());
    real.filter(|base| base.as_os_str().len() <= LONGEST_BASE && !is_beneath(base, writable))
}

#[cfg(feature = "exec-server")]
fn is_beneath(path: &Path, writable: &[PathBuf]) -> bool {
    writable.iter().filter_map(|root| root.canonicalize().ok()).any(|root| path.starts_with(root))
}

impl Coordinator {
    /// The one that the user runs. `token`: for the command and for us, instead of what `settings` has. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    /// The settings do not go together.
    pub(crate) fn configured(mut settings: Settings, token: Option<Token>) -> Result<Self, ConfigError> {
        settings.token = token.or(settings.token);
        let config = settings.config()?;
        let commands = Commands::Same;
        Ok(Self { client: Client::with_config(&config)?, address: config.address, settings, commands, private: None })
    }

    /// The same for commands of many threads. `signer`: signs for each of them and for us.
    ///
    /// # Errors
    /// The settings do not go together, or nothing can be signed.
    #[cfg(feature = "exec-server")]
    pub(crate) fn configured_for_all(settings: Settings, signer: Option<Signer>) -> Result<Self, String> {
        let token = signer.as_ref().map(sign_for_all).transpose()?;
        let configured = Self::configured(settings, token).map_err(|error| error.to_string())?;
        let commands = signer.map_or(Commands::Same, |signer| Commands::Signed(Box::new(signer)));
        Ok(Self { commands, ..configured })
    }

    /// A new one for one thread, served by the runtime that this is called on for as long as that runs.
    pub(crate) async fn private(thread_id: &str) -> Result<Self, String> {
        let thread = ThreadId::parse("thread_id", thread_id).map_err(|error| error.to_string())?;
        let secret = mint::secret()?;
        // The same for the command and for us: it may read its thread too.
        let token = Token::new(&secret).map_err(|error| error.to_string())?;
        let given = vec![(secret, Grant::new("run", Role::Holder, Scope::one(&thread)))];
        let directory = Directory::make()?;
        let address = directory.serve(AccessConfig { given, ..AccessConfig::default() }).await?;
        let settings = Settings { address: Some(address), ..Settings::default() };
        let configured = Self::configured(settings, Some(token)).map_err(|error| error.to_string())?;
        Ok(Self { private: Some(directory.0), ..configured })
    }

    /// A new one for many threads: commands have tokens that are signed for theirs, with a key that nobody else has.
    /// `writable`: what those in the sandbox can write.
    #[cfg(feature = "exec-server")]
    pub(crate) async fn private_for_all(writable: &[PathBuf]) -> Result<Self, String> {
        let pair = mint::Pair::generate()?;
        let directory = Directory::make_outside(writable)?;
        // Not by a file: who could change it would open every thread.
        let jwt = Some(JwtConfig::with_keys(PublicKeys::Text(pair.public)));
        let address = directory.serve(AccessConfig { jwt, ..AccessConfig::default() }).await?;
        let settings = Settings { address: Some(address), ..Settings::default() };
        let configured = Self::configured_for_all(settings, Some(Signer::from_pem(&pair.private)?))?;
        Ok(Self { private: Some(directory.0), ..configured })
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

    /// What the command finds in its environment, so that all it starts calls this coordinator as we do. A variable that does
    /// not hold for this one is empty, which counts as not set; what a config file has for one with TLS does not come through
    /// to an address in plain text (`client/settings.rs`, 4).
    pub(crate) fn environment(&self, thread_id: &str) -> Vec<(OsString, OsString)> {
        let Settings { tls_ca, tls_cert, tls_key, .. } = &self.settings;
        let token = match &self.commands {
            Commands::Same => self.settings.token.clone(),
            #[cfg(feature = "exec-server")]
            Commands::Signed(signer) => sign(signer, thread_id, Duration::ZERO)
                .inspect_err(|why| tracing::warn!(thread_id, why, "a command has no token"))
                .ok(),
        };
        let of_file = |path: &Option<PathBuf>| path.clone().unwrap_or_default().into_os_string();
        let optional = [
            ("PAUSEWATCH_TOKEN", token.as_ref().map(Token::secret).unwrap_or_default().into()),
            // Who can sign could open every thread.
            (KEY_VARIABLE, OsString::new()),
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

#[cfg(all(test, feature = "exec-server"))]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_beneath_nothing_that_commands_write() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let [writable, own, link] = ["writable", "own", "link"].map(|name| base.join(name));
        let deep = base.join("d".repeat(LONGEST_BASE));
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
