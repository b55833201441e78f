//! The accounts of callers: what each one uses.
use super::{Exceeded, Limit, Limits, Rate};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Above this number of accounts, unused ones are dropped.
const SWEEP_ABOVE: usize = 1_024;

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// The subject of the token.
    Subject(Box<str>),
    /// The address of the peer. For IPv6 only its first 64 bits: a host may use any address of its network.
    Peer(IpAddr),
    /// The user at the other end of a Unix socket.
    User(u32),
    /// This process, when it checks its own health. It has no limits.
    Itself,
    /// A caller over a transport without an identity.
    Unknown,
}

impl CallerKey {
    /// The caller with this address.
    pub fn peer(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                CallerKey::Peer(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            address => CallerKey::Peer(address),
        }
    }

    /// The name for logs, the audit trail and refusals.
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
            CallerKey::Itself => f.write_str("itself"),
            CallerKey::Unknown => f.write_str("unknown"),
        }
    }
}

/// The usage of a caller.
#[derive(Debug)]
pub struct Account {
    key: CallerKey,
    streams: StreamCounts,
    /// The rate of its calls.
    pub calls: Rate,
    /// The rate of its increments, which are remembered.
    pub remembered: Rate,
    /// Refused calls whose answer is delayed.
    pub waiting_refusals: AtomicU64,
    /// Open elicitations that it has opened. Written by the engine alone.
    pub open: AtomicU64,
    /// Known threads that it was the first to name. Written by the engine alone.
    pub threads: AtomicU64,
}

impl Account {
    /// The identity of the caller.
    pub fn key(&self) -> &CallerKey {
        &self.key
    }
}

/// All callers.
#[derive(Debug, Default)]
pub struct Accounts {
    of: Mutex<Table>,
    streams: StreamCounts,
    /// The rate of all calls.
    pub calls: Rate,
    /// The rate of all increments, which are remembered.
    pub remembered: Rate,
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
            // Keeps a caller that is connected, has something open or remembered, or has called within this second; the
            // others use nothing.
            table.accounts.retain(|_, account| {
                Arc::strong_count(account) > 1 || !account.calls.is_idle(now) || !account.remembered.is_idle(now)
            });
            table.sweep_above = 2 * table.accounts.len();
        }
        let account = Arc::new(Account {
            key: key.clone(),
            streams: StreamCounts::default(),
            calls: Rate::default(),
            remembered: Rate::default(),
            waiting_refusals: AtomicU64::new(0),
            open: AtomicU64::new(0),
            threads: AtomicU64::new(0),
        });
        table.accounts.insert(key, account.clone());
        account
    }

    /// Counts an increment of this caller, which is remembered for `span`. `now`: by the clock of [`Rate::take`].
    ///
    /// # Errors
    /// A limit of remembered increments is reached, per caller or in total.
    pub fn remember(
        &self,
        account: Option<&Account>,
        limits: &Limits,
        span: Duration,
        now: Duration,
    ) -> Result<(), Exceeded> {
        let take = |limit, rate: &Rate, most: Option<u64>, caller: Option<&CallerKey>| {
            let Some(allowed) = most else { return Ok(()) };
            let caller = caller.map(CallerKey::name);
            let exceeded = |retry_after| Exceeded { limit, was: allowed, allowed, caller, retry_after };
            rate.take_within(allowed, span, now).map_err(exceeded)
        };
        if let Some(account) = account {
            let most = limits.remembered.per_caller;
            take(Limit::RememberedIncrementsPerCaller, &account.remembered, most, Some(account.key()))?;
        }
        take(Limit::RememberedIncrements, &self.remembered, limits.remembered.in_all, None)
    }

    /// Opens a stream of this caller.
    ///
    /// # Errors
    /// A limit of streams or watched threads is reached, per caller or in total.
    pub fn stream(
        self: &Arc<Self>,
        account: Option<Arc<Account>>,
        limits: &Limits,
        weight: Weight,
    ) -> Result<StreamPermit, Exceeded> {
        let (streams, ids) = (limits.streams, limits.watched);
        let of_all = [(Limit::Streams, streams.in_all), (Limit::WatchedThreads, ids.in_all)];
        self.streams.enter(weight, of_all)?;
        // Dropped if the limit per caller is reached, so that the total is decremented again.
        let mut share = StreamPermit { all: self.clone(), account: None, weight };
        if let Some(account) = &account {
            let own = [(Limit::StreamsPerCaller, streams.per_caller), (Limit::WatchedThreadsPerCaller, ids.per_caller)];
            let exceeded = |exceeded| Exceeded { caller: Some(account.key.name()), ..exceeded };
            account.streams.enter(weight, own).map_err(exceeded)?;
        }
        share.account = account;
        Ok(share)
    }
}

