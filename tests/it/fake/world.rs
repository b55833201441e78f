//! The threads of the fake: counts, revisions, paused time, leases.
use pausewatch::client::{Elicitation, PauseState};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct World {
    threads: HashMap<String, Thread>,
    answers: HashMap<(&'static str, String, String), Opened>,
    last_id: u64,
}

#[derive(Debug, Default)]
struct Thread {
    open: Vec<Lease>,
    closed: HashMap<String, &'static str>,
    revision: u64,
    total: Duration,
    since: Option<Instant>,
}

#[derive(Debug)]
struct Lease {
    id: String,
    ttl: Option<Duration>,
    end: Option<Instant>,
}

/// The part of an answer that a retried call gets again.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) elicitation_id: String,
    pub(crate) count: u32,
    pub(crate) revision: u64,
}

impl World {
    pub(crate) fn open(&mut self, thread_id: &str, ttl: Option<Duration>) -> String {
        self.last_id += 1;
        let id = format!("e{}", self.last_id);
        let now = Instant::now();
        let thread = self.threads.entry(thread_id.to_owned()).or_default();
        thread.since.get_or_insert(now);
        thread.open.push(Lease { id: id.clone(), ttl, end: ttl.map(|ttl| now + ttl) });
        thread.revision += 1;
        id
    }

    /// Closes an elicitation; otherwise returns the reason why not: "", "RELEASED" or "EXPIRED".
    pub(crate) fn close(&mut self, thread_id: &str, id: &str, how: &'static str) -> Result<(), &'static str> {
        let thread = self.threads.entry(thread_id.to_owned()).or_default();
        let Some(at) = thread.open.iter().position(|lease| lease.id == id) else {
            return Err(thread.closed.get(id).copied().unwrap_or("UNKNOWN"));
        };
        thread.open.remove(at);
        thread.closed.insert(id.to_owned(), how);
        thread.revision += 1;
        if thread.open.is_empty()
            && let Some(since) = thread.since.take()
        {
            thread.total += since.elapsed();
        }
        Ok(())
    }

    pub(crate) fn close_oldest(&mut self, thread_id: &str) {
        let id = self.threads[thread_id].open[0].id.clone();
        self.close(thread_id, &id, "RELEASED").unwrap();
    }

    pub(crate) fn renew(&mut self, thread_id: &str, id: &str, ttl: Option<Duration>) -> Result<(), &'static str> {
        let thread = self.threads.entry(thread_id.to_owned()).or_default();
        let Some(lease) = thread.open.iter_mut().find(|lease| lease.id == id) else {
            return Err(thread.closed.get(id).copied().unwrap_or("UNKNOWN"));
        };
        lease.ttl = ttl.or(lease.ttl);
        lease.end = lease.ttl.map(|ttl| Instant::now() + ttl);
        Ok(())
    }

    /// Closes the elicitations that have expired; returns when the next lease ends.
    pub(crate) fn expire(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let ended: Vec<_> = self
            .threads
            .iter()
            .flat_map(|(thread_id, thread)| thread.open.iter().map(move |lease| (thread_id.clone(), lease)))
            .filter(|(_, lease)| lease.end.is_some_and(|end| end <= now))
            .map(|(thread_id, lease)| (thread_id, lease.id.clone()))
            .collect();
        for (thread_id, id) in ended {
            self.close(&thread_id, &id, "EXPIRED").unwrap();
        }
        self.threads.values().flat_map(|thread| &thread.open).filter_map(|lease| lease.end).min()
    }

    pub(crate) fn state(&self, thread_id: &str) -> PauseState {
        let none = Thread::default();
        let thread = self.threads.get(thread_id).unwrap_or(&none);
        let open_for = thread.since.map(|since| since.elapsed());
        let elicitations = thread.open.iter().map(|lease| Elicitation {
            elicitation_id: lease.id.clone(),
            thread_id: thread_id.to_owned(),
            ..Elicitation::default()
        });
        PauseState {
            thread_id: thread_id.to_owned(),
            count: u32::try_from(thread.open.len()).unwrap(),
            paused: !thread.open.is_empty(),
            revision: thread.revision,
            paused_total: Some((thread.total + open_for.unwrap_or_default()).try_into().unwrap()),
            paused_for: open_for.map(|open_for| open_for.try_into().unwrap()),
            pause_start_time: None,
            store_epoch: 0,
            elicitations: elicitations.collect(),
            longest_lease: None,
            last_pause_end: 0,
            watchers: 0,
        }
    }

    pub(crate) fn revision(&self, thread_id: &str) -> u64 {
        self.threads.get(thread_id).map_or(0, |thread| thread.revision)
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.threads.keys().cloned().collect()
    }

    pub(crate) fn answered(&self, rpc: &'static str, thread_id: &str, request_id: &str) -> Option<Opened> {
        self.answers.get(&(rpc, thread_id.to_owned(), request_id.to_owned())).cloned()
    }

    pub(crate) fn remember(&mut self, rpc: &'static str, thread_id: &str, request_id: &str, answer: &Opened) {
        self.answers.insert((rpc, thread_id.to_owned(), request_id.to_owned()), answer.clone());
    }

    /// Loses its state, as a memory store that was restarted.
    pub(crate) fn forget_everything(&mut self) {
        *self = Self { last_id: self.last_id, ..Self::default() };
    }
}
