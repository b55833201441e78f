//! Forwarded calls on the wire: the caller, the waiting time and the message, sealed with the key that only replicas
//! have.
use crate::coordinator::quota::CallerKey;
use crate::core::scope::Scope;
use crate::server::access::{Caller, Role};
use crate::server::admission::ConnectionContext;
use bytes::{Buf, Bytes};
use prost::Message;
use ring::hmac;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tonic::Extensions;

/// The header that proves that an answer is from a replica.
pub(super) const ANSWERED: &str = "pausewatch-answered";
/// How long a sealed call is valid, in nanoseconds of the cluster clock.
const VALID_FOR: i64 = 60_000_000_000;
const PROOF: usize = 32;
const LENGTH: usize = 4;

/// The caller. A tag never changes its meaning.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Origin {
    #[prost(oneof = "Key", tags = "1, 2, 3, 4")]
    key: Option<Key>,
    /// `None`: the server requires no tokens.
    #[prost(message, optional, tag = "5")]
    rights: Option<Rights>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Key {
    #[prost(string, tag = "1")]
    Subject(String),
    #[prost(string, tag = "2")]
    Peer(String),
    #[prost(uint32, tag = "3")]
    User(u32),
    #[prost(bool, tag = "4")]
    Itself(bool),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Rights {
    #[prost(string, tag = "1")]
    role: String,
    #[prost(bool, tag = "2")]
    every_thread: bool,
    #[prost(string, repeated, tag = "3")]
    threads: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    prefixes: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    /// The replica that has to answer.
    #[prost(fixed64, tag = "1")]
    replica: u64,
    /// The end of its validity, by the cluster clock.
    #[prost(sfixed64, tag = "2")]
    valid_until: i64,
    #[prost(uint64, tag = "3")]
    waited_ns: u64,
    #[prost(message, required, tag = "4")]
    origin: Origin,
}

/// Why a body is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unopened {
    /// It was sealed without the key, or for another method.
    Foreign,
    /// It was sealed for another replica, such as an earlier one at this address, or too long ago.
    Astray,
}

/// A forwarded call.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) origin: Origin,
    /// How long the call had waited when it was forwarded.
    pub(super) waited: Duration,
    pub(super) message: Bytes,
}

impl Origin {
    /// The caller of a request.
    pub(super) fn of(extensions: &Extensions) -> Self {
        if let Some(caller) = extensions.get::<Arc<Caller>>() {
            let (scope, owned) = (caller.scope(), |text: &str| text.to_owned());
            let of = |prefixes: bool| {
                let areas = scope.areas().unwrap_or_default().iter();
                areas.filter(|area| area.is_prefix() == prefixes).map(|area| owned(area.text())).collect()
            };
            let (every_thread, threads, prefixes) = (scope.areas().is_none(), of(false), of(true));
            let rights = Rights { role: owned(caller.role().name()), every_thread, threads, prefixes };
            return Origin { key: Some(Key::Subject(owned(caller.subject()))), rights: Some(rights) };
        }
        let key = extensions.get::<Arc<ConnectionContext>>().map(|connection| connection.account().key());
        let key = key.and_then(|key| match key {
            CallerKey::Subject(subject) => Some(Key::Subject(subject.to_string())),
            CallerKey::Peer(address) => Some(Key::Peer(address.to_string())),
            CallerKey::User(user) => Some(Key::User(*user)),
            CallerKey::Itself => Some(Key::Itself(true)),
            CallerKey::Unknown => None,
        });
        Origin { key, rights: None }
    }

    /// The account that it counts against, and its rights; `None`: it is invalid.
    pub(super) fn caller(self) -> Option<(CallerKey, Option<Arc<Caller>>)> {
        let key = match self.key {
            Some(Key::Subject(subject)) => CallerKey::Subject(subject.into()),
            Some(Key::Peer(address)) => CallerKey::Peer(address.parse().ok()?),
            Some(Key::User(user)) => CallerKey::User(user),
            Some(Key::Itself(_)) => CallerKey::Itself,
            None => CallerKey::Unknown,
        };
        let Some(Rights { role, every_thread, threads, prefixes }) = self.rights else { return Some((key, None)) };
        let role = [Role::Watcher, Role::Holder, Role::Admin].into_iter().find(|known| known.name() == role)?;
        let scope = if every_thread { Scope::ALL } else { Scope::of(&threads, &prefixes).ok()? };
        let CallerKey::Subject(subject) = &key else { return None };
        let caller = Caller::forwarded(subject, role, scope);
        Some((key, Some(Arc::new(caller))))
    }
}

/// Seals and opens.
pub(crate) struct Seal(hmac::Key);

