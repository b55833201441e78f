//! Checks what is committed: each change once, in its place, and no lease ends early.
use super::super::machine::nanos;
use super::books::{GRAIN, Open, State};
use super::decided::Decided;
use pausewatch::test_support::core::types::ElicitationId;
use pausewatch::test_support::core::{Header, PauseEnd};

impl State {
    /// Checks a batch that was decided at `at`.
    pub(super) fn committed(&mut self, at: i64, decided: Vec<Decided>) {
        for decided in decided {
            match decided {
                Decided::Opened { thread, id, row, ttl } => {
                    let open = Open { thread: thread.clone(), ttl, began: at, closed: false };
                    if self.opened.insert(id, open).is_some() {
                        self.violation(format!("I3: {thread}: one elicitation is opened twice"));
                    }
                    self.rows.insert(row, thread.clone());
                    let books = self.threads.entry(thread).or_default();
                    books.open += 1;
                    books.paused_since.get_or_insert(at);
                }
                Decided::Gone { row } => {
                    let Some(thread) = self.rows.remove(&row) else {
                        self.violation(format!("I3: row {row} is closed twice, or never was"));
                        continue;
                    };
                    let books = self.threads.get_mut(&thread).expect("it was opened");
                    books.open -= 1;
                    if books.open == 0 {
                        books.accrued += at - books.paused_since.take().expect("it was paused");
                    }
                }
                Decided::Closed { id, how } => self.closed(at, id, how),
                Decided::Counted { name, thread, revision, count } => {
                    let times = self.counted.entry(name.clone()).or_default();
                    *times += 1;
                    if *times > 1 {
                        self.violation(format!("I10: {name} counts twice"));
                    }
                    self.reached(at, &thread, revision, count);
                }
                Decided::Header { thread, header } => self.changed(at, thread, header),
            }
        }
    }

    /// I9: no lease ends early.
    fn closed(&mut self, at: i64, id: ElicitationId, how: PauseEnd) {
        let served = self.served;
        let slack = self.slack(at);
        let Some(open) = self.opened.get_mut(&id) else { return self.violation("I3: what never was is closed".into()) };
        open.closed = true;
        if how != PauseEnd::Expired {
            return;
        }
        *self.counts.entry("leases that ended").or_default() += 1;
        let ttl = open.ttl.map_or(0, nanos);
        let began = open.began.max(served);
        if at + slack < began + ttl {
            let what = format!("I9: a lease of {ttl} ns on {} ended after {} ns", open.thread, at - began);
            self.violation(what);
        }
    }

    /// A thread has this revision from `at` on. A batch may contain several of one thread, the last of them twice.
    fn reached(&mut self, at: i64, thread: &str, revision: u64, count: usize) {
        let states = &mut self.threads.entry(thread.to_owned()).or_default().states;
        let (last, known, when) = states.last().copied().unwrap_or_default();
        if revision > last {
            return states.push((revision, count, at));
        }
        if (revision, count, at) != (last, known, when) {
            self.violation(format!("I5: revision {revision} of {thread}, count {count}, after {last}, count {known}"));
        }
    }

    fn changed(&mut self, at: i64, thread: String, header: Header) {
        let back = self.back;
        let books = self.threads.entry(thread.clone()).or_default();
        let (open, accrued) = (books.open, nanos(header.pause.accrued));
        let told = books.told;
        if header.pause.since.is_none() {
            books.told = None;
        }
        self.reached(at, &thread, header.revision, open);
        if header.pause.since.is_some() != (open > 0) {
            self.violation(format!("I8: {thread} has {open} open, and is paused: {}", header.pause.since.is_some()));
        }
        if let (Some((told, before)), None) = (told, header.pause.since)
            && told > accrued + (back - before) + GRAIN
        {
            self.violation(format!(
                "I6: {thread} was told to have been paused for {told} ns; at its end it was {accrued} ns"
            ));
        }
    }
}
