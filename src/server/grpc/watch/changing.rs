//! `Watch`: the client adds and removes threads, and requests present states, while the stream is open.
//!
//! One request is answered at a time. Its threads become due; then everything that is due is sent, then the requested
//! present states, then the number of the request. So an answer comes after every state that was committed before its
//! request arrived.
use super::super::frame::{self, Batch, BatchSize, Confirmation, Show, UntilComplete};
use super::super::wire::{self, WatchChange};
use super::confirmed::Confirming;
use super::requests::Requests;
use super::stream::{Sent, Stream, end_of, hold_ids};
use crate::coordinator::hub::{Interest, Subscription};
use crate::core::types::ThreadId;
use crate::proto::v1;
use crate::server::access::Access;
use crate::server::admission::{ConnectionContext, MemoryReservation, RequestRate, Rights};
use crate::server::status;
use bytes::Bytes;
use http_body::Frame;
use prost::Message;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::Status;

/// The messages of a watch whose threads change.
pub(super) struct Changing {
    stream: Stream,
    requests: Requests,
    rate: RequestRate,
    rights: Rights,
    access: Option<Arc<Access>>,
    /// Requests that were read.
    number: u64,
    /// Whether a request was accepted: some settings can be made only by the first one.
    is_begun: bool,
    is_of_all: bool,
    answer: Option<Box<Answer>>,
    confirming: Option<Box<Unconfirmed>>,
}

/// A request that waits until the hub shows the latest state.
struct Unconfirmed {
    confirming: Confirming,
    request: v1::WatchRequest,
    _held: Option<MemoryReservation>,
}

/// The rest of the answer to a request.
struct Answer {
    /// Whether everything that was due at the request was sent.
    is_due: bool,
    /// Threads whose states are sent as separate messages.
    states: VecDeque<ThreadId>,
    /// Threads whose states are sent in a confirmation.
    confirm: VecDeque<ThreadId>,
    _held: Option<MemoryReservation>,
}

/// Why a request had no effect.
enum Failure {
    /// The stream continues.
    Refused(v1::Refusal),
    /// The stream ends.
    Invalid(Status),
}

impl Changing {
    pub(super) fn new(
        stream: Stream,
        (requests, rate): (Requests, RequestRate),
        rights: Rights,
        access: Option<Arc<Access>>,
    ) -> Self {
        Changing {
            stream,
            requests,
            rate,
            rights,
            access,
            number: 0,
            is_begun: false,
            is_of_all: false,
            answer: None,
            confirming: None,
        }
    }

    /// Begins to answer a request.
    fn begin(&mut self, request: v1::WatchRequest) -> Result<(), Failure> {
        self.number += 1;
        let refused = |status: &Status, threads| Failure::Refused(status::refusal(self.number, status, threads));
        let change = wire::watch_change(request, !self.is_begun);
        let change = change.map_err(|invalid| Failure::Invalid(status::of_field(invalid)))?;
        let renewed = self.renewed(&change).map_err(|status| refused(&status, vec![]))?;
        let rights = renewed.as_ref().unwrap_or(&self.rights);
        let forbidden = |thread: &&ThreadId| rights.open(thread).is_err();
        let forbidden: Vec<_> = change.add.iter().chain(&change.confirm).filter(forbidden).collect();
        if let Some(first) = forbidden.first() {
            let ids = forbidden.iter().map(ToString::to_string).collect();
            return Err(refused(&status::forbidden_thread(first), ids));
        }
        let Some(subscription) = &mut self.stream.subscription else { return Ok(()) };
        let interest = match change.all_threads {
            true => Some(rights.within(Interest::All).map_err(|status| refused(&status, vec![]))?),
            false => None,
        };
        let is_of_all = self.is_of_all || change.all_threads;
        let watched = match &interest {
            Some(interest) => Some(interest.named()),
            None if is_of_all => None,
            None => Some(subscription.count_after(&change.remove, &change.add)),
        };
        if let Some(watched) = watched {
            let context = &self.stream.ends.context;
            let exceeded = self.stream.permit.set_watched(watched as u64, &context.limits);
            exceeded.map_err(|exceeded| refused(&context.refuse(exceeded), vec![]))?;
        }
        // From here on nothing fails.
        if !std::mem::replace(&mut self.is_begun, true) {
            self.stream.include_elicitations = change.include_elicitations;
            if change.observer {
                subscription.observe();
            }
        }
        if let Some(rights) = renewed {
            self.stream.end = end_of(self.access.as_ref(), &rights);
            self.rights = rights;
        }
        self.is_of_all = is_of_all;
        match interest {
            Some(interest) => subscription.begin(interest),
            None if is_of_all => {}
            None => subscription.change(&change.remove, &change.add),
        }
        subscription.mark();
        let states = if is_of_all { change.add } else { Vec::new() };
        self.answer = Some(Box::new(Answer::new(states, change.confirm, self.stream.connection.as_ref())));
        Ok(())
    }

