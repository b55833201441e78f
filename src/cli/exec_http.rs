//! The options of `exec-server` for HTTP, and its token.
//!
//! A command must not approve itself (G8). So the owner of a token is asked only if commands cannot read the token: Landlock cannot except one file
//! from reading, and the environment of a process is readable for root.
use super::{failure, output};
use crate::{
    client::read_text,
    exec::mcp::{HTTP_TOKEN, Http, HttpToken, PATH},
};
use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::PathBuf,
};
use tokio::net::TcpListener;

/// The minimum length of a token for HTTP, in characters.
const MIN_TOKEN_LENGTH: usize = 16;
/// The maximum of bytes that are read from a descriptor.
const MAX_LENGTH: u64 = 1 << 16;
/// CAP_SYS_ADMIN and CAP_PERFMON of `linux/capability.h`: each lets a process read the environment of others, also in a sandbox.
const READS_ENVIRONMENTS: u64 = 1 << 21 | 1 << 38;

/// The options for HTTP.
#[derive(Debug, clap::Args)]
pub(super) struct HttpArgs {
    /// Serve streamable HTTP at HOST:PORT (port 0: any), path /mcp, instead of standard input and output. Any client can run
    /// commands: see --http-token-fd.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Serve only requests with the token that this open file descriptor, such as a pipe, contains, as `Authorization: Bearer
    /// TOKEN`. Only with a token that commands cannot read, a person is asked over HTTP [env: PAUSEWATCH_HTTP_TOKEN, the token
    /// itself, which commands do not get].
    #[arg(long, value_name = "N", requires = "http", conflicts_with = "http_token_file")]
    http_token_fd: Option<u16>,
    /// The same with the token in this file. Commands can read a regular file, so nobody is asked then.
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
    /// Ask a person also for callers that are on another machine or behind a proxy, which may be commands of this server.
    #[arg(long, requires = "http")]
    http_trust_proxy: bool,
    /// Allow plaintext HTTP on addresses other than loopback: put a TLS proxy in front of it. Requires a token.
    #[arg(long, requires = "http")]
    insecure: bool,
}

/// The token, as it was read.
pub(crate) struct ReadToken {
    secret: String,
    /// Who else can read it.
    place: Place,
}

enum Place {
    /// A pipe, or a file that has no name.
    Hidden,
    /// A regular file.
    File,
    Variable,
}

impl HttpArgs {
    /// Reads the token. Call it before inherited file descriptors are closed.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub(crate) fn token(&self) -> Result<Option<ReadToken>, String> {
        if self.http.is_none() {
            return Ok(None);
        }
        let (text, place, source) = match (self.http_token_fd, &self.http_token_file, std::env::var(HTTP_TOKEN)) {
            (Some(number), ..) => {
                let source = format!("--http-token-fd {number}");
                let (text, place) = from_descriptor(number).map_err(|error| format!("{source}: {error}"))?;
                (text, place, source)
            }
            (None, Some(file), _) => {
                let failed = |error| format!("{}: {error}", file.display());
                let place = if has_name(&fs::metadata(file).map_err(failed)?) { Place::File } else { Place::Hidden };
                (read_text(file).map_err(failed)?, place, file.display().to_string())
            }
            (None, None, Ok(text)) if !text.is_empty() => (text, Place::Variable, HTTP_TOKEN.to_owned()),
            (None, None, Err(std::env::VarError::NotUnicode(_))) => {
                return Err(format!("{HTTP_TOKEN}: it is not UTF-8"));
            }
            (None, None, _) => return Ok(None),
        };
        let secret = text.trim().to_owned();
        if secret.len() < MIN_TOKEN_LENGTH || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "{source}: a token is one line of at least {MIN_TOKEN_LENGTH} letters and digits: `openssl rand -hex 32` prints one"
            ));
        }
        Ok(Some(ReadToken { secret, place }))
    }

    /// Listens, if `--http` says so. `keeps_environment`: commands cannot read the environment of this process, because the kernel keeps them in a
    /// sandbox, and no rule lets a program such as `cat` leave it without a question.
    ///
    /// # Errors
    /// It is impossible, or the address is not loopback.
    pub(crate) async fn listen(
        &self,
        token: Option<ReadToken>,
        keeps_environment: bool,
    ) -> Result<Option<(TcpListener, Http)>, String> {
        let Some(address) = &self.http else { return Ok(None) };
        if self.insecure && token.is_none() {
            return Err("--insecure requires a token: --http-token-fd".to_owned());
        }
        let listener = TcpListener::bind(address).await.map_err(|error| format!("listen on {address}: {error}"))?;
        let bound = listener.local_addr().map_err(|error| format!("listen on {address}: {error}"))?;
        if !bound.ip().is_loopback() && !self.insecure {
            return Err(format!(
                "{address} is not loopback: anyone who reaches it could run commands. Listen on 127.0.0.1, or use --insecure and \
                 --http-token-fd behind a TLS proxy"
            ));
        }
        let exposed = match &token {
            None => Some("there is no token"),
            Some(ReadToken { place: Place::File, .. }) => Some("commands can read the file of the token"),
            Some(ReadToken { place: Place::Variable, .. }) if !keeps_environment || reads_environments() => {
                Some("commands can read the environment of this server")
            }
            Some(_) => None,
        };
        if let Some(why) = exposed {
            let what = "over HTTP nobody is asked, and --when-unable decides. Pass a token with --http-token-fd";
            failure::say("exec-server", &format!("warning: {why}, so {what}"));
        }
        output::print_in_background(format!("listening http://{bound}{PATH}\n"));
        let token = token.map(|token| HttpToken { secret: token.secret, is_hidden: exposed.is_none() });
        Ok(Some((listener, Http { token, trusts_proxy: self.http_trust_proxy, any_host: self.insecure })))
    }
}

fn from_descriptor(number: u16) -> io::Result<(String, Place)> {
    let file = descriptor(number)?;
    // Another user may have opened a file that ours cannot open.
    let is_readable = has_name(&file.metadata()?) && File::open(format!("/dev/fd/{}", file.as_raw_fd())).is_ok();
    let mut text = String::new();
    file.take(MAX_LENGTH).read_to_string(&mut text)?;
    Ok((text, if is_readable { Place::File } else { Place::Hidden }))
}

/// Our descriptor with this number. It is not opened again, because its file may be of another user.
fn descriptor(number: u16) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
        let own = pidfd_open(getpid(), PidfdFlags::empty())?;
        match pidfd_getfd(own, number.into(), PidfdGetfdFlags::empty()) {
            Ok(descriptor) => return Ok(descriptor.into()),
            Err(rustix::io::Errno::BADF) => return Err(rustix::io::Errno::BADF.into()),
            // Linux before 5.6, or a filter of system calls.
            Err(_) => {}
        }
    }
    File::open(format!("/dev/fd/{number}"))
}

/// Whether it is a file that others may open by its name.
fn has_name(data: &Metadata) -> bool {
    data.is_file() && data.nlink() > 0
}

/// Whether a process with our capabilities can read the environment of every other process.
fn reads_environments() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    permitted.is_none_or(|set| u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set & READS_ENVIRONMENTS != 0))
}
