//! The permissions of a token: a role on some threads until some time.
use crate::core::scope::Scope;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The maximum of the threads and prefixes of a token, in bytes: replicas send them to each other with every call.
const MAX_SCOPE: usize = 512 << 10;
/// What each of them counts besides its own bytes.
const ENTRY: usize = 8;

/// The role of a token. Each role includes the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads: get, list, watch. For exec servers, and for people who only look on.
    Watcher,
    /// Also opens, renews and closes elicitations. For tools that ask people.
    Holder,
    /// Everything, on every thread.
    Admin,
}

impl Role {
    /// The name in files and tokens.
    pub fn name(self) -> &'static str {
        match self {
            Role::Watcher => "watcher",
            Role::Holder => "holder",
            Role::Admin => "admin",
        }
    }
}

/// The permissions of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    subject: Box<str>,
    role: Role,
    scope: Scope,
    /// Nanoseconds since 1970, by the wall clock; `None`: never.
    expires: Option<i64>,
}

/// The part of a grant that both kinds of tokens write in the same way.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rights {
    pub(super) role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prefixes: Option<Vec<String>>,
}

impl Grant {
    /// A grant without an end.
    pub fn new(subject: &str, role: Role, scope: Scope) -> Self {
        Grant { subject: subject.into(), role, scope, expires: None }
    }

    /// # Errors
    /// The threads are missing, too many, or given for an admin; or a name is invalid.
    pub(super) fn parse(subject: &str, rights: &Rights, expires: Option<i64>) -> Result<Self, String> {
        if subject.is_empty() || subject.len() > 256 || subject.chars().any(char::is_control) {
            return Err("the subject must have 1 to 256 bytes of UTF-8 without control characters".into());
        }
        let scope = match (&rights.threads, &rights.prefixes, rights.role) {
            (None, None, Role::Admin) => Scope::ALL,
            (_, _, Role::Admin) => {
                return Err("an admin covers every thread: remove threads and prefixes, or use the role holder".into());
            }
            (None, None, _) => {
                return Err("no threads: name them by threads or prefixes; the prefix \"\" is every thread".into());
            }
            (threads, prefixes, _) => {
                let [threads, prefixes] = [threads, prefixes].map(|texts| texts.as_deref().unwrap_or_default());
                let size: usize = threads.iter().chain(prefixes).map(|text| text.len() + ENTRY).sum();
                if size > MAX_SCOPE {
                    return Err(
                        "its threads and prefixes have more than 512 KiB (and 8 bytes for each): use a prefix for \
                                several threads, or several tokens"
                            .into(),
                    );
                }
                Scope::of(threads, prefixes).map_err(|invalid| invalid.to_string())?
            }
        };
        Ok(Grant { subject: subject.into(), role: rights.role, scope, expires })
    }

    pub(super) fn subject(&self) -> &str {
        &self.subject
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The time until it expires, at `wall`; [`Duration::MAX`]: it never does.
    pub(super) fn left(&self, wall: i64) -> Duration {
        self.expires
            .map_or(Duration::MAX, |expires| Duration::from_nanos(expires.saturating_sub(wall).max(0).unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forwarded call has the scope of its token, and a maximum size.
    #[test]
    fn the_size_of_a_scope_is_limited() {
        let parse = |count: usize| {
            let threads = (0..count).map(|number| format!("{number:0248}")).collect();
            Grant::parse("s", &Rights { role: Role::Holder, threads: Some(threads), prefixes: None }, None)
        };
        assert!(parse(MAX_SCOPE / 256).is_ok());
        let refused = parse(MAX_SCOPE / 256 + 1).unwrap_err();
        assert!(refused.contains("512 KiB"), "{refused}");
    }
}
