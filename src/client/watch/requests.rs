//! The requests of a watch. There is one unanswered request at a time; further additions, removals and confirmations
//! are collected for the next one.
//!
//! 1. A request has at most [`MAX_IDS`] ids.
//! 2. Confirmations have requests of their own and alternate with changes, so that a refused or long change delays no
//!    confirmation.
//! 3. Removals are sent before additions, so a thread that was removed and added again is watched.
//! 4. A refused request has had no effect: all of it is sent again, except the threads that are forbidden. Fields that
//!    only the first request may set are sent until a request is accepted.
//! 5. Ids are sent in their order, so that a simulation can be replayed.
//!
//! Pure: no clock is read.
use super::super::{Error, retry::deadline_after};
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
    /// Threads whose confirmation was forbidden: it is requested again on the next stream.
    forbidden: Ids,
    /// The number of requests that were sent on the stream.
    sent: u64,
    /// Whether the stream has accepted one of them.
    is_accepted: bool,
    under_way: Option<Request>,
    last_was_confirmation: bool,
    /// A new token for the stream.
    token: Option<String>,
}

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Request {
    number: u64,
    add: Vec<Arc<str>>,
    remove: Vec<Arc<str>>,
    confirm: Vec<Arc<str>>,
    is_token: bool,
    pub(super) sent: Instant,
}

/// Ids to be sent, not before the given time.
#[derive(Debug, Default)]
struct Queue {
    ids: Ids,
    not_before: Option<Instant>,
}

impl Queue {
    fn is_allowed(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.ids.is_empty() && self.is_allowed(now)
    }

    fn take(&mut self, max: usize) -> Vec<Arc<str>> {
        self.not_before = None;
        std::iter::from_fn(|| self.ids.pop_first()).take(max).collect()
    }
}

impl Requests {
    pub(super) fn add(&mut self, thread_id: Arc<str>) {
        self.add.ids.insert(thread_id);
    }

    /// Also withdraws its confirmation.
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

    /// Renews the token of the stream.
    pub(super) fn renew(&mut self, token: String) {
        self.token = Some(token);
    }

    /// Whether the stream has accepted a request.
    pub(super) fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// Whether threads are still to be added.
    pub(super) fn is_adding(&self, all: bool) -> bool {
        let is_added = |request: &Request| !request.add.is_empty();
        (all && !self.is_accepted) || !self.add.ids.is_empty() || self.under_way.as_ref().is_some_and(is_added)
    }

    /// Whether a confirmation is awaited that this stream may deliver.
    pub(super) fn is_confirming(&self) -> bool {
        !self.confirm.ids.is_empty() || self.under_way.as_ref().is_some_and(|request| !request.confirm.is_empty())
    }

    /// The earliest time for a confirmation that the coordinator has set.
    pub(super) fn confirm_not_before(&self) -> Option<Instant> {
        self.confirm.not_before
    }

    /// Begins again on a new stream with these threads; open confirmations are requested again.
    pub(super) fn restart(&mut self, thread_ids: impl Iterator<Item = Arc<str>>) {
        let mut confirm = std::mem::take(&mut self.confirm.ids);
        confirm.append(&mut self.forbidden);
        confirm.extend(self.under_way.take().into_iter().flat_map(|request| request.confirm));
        let queue = |ids| Queue { ids, not_before: None };
        *self = Self { add: queue(thread_ids.collect()), confirm: queue(confirm), ..Self::default() };
    }