    /// The rights of the token in a request; `None`: there is none, or the server requires none.
    fn renewed(&self, change: &WatchChange) -> Result<Option<Rights>, Status> {
        let Some(access) = self.access.as_ref().filter(|_| !change.token.is_empty()) else { return Ok(None) };
        let caller = access.authenticate_token(change.token.as_bytes());
        let caller = caller.map_err(|denial| status::of_denial(&denial))?;
        self.rights.renewed(caller).map(Some)
    }

    /// The next request. A replica waits until it shows at least the state at the time when the request arrived.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<v1::WatchRequest, Status>> {
        if self.confirming.is_none() {
            ready!(self.rate.poll_ready(cx));
            let request = ready!(self.requests.poll_next(cx))?;
            self.rate.count(request.encoded_len());
            let Some(confirmed) = self.stream.confirmed.as_ref().filter(|_| asks_for_states(&request)) else {
                return Poll::Ready(Ok(request));
            };
            let ids = request.add.iter().chain(&request.confirm).chain(&request.remove);
            let held = hold_ids(self.stream.connection.as_ref(), ids);
            let confirming = (confirmed.confirm)();
            self.confirming = Some(Box::new(Unconfirmed { confirming, request, _held: held }));
        }
        if let Some(waiting) = &mut self.confirming {
            ready!(waiting.confirming.as_mut().poll(cx))?;
        }
        Poll::Ready(Ok(self.confirming.take().map(|confirmed| confirmed.request).unwrap_or_default()))
    }

    fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<Sent> {
        loop {
            if self.stream.subscription.is_none() {
                return Poll::Ready(None);
            }
            if self.answer.is_none()
                && let Poll::Ready(request) = self.poll_request(cx)
            {
                match request.map_err(Failure::Invalid).and_then(|request| self.begin(request)) {
                    Ok(()) => {}
                    Err(Failure::Refused(refusal)) => return Poll::Ready(self.stream.send(frame::refused(refusal))),
                    Err(Failure::Invalid(status)) => return Poll::Ready(self.stream.end_with(&status)),
                }
            }
            let stream = &mut self.stream;
            let Some(subscription) = &stream.subscription else { return Poll::Ready(None) };
            let show = stream.show(subscription.hub());
            let Some(subscription) = &mut stream.subscription else { return Poll::Ready(None) };
            if let Some(answer) = self.answer.as_mut().filter(|answer| answer.is_due) {
                let bytes = answer.next_part(subscription, show, stream.batch_size, self.number);
                self.answer.take_if(|answer| answer.is_sent());
                return Poll::Ready(stream.send(bytes));
            }
            let mut batch = UntilComplete::new(Batch::new(show, stream.batch_size));
            match subscription.poll_next(cx, &mut batch) {
                Poll::Pending => {
                    stream.batch_size = BatchSize::FIRST;
                    return Poll::Pending;
                }
                Poll::Ready(true) => {
                    let (bytes, is_complete) = batch.finish();
                    if let Some(answer) = self.answer.as_mut().filter(|_| is_complete) {
                        answer.is_due = true;
                    }
                    if !bytes.is_empty() {
                        return Poll::Ready(stream.send(bytes));
                    }
                }
                Poll::Ready(false) => return Poll::Ready(stream.end_with(&status::draining())),
            }
        }
    }
}

fn asks_for_states(request: &v1::WatchRequest) -> bool {
    request.all_threads || !request.add.is_empty() || !request.confirm.is_empty()
}

impl Answer {
    fn new(states: Vec<ThreadId>, confirm: Vec<ThreadId>, connection: Option<&Arc<ConnectionContext>>) -> Self {
        let held = hold_ids(connection, states.iter().chain(&confirm));
        Answer { is_due: false, states: states.into(), confirm: confirm.into(), _held: held }
    }

    /// Whether everything except its number was sent.
    fn is_sent(&self) -> bool {
        self.states.is_empty() && self.confirm.is_empty()
    }

    /// The next part after everything that was due; the last part ends with the number of the request.
    fn next_part(&mut self, subscription: &Subscription, show: Show, size: BatchSize, number: u64) -> Bytes {
        let mut batch = Batch::new(show, size);
        if !self.states.is_empty() {
            let given = subscription.give(self.states.make_contiguous(), &mut batch);
            self.states.drain(..given);
        } else if !self.confirm.is_empty() {
            let mut confirmation = Confirmation::new(show, size);
            let given = subscription.give(self.confirm.make_contiguous(), &mut confirmation);
            self.confirm.drain(..given);
            batch.push(confirmation.finish());
        }
        if self.is_sent() {
            batch.push(frame::answered(number));
            if number == 1 {
                batch.say_interval();
            }
        }
        batch.finish()
    }
}

impl http_body::Body for Changing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Poll::Ready(end) = this.stream.poll_end(cx) {
            return Poll::Ready(end);
        }
        this.poll_messages(cx)
    }
}