/// The weight of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// It counts as this many watches.
    pub streams: u64,
    /// The threads that it names.
    pub watched: u64,
}

impl Weight {
    /// A watch that names this many threads.
    pub const fn watch(named: usize) -> Self {
        Weight { streams: 1, watched: named as u64 }
    }
}

/// Streams that are open, and how many threads they name.
#[derive(Debug, Default)]
struct StreamCounts {
    open: AtomicU64,
    watched: AtomicU64,
}

impl StreamCounts {
    /// Adds a stream, unless there would be too many streams or too many watched threads.
    fn enter(&self, weight: Weight, [streams, ids]: [(Limit, Option<u64>); 2]) -> Result<(), Exceeded> {
        add(&self.open, weight.streams, streams)?;
        add(&self.watched, weight.watched, ids).inspect_err(|_| _ = self.open.fetch_sub(weight.streams, Relaxed))
    }

    fn leave(&self, weight: Weight) {
        self.open.fetch_sub(weight.streams, Relaxed);
        self.watched.fetch_sub(weight.watched, Relaxed);
    }
}

/// Adds `more`, unless that would exceed the limit.
fn add(count: &AtomicU64, more: u64, (limit, most): (Limit, Option<u64>)) -> Result<(), Exceeded> {
    let was = count.fetch_add(more, Relaxed);
    match most {
        Some(allowed) if more > 0 && was.saturating_add(more) > allowed => {
            count.fetch_sub(more, Relaxed);
            Err(Exceeded { limit, was, allowed, caller: None, retry_after: Duration::from_secs(1) })
        }
        _ => Ok(()),
    }
}

/// A stream that counts until this is dropped.
#[derive(Debug)]
pub struct StreamPermit {
    all: Arc<Accounts>,
    account: Option<Arc<Account>>,
    weight: Weight,
}

