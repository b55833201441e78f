//! What a watch has to ask of the coordinator. One request is under way at a time; what is added, removed and asked
//! meanwhile is collected for the next one.
//!
//! 1. A request has at most [`MAX_IDS`] ids.
//! 2. Confirmations have requests of their own and take turns with changes, so that a refused or long change delays none.
//! 3. Ids are sent in their order, so that a simulation can be replayed.
//!
//! Pure: no clock is read.
use super::super::Error;
use crate::proto::v1::{Refusal, WatchRequest};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The maximum number of ids per request; the server takes 1,000.
const MAX_IDS: usize = 500;
/// The delay before a refused request is sent again, if the refusal has none.
const RETRY_AFTER: Duration = Duration::from_secs(1);

type Ids = BTreeSet<Arc<str>>;

#[derive(Debug, Default)]
pub(super) struct Requests {
    add: Queue,
    remove: Queue,
    confirm: Queue,
    /// Threads whose confirmation was forbidden: asked again on the next stream.
    forbidden: Ids,
    /// The number of requests that were sent on the stream.
    sent: u64,
    under_way: Option<Request>,
    last_was_confirmation: bool,
}

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Request {
    number: u64,
    add: Vec<Arc<str>>,
    confirm: Vec<Arc<str>>,
    pub(super) sent: Instant,
}

/// Ids that wait to be sent, at the earliest then.
#[derive(Debug, Default)]
struct Queue {
    ids: Ids,
    not_before: Option<Instant>,
}

impl Queue {
    fn is_due(&self, now: Instant) -> bool {
        !self.ids.is_empty() && self.not_before.is_none_or(|at| at <= now)
    }

    fn take(&mut self, max: usize) -> Vec<Arc<str>> {
        self.not_before = None;
        std::iter::from_fn(|| self.ids.pop_first()).take(max).collect()
    }
}

impl Requests {
    pub(super) fn add(&mut self, thread_id: Arc<str>) {
        // A request may be sent in several parts: the later removal must not win.
        self.remove.ids.remove(&thread_id);
        self.add.ids.insert(thread_id);
    }

    /// Also takes back its confirmation.
    pub(super) fn remove(&mut self, thread_id: &Arc<str>) {
        self.confirm.ids.remove(thread_id);
        self.forbidden.remove(thread_id);
        if !self.add.ids.remove(thread_id) {
            self.remove.ids.insert(thread_id.clone());
        }
    }

    pub(super) fn confirm(&mut self, thread_id: Arc<str>) {
        self.confirm.ids.insert(thread_id);
    }

    /// Whether threads are still to be added.
    pub(super) fn is_adding(&self) -> bool {
        !self.add.ids.is_empty() || self.under_way.as_ref().is_some_and(|request| !request.add.is_empty())
    }

    /// Whether a confirmation is waited for that this stream may bring.
    pub(super) fn is_confirming(&self) -> bool {
        !self.confirm.ids.is_empty() || self.under_way.as_ref().is_some_and(|request| !request.confirm.is_empty())
    }

    /// Begins again on a new stream with these threads; what was not confirmed is asked again.
    pub(super) fn restart(&mut self, thread_ids: impl Iterator<Item = Arc<str>>) {
        let mut confirm = std::mem::take(&mut self.confirm.ids);
        confirm.append(&mut self.forbidden);
        confirm.extend(self.under_way.take().into_iter().flat_map(|request| request.confirm));
        let queue = |ids| Queue { ids, not_before: None };
        *self = Self { add: queue(thread_ids.collect()), confirm: queue(confirm), ..Self::default() };
    }

    /// The next request, if there is one to send now. `all`: the first one is sent in any case.
    pub(super) fn next(&mut self, now: Instant, all: bool, include_elicitations: bool) -> Option<WatchRequest> {
        if self.under_way.is_some() {
            return None;
        }
        let first = self.sent == 0;
        let is_change = !self.remove.ids.is_empty() || self.add.is_due(now) || (first && all);
        let is_confirmation = self.confirm.is_due(now) && !(is_change && self.last_was_confirmation);
        if !is_change && !is_confirmation {
            return None;
        }
        let (mut add, mut remove, mut confirm) = (Vec::new(), Vec::new(), Vec::new());
        if is_confirmation {
            confirm = self.confirm.take(MAX_IDS);
        } else {
            remove = self.remove.take(MAX_IDS);
            if self.add.is_due(now) {
                add = self.add.take(MAX_IDS - remove.len());
            }
        }
        self.last_was_confirmation = is_confirmation;
        self.sent += 1;
        let owned = |ids: &[Arc<str>]| ids.iter().map(|id| id.to_string()).collect();
        let request = WatchRequest {
            add: owned(&add),
            remove: owned(&remove),
            confirm: owned(&confirm),
            all_threads: first && all,
            include_elicitations: first && include_elicitations,
            token: String::new(),
        };
        self.under_way = Some(Request { number: self.sent, add, confirm, sent: now });
        Some(request)
    }

    /// When a request that a refusal has delayed is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let delayed = |queue: &Queue| queue.not_before.filter(|_| !queue.ids.is_empty());
        [delayed(&self.add), delayed(&self.confirm)].into_iter().flatten().min()
    }

    /// The request that is under way.
    pub(super) fn under_way(&self) -> Option<&Request> {
        self.under_way.as_ref()
    }

    /// Notes the answer to a request. Returns whether it was a confirmation; `None`: no request has the number.
    pub(super) fn on_answer(&mut self, number: u64) -> Option<bool> {
        let request = self.under_way.take_if(|request| request.number == number)?;
        Some(!request.confirm.is_empty())
    }

    /// Notes the refusal of a request. Returns the threads that are not watched because of it.
    pub(super) fn on_refusal(&mut self, refusal: &Refusal, now: Instant) -> Vec<Arc<str>> {
        let Some(Request { add, confirm, .. }) = self.under_way.take_if(|request| request.number == refusal.request)
        else {
            return Vec::new();
        };
        let refused: BTreeSet<&str> = refusal.thread_ids.iter().map(String::as_str).collect();
        if refused.is_empty() {
            let delay = refusal.retry_after.and_then(|delay| Duration::try_from(delay).ok());
            let queue = if confirm.is_empty() { &mut self.add } else { &mut self.confirm };
            queue.not_before = Some(now + delay.unwrap_or(RETRY_AFTER));
        }
        let is_refused = |id: &Arc<str>| refused.contains(&**id);
        let (forbidden, allowed): (Vec<_>, Vec<_>) = confirm.into_iter().partition(is_refused);
        self.confirm.ids.extend(allowed);
        self.forbidden.extend(forbidden);
        let (mut unwatched, allowed): (Vec<_>, Vec<_>) = add.into_iter().partition(is_refused);
        if refused.is_empty() {
            unwatched.extend(allowed.iter().cloned());
        }
        self.add.ids.extend(allowed);
        unwatched
    }

    /// Takes back the addition of threads that have been removed meanwhile.
    pub(super) fn retain(&mut self, mut is_watched: impl FnMut(&str) -> bool) {
        self.add.ids.retain(|id| is_watched(id));
    }
}

/// The error that a call would have ended with.
pub(super) fn error_of(refusal: Refusal) -> Error {
    let mut details = ErrorDetails::with_error_info(refusal.reason, "pausewatch", HashMap::new());
    details.set_retry_info(refusal.retry_after.and_then(|delay| delay.try_into().ok()));
    Status::with_error_details(Code::from(refusal.code), refusal.message, details).into()
}
