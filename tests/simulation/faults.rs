//! The faults and their times: drawn step by step from the seed.
use crate::net::SERVER;
use crate::oracle::{Link, Oracle};
use crate::run::{EXECS, HOLDERS, WATCHER};
use crate::server::Server;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::Duration;
use turmoil::Sim;

/// Draws faults and ends them in time.
pub(crate) struct Faults {
    random: Rng,
    server: Server,
    oracle: Oracle,
    /// Each host except the server that is cut off: until when, and how.
    cuts: BTreeMap<&'static str, (Duration, Link)>,
    /// Each host that is down: until when, and whether its power is off too.
    down: BTreeMap<&'static str, (Duration, bool)>,
    refusing_until: Option<Duration>,
    next: Duration,
    /// The mean time between two faults of this run.
    calm: Duration,
    /// Whether this run has reboots: the wall clock measures their length, so it must not be set in the same run.
    reboots: bool,
}

impl Faults {
    pub(crate) fn new(mut random: Rng, server: Server, oracle: Oracle) -> Self {
        let calm = Duration::from_millis(random.u64(800..8_000));
        let reboots = random.bool();
        let (cuts, down, refusing_until) = Default::default();
        // The run starts without faults.
        let next = Duration::from_secs(1);
        Faults { random, server, oracle, cuts, down, refusing_until, next, calm, reboots }
    }

    pub(crate) fn step(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let over: Vec<_> = self.cuts.iter().filter(|(_, (until, _))| *until <= now).map(|(host, _)| *host).collect();
        over.into_iter().for_each(|host| self.mend(sim, host));
        let back: Vec<_> = self.down.iter().filter(|(_, (until, _))| *until <= now).map(|(host, _)| *host).collect();
        back.into_iter().for_each(|host| self.start(sim, host));
        if self.refusing_until.is_some_and(|until| until <= now) {
            self.refusing_until = None;
            self.refuse(false);
        }
        if now >= self.next {
            self.draw(sim, now);
            self.next = now + self.calm.mul_f64(0.1 + 1.8 * self.random.f64());
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self, sim: &mut Sim<'_>) {
        let cuts: Vec<_> = self.cuts.keys().copied().collect();
        cuts.into_iter().for_each(|host| self.mend(sim, host));
        let down: Vec<_> = self.down.keys().copied().collect();
        down.into_iter().for_each(|host| self.start(sim, host));
        if self.refusing_until.take().is_some() {
            self.refuse(false);
        }
    }

    fn draw(&mut self, sim: &mut Sim<'_>, now: Duration) {
        match self.random.u8(..20) {
            0..4 => self.cut(sim, now, Link::Dropped),
            4..7 => self.cut(sim, now, Link::Held),
            7..10 => self.cut(sim, now, Link::AnswersLost),
            10..12 => self.crash(sim, now, SERVER),
            12 => {
                let host = EXECS[self.random.usize(..EXECS.len())];
                self.crash(sim, now, host);
            }
            13..15 => {
                let host = HOLDERS[self.random.usize(..HOLDERS.len())];
                self.crash(sim, now, host);
            }
            15 => self.crash(sim, now, WATCHER),
            16 => {
                let seconds = self.random.u64(1..60);
                self.server.machine.sleep(Duration::from_secs(seconds));
                self.oracle.slept(Duration::from_secs(seconds));
            }
            17 if !self.reboots => {
                let by = self.random.i64(-100_000..100_000);
                self.server.machine.set_wall_clock(by);
                self.oracle.fault("wall clock set", "server");
            }
            _ if self.refusing_until.is_none() && !self.down.contains_key(SERVER) => {
                self.refusing_until = Some(now + Duration::from_millis(self.random.u64(50..6_000)));
                self.refuse(true);
            }
            _ => {}
        }
    }

    fn refuse(&self, refuses: bool) {
        self.server.refuse_changes(refuses);
        self.oracle.store_refuses(refuses);
    }

    fn cut(&mut self, sim: &mut Sim<'_>, now: Duration, how: Link) {
        let hosts = [HOLDERS[0], HOLDERS[1], EXECS[0], EXECS[1], WATCHER];
        let host = hosts[self.random.usize(..hosts.len())];
        if self.cuts.contains_key(host) || self.down.values().any(|(_, power)| *power) {
            return;
        }
        // Some end before they are noticed, some outlast every timeout.
        let lasts = match self.random.u8(..3) {
            0 => self.random.u64(20..800),
            1 => self.random.u64(800..8_000),
            _ => self.random.u64(8_000..50_000),
        };
        self.separate(sim, host, how);
        self.cuts.insert(host, (now + Duration::from_millis(lasts), how));
    }

    fn separate(&self, sim: &Sim<'_>, host: &'static str, how: Link) {
        match how {
            Link::Dropped => sim.partition(host, SERVER),
            Link::Held => sim.hold(host, SERVER),
            Link::AnswersLost => sim.partition_oneway(SERVER, host),
            Link::Up => {}
        }
        self.oracle.link(host, how);
    }

    fn mend(&mut self, sim: &Sim<'_>, host: &'static str) {
        match self.cuts.remove(host) {
            Some((_, Link::Held)) => sim.release(host, SERVER),
            Some(_) => sim.repair(host, SERVER),
            None => return,
        }
        self.oracle.link(host, Link::Up);
    }

    /// A process is killed, or its machine loses power: then no peer learns that its connections are lost.
    fn crash(&mut self, sim: &mut Sim<'_>, now: Duration, host: &'static str) {
        if self.down.contains_key(host) {
            return;
        }
        let power = match host {
            SERVER => self.reboots && self.cuts.is_empty() && self.random.bool(),
            _ => !self.cuts.contains_key(host) && !self.down.contains_key(SERVER) && self.random.bool(),
        };
        let others = || HOLDERS.into_iter().chain(EXECS).chain([WATCHER]);
        match (power, host) {
            (false, _) => {}
            (true, SERVER) => others().for_each(|other| self.separate(sim, other, Link::Dropped)),
            (true, _) => self.separate(sim, host, Link::Dropped),
        }
        if host == SERVER {
            self.server.keep_disk();
        }
        sim.crash(host);
        // Sometimes a restart takes longer than any lease.
        let off = if self.random.bool() { self.random.u64(20..1_500) } else { self.random.u64(1_500..12_000) };
        self.down.insert(host, (now + Duration::from_millis(off), power));
        self.oracle.crashed(host, power);
    }

    fn start(&mut self, sim: &mut Sim<'_>, host: &'static str) {
        let Some((_, power)) = self.down.remove(host) else { return };
        if power && host == SERVER {
            self.server.machine.reboot();
            for other in HOLDERS.into_iter().chain(EXECS).chain([WATCHER]) {
                sim.repair(other, SERVER);
                self.oracle.link(other, Link::Up);
            }
        } else if power {
            sim.repair(host, SERVER);
            self.oracle.link(host, Link::Up);
        }
        self.oracle.starts(host);
        sim.bounce(host);
    }
}