impl StreamPermit {
    /// Changes how many threads the stream names.
    ///
    /// # Errors
    /// A limit is reached, per caller or in total; nothing has changed.
    pub fn set_watched(&mut self, watched: u64, limits: &Limits) -> Result<(), Exceeded> {
        let more = Weight { streams: 0, watched: watched.saturating_sub(self.weight.watched) };
        // The additional threads are counted as a stream of their own, and then moved to this one.
        self.all.stream(self.account.clone(), limits, more)?.weight.watched = 0;
        let fewer = Weight { streams: 0, watched: self.weight.watched.saturating_sub(watched) };
        self.all.streams.leave(fewer);
        self.account.iter().for_each(|account| account.streams.leave(fewer));
        self.weight.watched = watched;
        Ok(())
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.all.streams.leave(self.weight);
        if let Some(account) = &self.account {
            account.streams.leave(self.weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::quota::LimitPair;

    const NOW: Duration = Duration::from_secs(9);

    #[test]
    fn an_ipv6_caller_is_its_network_and_a_mapped_address_is_the_ipv4_one() {
        let key = |text: &str| CallerKey::peer(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2:3:4:5:6"), key("2001:db8:1:2:ffff::"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_eq!(key("2001:db8:1:2:3:4:5:6").to_string(), "2001:db8:1:2::/64");
        assert_eq!(key("::1").to_string(), "::1");
    }

    const fn most(in_all: u64, per_caller: u64) -> LimitPair {
        LimitPair { in_all: Some(in_all), per_caller: Some(per_caller) }
    }

    #[test]
    fn g7_a_caller_has_its_watches_and_the_others_have_theirs() {
        let accounts = Arc::<Accounts>::default();
        let [greedy, modest] = [1, 2].map(|user| accounts.of(CallerKey::User(user), NOW));
        let limits = Limits { streams: most(3, 2), ..Limits::default() };
        let stream = |account: &Arc<Account>| accounts.stream(Some(account.clone()), &limits, Weight::watch(1));
        let mut held: Vec<_> = (0..2).map(|_| stream(&greedy).unwrap()).collect();
        let refused = stream(&greedy).unwrap_err();
        assert_eq!(
            (refused.limit, refused.was, refused.caller.as_deref()),
            (Limit::StreamsPerCaller, 2, Some("uid:1"))
        );
        held.push(stream(&modest).unwrap());
        assert_eq!(stream(&modest).unwrap_err().limit, Limit::Streams);
        held.remove(0);
        held.push(stream(&modest).unwrap());
        drop(held);
        assert_eq!(counts([&accounts.streams, &greedy.streams, &modest.streams]), [(0, 0); 3]);
    }

    #[test]
    fn g7_a_caller_has_its_remembered_increments_and_the_others_have_theirs() {
        let accounts = Accounts::default();
        let [greedy, modest] = [1, 2].map(|user| accounts.of(CallerKey::User(user), NOW));
        let limits = Limits { remembered: most(30, 20), ..Limits::default() };
        let span = Duration::from_secs(600);
        let remembered = |account: &Arc<Account>| {
            let mut refused = None;
            let take = || accounts.remember(Some(account), &limits, span, NOW);
            let taken = (0..99).take_while(|_| take().map_err(|why| refused = Some(why.limit)).is_ok()).count();
            (taken, refused)
        };
        assert_eq!(remembered(&greedy), (20, Some(Limit::RememberedIncrementsPerCaller)));
        assert_eq!(remembered(&modest), (10, Some(Limit::RememberedIncrements)));
    }

    #[test]
    fn g7_the_threads_that_watches_name_are_counted() {
        let accounts = Arc::<Accounts>::default();
        let [greedy, modest] = [1, 2].map(|user| accounts.of(CallerKey::User(user), NOW));
        let limits = Limits { watched: most(10, 7), ..Limits::default() };
        let watch = |account: &Arc<Account>, ids| accounts.stream(Some(account.clone()), &limits, Weight::watch(ids));
        let held = [watch(&greedy, 4).unwrap(), watch(&greedy, 3).unwrap()];
        let refused = watch(&greedy, 1).unwrap_err();
        let reported = (refused.limit, refused.was, refused.allowed, refused.caller.as_deref());
        assert_eq!(reported, (Limit::WatchedThreadsPerCaller, 7, 7, Some("uid:1")));
        let refused = watch(&modest, 4).unwrap_err();
        assert_eq!((refused.limit, refused.was, refused.allowed), (Limit::WatchedThreads, 7, 10));
        // A refused stream is not counted, and one that names no thread is always admitted.
        let others = [watch(&modest, 3).unwrap(), watch(&greedy, 0).unwrap()];
        assert_eq!(counts([&accounts.streams, &greedy.streams, &modest.streams]), [(4, 10), (3, 7), (1, 3)]);
        drop((held, others));
        assert_eq!(counts([&accounts.streams, &greedy.streams, &modest.streams]), [(0, 0); 3]);
    }

    fn counts(of: [&StreamCounts; 3]) -> [(u64, u64); 3] {
        of.map(|streams| (streams.open.load(Relaxed), streams.watched.load(Relaxed)))
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
