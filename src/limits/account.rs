//! Callers, and what each has.
use super::{Exceeded, Limit, Most, Rate};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When there are more accounts than this, those that nobody uses are dropped.
const SWEEP_ABOVE: usize = 1_024;

/// Who calls: as much as is known for sure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// The subject of the token.
    Subject(Box<str>),
    /// The address of the other side. Of an IPv6 address its network of 64 bits: a host may take any in it.
    Peer(IpAddr),
    /// The user at the other end of a Unix socket.
    User(u32),
    /// Who comes over a transport that does not tell.
    Unknown,
}

impl CallerKey {
    /// Whoever has this address.
    pub fn peer(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                CallerKey::Peer(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            address => CallerKey::Peer(address),
        }
    }
}

impl CallerKey {
    /// As people and machines read it.
    pub fn name(&self) -> Box<str> {
        self.to_string().into()
    }
}

impl fmt::Display for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallerKey::Subject(subject) => f.write_str(subject),
            CallerKey::Peer(IpAddr::V6(network)) if !network.is_loopback() => write!(f, "{network}/64"),
            CallerKey::Peer(address) => address.fmt(f),
            CallerKey::User(user) => write!(f, "uid:{user}"),
            CallerKey::Unknown => f.write_str("unknown"),
        }
    }
}

/// What a caller has.
#[derive(Debug)]
pub struct Account {
    key: CallerKey,
    streams: AtomicU64,
    /// Its calls of this second.
    pub calls: Rate,
    /// Its calls that were refused.
    pub refused: Rate,
    /// Open elicitations that it has opened. Written by the engine alone.
    pub open: AtomicU64,
    /// Known threads that it was the first to name. Written by the engine alone.
    pub threads: AtomicU64,
}

impl Account {
    /// Whose it is.
    pub fn key(&self) -> &CallerKey {
        &self.key
    }
}

/// All callers.
#[derive(Debug, Default)]
pub struct Accounts {
    of: Mutex<Table>,
    streams: AtomicU64,
    /// The calls of this second, of all callers.
    pub calls: Rate,
}

#[derive(Debug, Default)]
struct Table {
    accounts: HashMap<CallerKey, Arc<Account>>,
    sweep_above: usize,
}

impl Accounts {
    /// The account of a caller. `now`: by the clock of [`Rate::take`].
    pub fn of(&self, key: CallerKey, now: Duration) -> Arc<Account> {
        let mut table = self.of.lock().expect("nothing panics while it holds the accounts");
        if let Some(account) = table.accounts.get(&key) {
            return account.clone();
        }
        if table.accounts.len() >= table.sweep_above.max(SWEEP_ABOVE) {
            // Who is connected, has something open or has called in this second is remembered; there is nothing to
            // know of the others.
            table.accounts.retain(|_, account| Arc::strong_count(account) > 1 || !account.calls.is_idle(now));
            table.sweep_above = 2 * table.accounts.len();
        }
        let account = Arc::new(Account {
            key: key.clone(),
            streams: AtomicU64::new(0),
            calls: Rate::default(),
            refused: Rate::default(),
            open: AtomicU64::new(0),
            threads: AtomicU64::new(0),
        });
        table.accounts.insert(key, account.clone());
        account
    }

    /// A watch of this caller, if there may be one more.
    ///
    /// # Errors
    /// There are as many as there may be, of the caller or in all.
    pub fn stream(self: &Arc<Self>, account: Option<Arc<Account>>, most: Most) -> Result<Share, Exceeded> {
        let refused = |limit, allowed, caller: Option<&CallerKey>| Exceeded {
            limit,
            was: allowed,
            allowed,
            caller: caller.map(CallerKey::name),
            retry_after: Duration::from_secs(1),
        };
        enter(&self.streams, most.in_all).map_err(|allowed| refused(Limit::Streams, allowed, None))?;
        let share = Share { all: self.clone(), account: None };
        if let Some(account) = &account {
            enter(&account.streams, most.per_caller)
                .map_err(|allowed| refused(Limit::StreamsPerCaller, allowed, Some(&account.key)))?;
        }
        Ok(share.of(account))
    }
}

/// One more, unless there are as many as are allowed.
fn enter(count: &AtomicU64, most: Option<u64>) -> Result<(), u64> {
    let before = count.fetch_add(1, Relaxed);
    match most {
        Some(most) if before >= most => {
            count.fetch_sub(1, Relaxed);
            Err(most)
        }
        _ => Ok(()),
    }
}

/// A watch that counts until this is dropped.
#[derive(Debug)]
pub struct Share {
    all: Arc<Accounts>,
    account: Option<Arc<Account>>,
}

impl Share {
    fn of(mut self, account: Option<Arc<Account>>) -> Self {
        self.account = account;
        self
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.streams.fetch_sub(1, Relaxed);
        if let Some(account) = &self.account {
            account.streams.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(9);

    #[test]
    fn an_ipv6_caller_is_its_network_and_a_mapped_address_is_the_ipv4_one() {
        let key = |text: &str| CallerKey::peer(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2:3:4:5:6"), key("2001:db8:1:2:ffff::"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_eq!(key("2001:db8:1:2:3:4:5:6").to_string(), "2001:db8:1:2::/64");
    }

    #[test]
    fn g7_a_caller_has_its_watches_and_the_others_have_theirs() {
        let accounts = Arc::<Accounts>::default();
        let [greedy, modest] = [1, 2].map(|user| accounts.of(CallerKey::User(user), NOW));
        let most = Most { in_all: Some(3), per_caller: Some(2) };
        let mut held: Vec<_> = (0..2).map(|_| accounts.stream(Some(greedy.clone()), most).unwrap()).collect();
        let refused = accounts.stream(Some(greedy.clone()), most).unwrap_err();
        assert_eq!(
            (refused.limit, refused.was, refused.caller.as_deref()),
            (Limit::StreamsPerCaller, 2, Some("uid:1"))
        );
        held.push(accounts.stream(Some(modest.clone()), most).unwrap());
        assert_eq!(accounts.stream(Some(modest.clone()), most).unwrap_err().limit, Limit::Streams);
        held.remove(0);
        held.push(accounts.stream(Some(modest.clone()), most).unwrap());
        drop(held);
        assert_eq!((accounts.streams.load(Relaxed), modest.streams.load(Relaxed)), (0, 0));
    }

    #[test]
    fn g7_callers_that_are_gone_are_forgotten_and_those_that_are_not_are_not() {
        let accounts = Arc::<Accounts>::default();
        let (connected, busy) = (accounts.of(CallerKey::User(1), NOW), accounts.of(CallerKey::User(2), NOW));
        assert!((0..10).all(|_| busy.calls.take(10, NOW).is_ok()));
        drop(busy);
        (10..100_000).for_each(|user| drop(accounts.of(CallerKey::User(user), NOW)));
        assert!(accounts.of.lock().unwrap().accounts.len() <= SWEEP_ABOVE);
        assert!(Arc::ptr_eq(&connected, &accounts.of(CallerKey::User(1), NOW)));
        assert!(accounts.of(CallerKey::User(2), NOW).calls.take(10, NOW).is_err());
    }
}
