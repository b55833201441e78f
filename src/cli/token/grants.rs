//! The permissions of a new token, from the command line.
use super::problem::Problem;
use crate::server::access::Role;
use crate::server::access::mint::Token;

/// The permissions of a token.
#[derive(Debug, clap::Args)]
pub(super) struct Grants {
    /// A thread that the token covers. Repeatable.
    #[arg(long = "thread-id", value_name = "ID")]
    threads: Vec<String>,
    /// Covers every thread whose id has this prefix; an empty prefix covers every thread. Repeatable.
    #[arg(long = "prefix", value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// watcher: may read. holder: may also open, renew and close elicitations. admin: every call, on every thread.
    #[arg(long, value_name = "ROLE", default_value = "holder", value_parser = role)]
    role: Role,
    /// The name of the caller in logs [default: the single thread or prefix, else the role].
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
}

fn role(name: &str) -> Result<Role, String> {
    let roles = [Role::Watcher, Role::Holder, Role::Admin];
    roles.into_iter().find(|role| role.name() == name).ok_or_else(|| "expected watcher, holder or admin".into())
}

impl Grants {
    pub(super) fn token(self) -> Result<Token, Problem> {
        let Self { threads, prefixes, role, subject } = self;
        let subject = subject.unwrap_or_else(|| match (&threads[..], &prefixes[..]) {
            ([one], []) => one.clone(),
            ([], [one]) if !one.is_empty() => one.clone(),
            _ => role.name().into(),
        });
        if role != Role::Admin && threads.is_empty() && prefixes.is_empty() {
            return Err(Problem::Usage("no threads: name them with --thread-id or --prefix".into()));
        }
        let token = Token { subject, role, threads, prefixes };
        token.check().map_err(Problem::Usage)?;
        Ok(token)
    }
}
