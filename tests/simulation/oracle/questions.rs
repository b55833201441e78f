//! G2, G4 and G5: each requested elicitation, from its increment to its end.
use super::State;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{Header, Open, PauseEnd, RememberedClosing, RememberedRequest};
use pausewatch::test_support::store::{Contents, Write};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The time within which an expired lease closes its elicitation.
pub(super) const ENDS_WITHIN: Duration = Duration::from_millis(100);
/// The time within which a store that accepts changes again, or a sleep, is noticed; then every lease restarts.
pub(super) const NOTICED_WITHIN: Duration = Duration::from_millis(1_100);

/// The number of a question. It is also the reason that the server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(usize);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "question-{}", self.0)
    }
}

/// How an elicitation ended, according to the answer that its holder got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By a decrement.
    Released,
    /// By the end of its lease.
    Expired,
}

/// One question.
#[derive(Debug)]
pub(super) struct Question {
    host: String,
    thread: String,
    ttl: Duration,
    committed: Option<Duration>,
    id: Option<ElicitationId>,
    closed: Option<(Ended, Duration)>,
    /// Whether a guard renews it.
    guarded: bool,
    /// Whether its holder may still send a renewal.
    held: bool,
    /// Whether its holder crashed before it was closed.
    holder_died: bool,
    /// The latest time at which its last renewal may have arrived.
    last_word: Duration,
    /// The time at which the last answered renewal was sent.
    renewed: Duration,
    release_sent: bool,
}

impl State {
    pub(super) fn asks(&mut self, host: &str, thread: &str, ttl: Duration) -> Token {
        let now = self.now();
        self.questions.push(Question {
            host: host.to_owned(),
            thread: thread.to_owned(),
            ttl,
            committed: None,
            id: None,
            closed: None,
            guarded: false,
            held: true,
            holder_died: false,
            last_word: now,
            renewed: Duration::ZERO,
            release_sent: false,
        });
        Token(self.questions.len() - 1)
    }

    /// The increment was answered.
    pub(super) fn opened(&mut self, token: Token, count: u32, revision: u64, id: &str) {
        let question = &self.questions[token.0];
        self.course.count("increments that were acknowledged");
        let (thread, committed) = (question.thread.clone(), question.committed);
        let known = question.id.map(|known| known.to_string());
        if committed.is_none() || known.as_deref() != Some(id) {
            self.violation("G5", format!("{token} was acknowledged, and is not durable"));
        }
        if count == 0 {
            self.violation("G4", format!("{token} was acknowledged with count 0"));
        }
        self.acknowledged(&thread, revision);
    }

    pub(super) fn keeps_renewing(&mut self, token: Token) {
        self.questions[token.0].guarded = true;
    }

    pub(super) fn renewed(&mut self, token: Token, sent: Duration) {
        self.questions[token.0].renewed = sent;
    }

    pub(super) fn releases(&mut self, token: Token) {
        self.questions[token.0].guarded = false;
        self.questions[token.0].release_sent = true;
    }

    pub(super) fn releases_any(&mut self, thread: &str) {
        *self.anonymous.entry(thread.to_owned()).or_default() += 1;
    }

    /// Its holder will not renew it any more.
    pub(super) fn abandons(&mut self, token: Token) {
        let now = self.now();
        let question = &mut self.questions[token.0];
        (question.guarded, question.held) = (false, false);
        // Renewals under way, or held in a link, may still arrive: see `look_at_leases`.
        question.last_word = now + 2 * self.latency;
    }

    pub(super) fn holder_gone(&mut self, host: &str) {
        let held: Vec<_> =
            (0..self.questions.len()).filter(|&i| self.questions[i].host == host && self.questions[i].held).collect();
        for i in held {
            self.questions[i].holder_died = true;
            self.abandons(Token(i));
        }
    }

    /// Its holder got the answer how it ended.
    pub(super) fn closed(&mut self, token: Token, how: Ended, revision: Option<u64>) {
        let question = &self.questions[token.0];
        if question.closed.is_none_or(|(ended, _)| ended != how) {
            let what = format!("the holder of {token} was told {how:?}; it is {:?}", question.closed);
            self.violation("G5", what);
        }
        if let Some(revision) = revision {
            let thread = self.questions[token.0].thread.clone();
            self.acknowledged(&thread, revision);
        }
    }