impl Seal {
    pub(crate) fn new(key: &[u8]) -> Self {
        Seal(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The body of a forwarded call. `now`: of the cluster clock.
    pub(super) fn seal(
        &self,
        replica: u64,
        method: &str,
        origin: &Origin,
        waited: Duration,
        message: &[u8],
        now: i64,
    ) -> Vec<u8> {
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let valid_until = now.saturating_add(VALID_FOR);
        let envelope = Envelope { replica, valid_until, waited_ns, origin: origin.clone() };
        let length = envelope.encoded_len();
        let mut sealed = Vec::with_capacity(PROOF + LENGTH + length + message.len());
        sealed.resize(PROOF, 0);
        sealed.extend(u32::try_from(length).expect("a token has a bounded size").to_be_bytes());
        envelope.encode(&mut sealed).expect("there is room for it");
        sealed.extend_from_slice(message);
        let proof = self.proof(method, &sealed[PROOF..]);
        sealed[..PROOF].copy_from_slice(proof.as_ref());
        sealed
    }

    /// Opens a sealed body: its content, if it is for `replica` and in time.
    pub(super) fn open(&self, replica: u64, method: &str, sealed: Bytes, now: i64) -> Result<Opened, Unopened> {
        let (envelope, message) = self.verified(method, sealed).ok_or(Unopened::Foreign)?;
        if envelope.replica != replica || now > envelope.valid_until {
            return Err(Unopened::Astray);
        }
        Ok(Opened { origin: envelope.origin, waited: Duration::from_nanos(envelope.waited_ns), message })
    }

    /// The value of [`ANSWERED`] in the answer to a sealed call: only replicas of the fleet can compute it.
    pub(super) fn answered(&self, sealed: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"answer ");
        context.update(&sealed[..PROOF.min(sealed.len())]);
        context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn verified(&self, method: &str, mut sealed: Bytes) -> Option<(Envelope, Bytes)> {
        if sealed.len() < PROOF + LENGTH {
            return None;
        }
        let proof = sealed.split_to(PROOF);
        let mut context = self.context(method);
        context.update(&sealed);
        let expected = context.sign();
        if !bool::from(expected.as_ref().ct_eq(&proof)) {
            return None;
        }
        let length = sealed.get_u32() as usize;
        let envelope = (sealed.len() >= length).then(|| sealed.split_to(length))?;
        let envelope = Envelope::decode(envelope).ok()?;
        Some((envelope, sealed))
    }

    fn context(&self, method: &str) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"forward ");
        context.update(method.as_bytes());
        context.update(&[0]);
        context
    }

    fn proof(&self, method: &str, sealed: &[u8]) -> hmac::Tag {
        let mut context = self.context(method);
        context.update(sealed);
        context.sign()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::types::ThreadId;

    fn admin_of(prefixes: &[&str]) -> Origin {
        let prefixes: Vec<_> = prefixes.iter().map(|&prefix| prefix.to_owned()).collect();
        let scope = Scope::of(&["one".to_owned()], &prefixes).expect("valid");
        let mut extensions = Extensions::new();
        extensions.insert(Arc::new(Caller::forwarded("a subject", Role::Holder, scope)));
        Origin::of(&extensions)
    }

    #[test]
    fn the_caller_and_its_rights_arrive_as_they_were() {
        let (key, caller) = admin_of(&["team/"]).caller().expect("it makes sense");
        let caller = caller.expect("it had a token");
        assert_eq!((&*key.name(), caller.subject(), caller.role()), ("a subject", "a subject", Role::Holder));
        for (thread, opens) in [("one", true), ("team/x", true), ("ones", false), ("other", false)] {
            assert_eq!(caller.opens(&ThreadId::parse("", thread).expect("valid")), opens, "{thread}");
        }
        assert_eq!(Origin::of(&Extensions::new()).caller(), Some((CallerKey::Unknown, None)));
    }

    #[test]
    fn only_who_has_the_key_can_forward_and_only_what_it_has_sealed() {
        let seal = Seal::new(b"the key of the fleet");
        let waited = Duration::from_millis(7);
        let sealed = Bytes::from(seal.seal(5, "Renew", &admin_of(&[]), waited, b"message", 1_000));
        let opened = seal.open(5, "Renew", sealed.clone(), 1_000 + VALID_FOR).expect("it is sound");
        assert_eq!((&opened.message[..], opened.waited), (&b"message"[..], waited));
        let refused = |seal: &Seal, replica, method, now| seal.open(replica, method, sealed.clone(), now).err();
        assert_eq!(refused(&Seal::new(b"another key"), 5, "Renew", 1_000), Some(Unopened::Foreign));
        assert_eq!(refused(&seal, 5, "Get", 1_000), Some(Unopened::Foreign), "another method");
        assert_eq!(refused(&seal, 6, "Renew", 1_000), Some(Unopened::Astray), "for another replica");
        assert_eq!(refused(&seal, 5, "Renew", 1_001 + VALID_FOR), Some(Unopened::Astray), "too late");
        let again = seal.seal(5, "Renew", &admin_of(&[]), waited, b"message", 1_001);
        let said = seal.answered(&sealed);
        for other in [seal.answered(&again), Seal::new(b"another key").answered(&sealed)] {
            assert_ne!(said, other, "an answer is of one call, and of a replica");
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert_eq!(seal.open(5, "Renew", changed.into(), 1_000).err(), Some(Unopened::Foreign), "byte {at}");
            let cut_off = seal.open(5, "Renew", sealed.slice(..at), 1_000);
            assert_eq!(cut_off.err(), Some(Unopened::Foreign), "cut off at {at}");
        }
    }
}