    /// The next request, if there is one to send now. `of_stream`: the fields of the whole stream, which are sent until
    /// a request is accepted. With `all_threads`, a request is sent until then even if it has no ids.
    pub(super) fn next(&mut self, now: Instant, of_stream: WatchRequest) -> Option<WatchRequest> {
        if self.under_way.is_some() {
            return None;
        }
        if self.is_accepted
            && let Some(token) = self.token.take()
        {
            // Sent alone: if it is refused, nothing else has to be sent again.
            self.sent += 1;
            let (add, remove, confirm) = Default::default();
            self.under_way = Some(Request { number: self.sent, add, remove, confirm, is_token: true, sent: now });
            return Some(WatchRequest { token, ..WatchRequest::default() });
        }
        let may_set = !self.is_accepted;
        let is_begin = of_stream.all_threads && may_set && self.add.is_allowed(now);
        let is_change = !self.remove.ids.is_empty() || self.add.is_due(now) || is_begin;
        let is_confirmation = self.confirm.is_due(now) && !(is_change && self.last_was_confirmation);
        if !is_change && !is_confirmation {
            return None;
        }
        let (mut add, mut remove, mut confirm) = (Vec::new(), Vec::new(), Vec::new());
        if is_confirmation {
            confirm = self.confirm.take(MAX_IDS);
        } else {
            remove = self.remove.take(MAX_IDS);
            if self.add.is_allowed(now) {
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
            ..if may_set { of_stream } else { WatchRequest::default() }
        };
        self.under_way = Some(Request { number: self.sent, add, remove, confirm, is_token: false, sent: now });
        Some(request)
    }

    /// When a delayed request is due; `None` while another one is unanswered, because its answer comes first.
    pub(super) fn due(&self, all: bool) -> Option<Instant> {
        let is_begin = all && !self.is_accepted;
        let add = self.add.not_before.filter(|_| is_begin || !self.add.ids.is_empty());
        let confirm = self.confirm.not_before.filter(|_| !self.confirm.ids.is_empty());
        [add, confirm].into_iter().flatten().min().filter(|_| self.under_way.is_none())
    }

    /// The unanswered request.
    pub(super) fn under_way(&self) -> Option<&Request> {
        self.under_way.as_ref()
    }

    /// Notes the answer to a request. Returns whether it was a confirmation; `None`: no request has the number.
    pub(super) fn on_answer(&mut self, number: u64) -> Option<bool> {
        let request = self.under_way.take_if(|request| request.number == number)?;
        self.is_accepted = true;
        Some(!request.confirm.is_empty())
    }

    /// Whether the request with this number renews the token of the stream, and nothing else.
    pub(super) fn is_renewal(&self, number: u64) -> bool {
        self.under_way.as_ref().is_some_and(|request| request.is_token && request.number == number)
    }

    /// Notes the refusal of a request. Returns the threads that are not watched because of it.
    pub(super) fn on_refusal(&mut self, refusal: &Refusal, now: Instant) -> Vec<Arc<str>> {
        let refused = self.under_way.take_if(|request| request.number == refusal.request);
        let Some(Request { add, remove, confirm, is_token: false, .. }) = refused else { return Vec::new() };
        self.remove.ids.extend(remove);
        let refused: BTreeSet<&str> = refusal.thread_ids.iter().map(String::as_str).collect();
        if refused.is_empty() {
            let delay = refusal.retry_after.and_then(|delay| Duration::try_from(delay).ok());
            let queue = if confirm.is_empty() { &mut self.add } else { &mut self.confirm };
            queue.not_before = Some(deadline_after(now, delay.unwrap_or(RETRY_AFTER)));
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

    /// Withdraws the addition of threads that were removed meanwhile.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn nothing_is_due_while_a_request_is_under_way() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        requests.add("a".into());
        assert!(requests.next(start, WatchRequest::default()).is_some());
        let retry_after = SECOND.try_into().ok();
        requests.on_refusal(&Refusal { request: 1, retry_after, ..Refusal::default() }, start);
        assert_eq!(requests.due(false), Some(start + SECOND));
        requests.confirm("b".into());
        assert_eq!(
            requests.next(start, WatchRequest::default()).map(|request| request.confirm),
            Some(vec!["b".to_owned()])
        );
        assert_eq!(requests.due(false), None, "its answer comes first: a timer would fire again and again");
        requests.on_answer(2);
        assert_eq!(requests.due(false), Some(start + SECOND));
        assert_eq!(
            requests.next(start + SECOND, WatchRequest::default()).map(|request| request.add),
            Some(vec!["a".to_owned()])
        );
    }

    #[test]
    fn a_retry_delay_beyond_every_clock_is_a_long_one() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        requests.add("a".into());
        assert!(requests.next(start, WatchRequest::default()).is_some());
        let retry_after = Some(prost_types::Duration { seconds: i64::MAX, nanos: 0 });
        requests.on_refusal(&Refusal { request: 1, retry_after, ..Refusal::default() }, start);
        assert!(requests.due(false).is_some_and(|due| due > start + SECOND * 86_400));
    }
}