    /// A revision was in an answer: it must be durable by then.
    pub(super) fn acknowledged(&mut self, thread: &str, revision: u64) {
        let last = self.threads.entry(thread.to_owned()).or_default().last();
        if revision > last.revision {
            self.violation("G5", format!("revision {revision} of {thread} was acknowledged; the disk has {last:?}"));
        }
        let acknowledged = self.acknowledged.entry(thread.to_owned()).or_default();
        *acknowledged = revision.max(*acknowledged);
    }

    /// A batch is durable.
    pub(super) fn committed(&mut self, batch: &[Write<'_>]) {
        let now = self.now();
        for write in batch {
            match write {
                Write::PutElicitation(thread, open) => self.elicitation_opened(thread, open),
                Write::DeleteElicitation(row) => {
                    self.threads.values_mut().for_each(|thread| thread.closed(*row, now));
                }
                Write::PutClosing(thread, closing) => self.elicitation_closed(thread, closing),
                Write::PutRequest(thread, request) => self.request_counted(thread, request),
                Write::PutThread(thread, header) => self.thread_changed(thread, header),
                Write::DeleteMemory(_) => {}
                Write::DeleteThread(_) | Write::PutFloor(_) => {
                    self.violation("harness", "a thread was forgotten in so short a run".into());
                }
            }
        }
    }

    fn elicitation_opened(&mut self, thread: &ThreadId, open: &Open) {
        let now = self.now();
        let number = open.elicitation.reason.strip_prefix("question-").and_then(|number| number.parse::<usize>().ok());
        let Some(question) = number.and_then(|number| self.questions.get_mut(number)) else {
            return self.violation("G4", format!("{open:?} was never asked for"));
        };
        let number = number.expect("there is such a question");
        let twice = question.committed.replace(now).is_some();
        let wrong = question.thread != thread.as_str() || open.lease.map(|(length, _)| length) != Some(question.ttl);
        question.id = Some(open.elicitation.id);
        self.by_id.insert(open.elicitation.id, number);
        self.threads.entry(thread.as_str().to_owned()).or_default().open.insert(open.row, number);
        if twice || wrong {
            self.violation("G4", format!("question-{number} is opened, twice: {twice}, otherwise than asked: {wrong}"));
        }
    }

    fn elicitation_closed(&mut self, thread: &ThreadId, closing: &RememberedClosing) {
        let now = self.now();
        let Some(&number) = self.by_id.get(&closing.id) else {
            return self.violation("G4", format!("{closing:?} closes what was never opened"));
        };
        let question = &mut self.questions[number];
        let how = match closing.how {
            PauseEnd::Decremented | PauseEnd::Released => Ended::Released,
            PauseEnd::Expired | PauseEnd::MaxPause => Ended::Expired,
        };
        let twice = question.closed.replace((how, now)).is_some();
        let asked = question.release_sent || self.anonymous.get(thread.as_str()).is_some_and(|number| *number > 0);
        // Lease time passes only on a running server, and not while holders cannot renew.
        let began =
            [question.committed, self.server_started, self.last_sleep, self.outage_ended, Some(question.renewed)];
        let began = began.into_iter().flatten().max().unwrap_or_default();
        let capped = closing.how == PauseEnd::MaxPause;
        let early = how == Ended::Expired && !capped && now + Duration::from_millis(2) < began + question.ttl;
        let (host, ttl, guarded) = (question.host.clone(), question.ttl, question.guarded);
        if twice || (how == Ended::Released && !asked) {
            self.violation("G4", format!("question-{number} is closed, twice: {twice}, asked for: {asked}"));
        }
        if early {
            self.violation(
                "G2",
                format!("the lease of question-{number} ends early: {ttl:?}, begun anew at {began:?}"),
            );
        }
        if capped {
            return self.closed_at_the_cap(thread.as_str(), number);
        }
        if how == Ended::Expired {
            self.course.count("pauses that a lease ended");
            if self.is_awaited(thread.as_str()) {
                self.course.count("pauses of an awaited thread that a lease ended");
                if self.questions[number].holder_died {
                    self.course.count("pauses of an awaited thread whose holder died");
                }
            }
            let fit_for = self.reach.host(&host).fit_for(now).unwrap_or_default();
            if guarded && fit_for > ttl {
                self.violation("G1", format!("question-{number} is closed, though its holder could renew it"));
            }
        }
    }

    fn request_counted(&mut self, thread: &ThreadId, request: &RememberedRequest) {
        let name = (request.rpc as u8, thread.as_str().to_owned(), request.request_id.to_string());
        if !self.requests.insert(name) {
            self.violation("G4", format!("{:?} of {thread} counts twice", request.request_id));
        }
    }

    fn thread_changed(&mut self, thread: &ThreadId, header: &Header) {
        let now = self.now();
        let name = thread.as_str().to_owned();
        let books = self.threads.entry(name.clone()).or_default();
        let before = books.last();
        books.changed(header.revision, now);
        let count = books.open.len();
        let paused = header.pause.since.is_some();
        if header.revision <= before.revision {
            self.violation("G6", format!("revision {} of {name} after {}", header.revision, before.revision));
        }
        if paused != (count > 0) {
            self.violation("G2", format!("{name} has {count} open, and is paused: {paused}"));
        }
        self.line(format!("{name}: revision {}, {count} open", header.revision));
    }

    /// A server has started and loaded its store: it must contain exactly what was committed.
    pub(super) fn loaded(&mut self, contents: &Contents) {
        let mut problems = Vec::new();
        for (name, books) in self.threads.iter().filter(|(_, books)| books.last().revision > 0) {
            let Some(record) = contents.records.iter().find(|record| record.thread.as_str() == name) else {
                problems.push(format!("{name} is lost"));
                continue;
            };
            let stored: BTreeSet<_> = record.open.iter().map(|open| open.row).collect();
            let wanted: BTreeSet<_> = books.open.keys().copied().collect();
            if record.header.revision != books.last().revision || stored != wanted {
                problems.push(format!(
                    "{name}: {:?}, {stored:?} is read, {:?}, {wanted:?} was written",
                    record.header,
                    books.last()
                ));
            }
        }
        problems.into_iter().for_each(|problem| self.violation("G5", problem));
    }

    /// Checks that each lease that is not renewed has ended in time.
    pub(super) fn look_at_leases(&mut self) {
        let now = self.now();
        let longest = 2 * self.latency;
        let mut problems = Vec::new();
        let rests = [
            self.server_started,
            self.last_sleep.map(|at| at + NOTICED_WITHIN),
            self.outage_ended.map(|at| at + NOTICED_WITHIN),
        ];
        let rest = rests.into_iter().flatten().max().unwrap_or_default();
        for (number, question) in self.questions.iter_mut().enumerate() {
            let Some(committed) = question.committed else { continue };
            if question.closed.is_some() {
                continue;
            }
            let host = self.reach.host(&question.host);
            let still_sends = question.held && host.can_send();
            // Data that was sent before a link was held arrives when the link is released.
            let arrives_late = now <= question.last_word && host.link == super::Link::Held;
            if still_sends || arrives_late {
                question.last_word = now + longest;
            }
            let due = committed.max(question.last_word).max(rest) + question.ttl + ENDS_WITHIN + longest;
            if self.reach.server_up && self.store_takes_changes && now > due {
                problems.push(format!("question-{number} is open, {:?} after its lease", now - due));
            }
        }
        problems.into_iter().for_each(|problem| self.violation("G2", problem));
    }

    /// At rest, no elicitation is open.
    pub(super) fn check_all_is_closed(&mut self) {
        let open = |(name, books): (&String, &super::truth::Thread)| {
            (!books.open.is_empty()).then(|| format!("{name} is still paused"))
        };
        let problems: Vec<_> = self.threads.iter().filter_map(open).collect();
        problems.into_iter().for_each(|problem| self.violation("G2", problem));
    }
}
