//! Which hosts could communicate with the server, and since when.
//!
//! A link that is up does not mean that messages get through: a connection that lost packets is detected only by its
//! keep-alive (15 s), and reopened after a delay (6 s at most). The contract allows that.
use std::collections::BTreeMap;
use std::time::Duration;

/// A dead connection is detected after 15 s, and another one is tried within 8 s.
const DEAD_CONNECTION: Duration = Duration::from_secs(24);
/// After a refused or a held connection: the delay before the next attempt, and the attempt.
const NEXT_TRY: Duration = Duration::from_secs(8);

/// The link between a host and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Up.
    Up,
    /// Data is lost, and the connection with it.
    Dropped,
    /// Data waits.
    Held,
    /// Data from the server is lost.
    AnswersLost,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) link: Link,
    up: bool,
    /// The time since which host, link and server are up.
    whole_since: Option<Duration>,
    /// Until this time, its connection may be dead without being detected.
    dead_until: Duration,
    /// From this time on, its calls get through, if everything stays up.
    fit_at: Duration,
    /// The time since which its calls may fail.
    unfit_since: Option<Duration>,
}

/// All hosts except the server, and the server.
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

    /// Must be called when time passes, too.
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
    /// The time since which calls may have failed; `None`: they get through.
    pub(super) fn unfit_since(&self) -> Option<Duration> {
        self.unfit_since
    }

    /// How long calls have been getting through.
    pub(super) fn fit_for(&self, now: Duration) -> Option<Duration> {
        self.unfit_since.is_none().then(|| now.saturating_sub(self.fit_at))
    }

    /// Whether a connection that reports that it is up is really up.
    pub(super) fn is_honest(&self, now: Duration) -> bool {
        let second = Duration::from_secs(1);
        now >= self.dead_until && self.whole_since.is_some_and(|since| now.saturating_sub(since) >= second)
    }

    /// Whether a message that is sent now arrives, sooner or later.
    pub(super) fn can_send(&self) -> bool {
        self.link != Link::Dropped
    }
}
