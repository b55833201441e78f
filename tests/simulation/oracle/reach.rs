//! Who could talk to the server, and since when.
//!
//! Between "the link is whole" and "messages get through" lies what the contract leaves to the link: a connection whose
//! packets were lost is given up by its keep-alive only (15 s), and made anew after a pause (6 s at most).
use std::collections::BTreeMap;
use std::time::Duration;

/// A dead connection is noticed after 15 s, and another one is tried within 8 s.
const DEAD_CONNECTION: Duration = Duration::from_secs(24);
/// After a refused or a held connection: a pause between two tries, and a try.
const NEXT_TRY: Duration = Duration::from_secs(8);

/// The link between a host and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Whole.
    Up,
    /// What is sent is lost, and with it the connection.
    Dropped,
    /// What is sent waits.
    Held,
    /// What the server sends is lost.
    AnswersLost,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) link: Link,
    up: bool,
    /// Since when host, link and server are up.
    whole_since: Option<Duration>,
    /// Until then its connection may be dead without anybody knowing.
    dead_until: Duration,
    /// From then on its calls do get through, if all stays up.
    fit_at: Duration,
    /// Since when that was not so.
    unfit_since: Option<Duration>,
}

/// All hosts but the server, and the server.
#[derive(Debug, Default)]
pub(super) struct Reach {
    pub(super) hosts: BTreeMap<String, Host>,
    pub(super) server_up: bool,
}

impl Reach {
    pub(super) fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.entry(name.to_owned()).or_insert_with(|| Host {
            link: Link::Up,
            up: true,
            whole_since: None,
            dead_until: Duration::ZERO,
            fit_at: Duration::ZERO,
            unfit_since: Some(Duration::ZERO),
        })
    }

    pub(super) fn set_link(&mut self, name: &str, now: Duration, link: Link) {
        let host = self.host(name);
        let before = std::mem::replace(&mut host.link, link);
        if link == Link::Up && matches!(before, Link::Dropped | Link::AnswersLost) {
            host.dead_until = now + DEAD_CONNECTION;
        }
        self.update(now);
    }

    pub(super) fn set_up(&mut self, name: &str, now: Duration, up: bool) {
        self.host(name).up = up;
        self.update(now);
    }

    pub(super) fn set_server(&mut self, now: Duration, up: bool) {
        self.server_up = up;
        self.update(now);
    }

    /// To be told of time passing, too.
    pub(super) fn update(&mut self, now: Duration) {
        for host in self.hosts.values_mut() {
            let whole = host.up && self.server_up && host.link == Link::Up;
            match (whole, host.whole_since) {
                (true, None) => {
                    host.whole_since = Some(now);
                    host.fit_at = host.dead_until.max(now + NEXT_TRY);
                }
                (false, Some(_)) => host.whole_since = None,
                _ => {}
            }
            match whole && now >= host.fit_at {
                true => host.unfit_since = None,
                false => _ = host.unfit_since.get_or_insert(now),
            }
        }
    }
}

impl Host {
    /// Since when calls may have failed; `None`: they get through.
    pub(super) fn unfit_since(&self) -> Option<Duration> {
        self.unfit_since
    }

    /// For how long calls have got through.
    pub(super) fn fit_for(&self, now: Duration) -> Option<Duration> {
        self.unfit_since.is_none().then(|| now.saturating_sub(self.fit_at))
    }

    /// Whether a connection that says it is up is up.
    pub(super) fn is_honest(&self, now: Duration) -> bool {
        let second = Duration::from_secs(1);
        now >= self.dead_until && self.whole_since.is_some_and(|since| now.saturating_sub(since) >= second)
    }

    /// Whether a message that is sent now arrives, sooner or later.
    pub(super) fn can_send(&self) -> bool {
        self.link != Link::Dropped
    }
}
