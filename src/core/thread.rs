//! [`decide`]: one command against one thread's record. It implements everything that docs/semantics.md says of a call.
use super::accounting::Timestamp;
use super::cap::{cap, cut};
use super::error::Refusal;
use super::idempotency::{RememberedAnswer, RememberedRequest, Rpc, fingerprint};
use super::pause_end::PauseEnd;
use super::record::{Change, Effect, Elicitation, Open, Record};
use super::types::{ElicitationId, MAX_OPEN, Ttl};
use std::sync::Arc;
use std::time::Duration;

/// A call, parsed, or the end of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Opens an elicitation.
    Increment {
        /// Empty: none.
        request_id: Box<str>,
        /// The question for the person.
        reason: Box<str>,
        /// The program that asks.
        holder: Box<str>,
        /// The requested lease.
        ttl: Option<Ttl>,
    },
    /// Closes an elicitation.
    Decrement {
        /// Empty: none.
        request_id: Box<str>,
        /// The elicitation; `None`: the oldest one without a ttl, else the oldest.
        elicitation: Option<ElicitationRef>,
        /// Whether the caller has the token of an admin.
        by_admin: bool,
    },
    /// Moves the end of a lease.
    Renew {
        /// Which.
        elicitation: ElicitationRef,
        /// Its new length; `None`: as it is.
        ttl: Option<Ttl>,
    },
    /// Closes an elicitation whose lease has ended.
    Expire {
        /// Which.
        elicitation: ElicitationId,
    },
}

/// An elicitation as a caller names it: 1 to 64 bytes, which need not be an id that the server gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElicitationRef(pub Box<str>);

/// The inputs of a decision that are not in the record.
#[derive(Clone, Copy, Debug)]
pub struct DecideInputs {
    /// The time.
    pub now: Timestamp,
    /// An id that was never used.
    pub id: ElicitationId,
    /// A store row that was never used; the one after it is free too.
    pub row: u64,
    /// The lease of an increment that requests none; `None`: without end.
    pub anonymous_ttl: Option<Duration>,
    /// The maximum length of a pause; `None`: any.
    pub max_pause: Option<Duration>,
}

/// The result of [`decide`]: the answer, and the change to make first, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// The change. `None`: the call is a repetition, whose change has been made already.
    pub change: Option<Change>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To an increment.
    Incremented {
        /// Open elicitations.
        count: u32,
        /// The revision after the change.
        revision: u64,
        /// The elicitation that was opened.
        elicitation: Arc<Elicitation>,
        /// When its lease ends.
        ends: Option<Timestamp>,
    },
    /// To a decrement, and to the end of a lease.
    Decremented {
        /// Open elicitations.
        count: u32,
        /// The revision after the change.
        revision: u64,
    },
    /// To a renewal.
    Renewed {
        /// The elicitation that was renewed.
        elicitation: Arc<Elicitation>,
        /// When its lease ends now.
        ends: Option<Timestamp>,
    },
}

/// Evaluates `command` against `record`.
///
/// # Errors
/// The command is refused; the record must not be changed.
pub fn decide(record: &Record, command: &Command, inputs: DecideInputs) -> Result<Decision, Refusal> {
    match command {
        Command::Increment { request_id, reason, holder, ttl } => {
            increment(record, request_id, (reason, holder, *ttl), inputs)
        }
        Command::Decrement { request_id, elicitation, by_admin } => {
            let how = if *by_admin { PauseEnd::Released } else { PauseEnd::Decremented };
            decrement(record, request_id, (elicitation.as_ref(), how), inputs)
        }
        Command::Renew { elicitation, ttl } => renew(record, elicitation, *ttl, inputs),
        Command::Expire { elicitation } => expire(record, *elicitation, inputs),
    }
}

type Content<'a> = (&'a str, &'a str, Option<Ttl>);

fn increment(
    record: &Record,
    request_id: &str,
    content: Content<'_>,
    inputs: DecideInputs,
) -> Result<Decision, Refusal> {
    let (reason, holder, ttl) = content;
    let length = ttl.map(|ttl| ttl.get().as_nanos().to_be_bytes());
    let print = || fingerprint([reason.as_bytes(), holder.as_bytes(), length.as_ref().map_or(&[][..], |l| &l[..])]);
    if let Some(before) = replayed(record, Rpc::Increment, request_id, print, inputs.now)? {
        let (id, ends) = before.answer.opened.expect("a remembered increment has opened something");
        let elicitation = Elicitation { id, reason: reason.into(), holder: holder.into(), created: before.at };
        let RememberedAnswer { count, revision, .. } = before.answer;
        let answer = Answer::Incremented { count, revision, elicitation: Arc::new(elicitation), ends };
        return Ok(Decision { answer, change: None });
    }
    if record.open.len() >= MAX_OPEN {
        return Err(Refusal::TooMany { thread: record.thread.clone() });
    }
    let elicitation = Elicitation { id: inputs.id, reason: reason.into(), holder: holder.into(), created: inputs.now };
    let after = record.header_after(record.open.len() + 1, inputs.now);
    let cap = cap(&after.pause, inputs.max_pause);
    let length = ttl.map(Ttl::get).or(inputs.anonymous_ttl).or(inputs.max_pause);
    let open = Open {
        elicitation: Arc::new(elicitation),
        lease: length.map(|length| (length, cut(inputs.now.after(length), cap))),
        anonymous: ttl.is_none(),
        row: inputs.row,
    };
    let (count, revision, ends) = (record.count() + 1, after.revision, open.ends());
    let answer = Answer::Incremented { count, revision, elicitation: open.elicitation.clone(), ends };
    let remembered = RememberedAnswer { count, revision, opened: Some((inputs.id, ends)) };
    let request = remember(Rpc::Increment, request_id, print, remembered, inputs);
    let change = Change { before: record.header, after, effect: Effect::Opened(open), request };
    Ok(Decision { answer, change: Some(change) })
}

fn decrement(
    record: &Record,
    request_id: &str,
    (named, how): (Option<&ElicitationRef>, PauseEnd),
    inputs: DecideInputs,
) -> Result<Decision, Refusal> {
    let print = || fingerprint(named.map(|named| named.0.as_bytes()));
    if let Some(before) = replayed(record, Rpc::Decrement, request_id, print, inputs.now)? {
        let RememberedAnswer { count, revision, .. } = before.answer;
        return Ok(Decision { answer: Answer::Decremented { count, revision }, change: None });
    }
    let index = match named {
        Some(named) => find(record, named, inputs.now)?,
        None => {
            let oldest_anonymous = record.open.iter().position(|open| open.anonymous);
            let oldest = (!record.open.is_empty()).then_some(0);
            oldest_anonymous.or(oldest).ok_or_else(|| Refusal::NoOutstanding { thread: record.thread.clone() })?
        }
    };
    let mut change = record.closing(index, how, inputs.row, inputs.now);
    let (count, revision) = (record.count() - 1, change.after.revision);
    let remembered = RememberedAnswer { count, revision, opened: None };
    change.request = remember(Rpc::Decrement, request_id, print, remembered, inputs);
    Ok(Decision { answer: Answer::Decremented { count, revision }, change: Some(change) })
}

fn renew(record: &Record, named: &ElicitationRef, ttl: Option<Ttl>, inputs: DecideInputs) -> Result<Decision, Refusal> {
    let (now, cap) = (inputs.now, cap(&record.header.pause, inputs.max_pause));
    let index = find(record, named, now)?;
    let open = &record.open[index];
    let length = ttl.map(Ttl::get).or(open.lease.map(|(length, _)| length));
    let after = length.map(|length| (length, cut(now.after(length), cap)));
    let answer = Answer::Renewed { elicitation: open.elicitation.clone(), ends: after.map(|(_, ends)| ends) };
    let effect = Effect::Renewed { id: open.elicitation.id, index, before: open.lease, after };
    let change = Change { before: record.header, after: record.header, effect, request: None };
    Ok(Decision { answer, change: Some(change) })
}

fn expire(record: &Record, id: ElicitationId, inputs: DecideInputs) -> Result<Decision, Refusal> {
    let index = record.position(id).filter(|&index| record.open[index].has_ended(inputs.now));
    let unknown = || Refusal::Unknown { thread: record.thread.clone(), elicitation_id: id.to_string().into() };
    let index = index.ok_or_else(unknown)?;
    let cap = cap(&record.header.pause, inputs.max_pause);
    let at_cap = record.open[index].ends().zip(cap).is_some_and(|(ends, cap)| cap.boot <= ends.boot);
    let how = if at_cap { PauseEnd::MaxPause } else { PauseEnd::Expired };
    let change = record.closing(index, how, inputs.row, inputs.now);
    let answer = Answer::Decremented { count: record.count() - 1, revision: change.after.revision };
    Ok(Decision { answer, change: Some(change) })
}

/// The place of an open elicitation, or why there is none.
fn find(record: &Record, named: &ElicitationRef, now: Timestamp) -> Result<usize, Refusal> {
    let id = ElicitationId::parse(&named.0);
    if let Some(index) = id.and_then(|id| record.position(id)) {
        return Ok(index);
    }
    let (thread, elicitation_id) = (record.thread.clone(), named.0.clone());
    Err(match id.and_then(|id| record.memory.closing(id, now)) {
        None => Refusal::Unknown { thread, elicitation_id },
        Some(closing) => {
            let ago_ms = u64::try_from(now.since(closing.at).as_millis()).unwrap_or(u64::MAX);
            match closing.how {
                PauseEnd::Decremented | PauseEnd::Released => Refusal::Released { thread, elicitation_id, ago_ms },
                PauseEnd::Expired => Refusal::Expired { thread, elicitation_id, ago_ms },
                PauseEnd::MaxPause => Refusal::Capped { thread, elicitation_id, ago_ms },
            }
        }
    })
}

/// The remembered request of this call, if it was made before.
fn replayed<'a>(
    record: &'a Record,
    rpc: Rpc,
    request_id: &str,
    print: impl Fn() -> u128,
    now: Timestamp,
) -> Result<Option<&'a RememberedRequest>, Refusal> {
    if request_id.is_empty() {
        return Ok(None);
    }
    match record.memory.request(rpc, request_id, now) {
        Some(before) if before.fingerprint != print() => {
            Err(Refusal::RequestIdReused { thread: record.thread.clone(), request_id: request_id.into() })
        }
        before => Ok(before),
    }
}

fn remember(
    rpc: Rpc,
    request_id: &str,
    print: impl Fn() -> u128,
    answer: RememberedAnswer,
    inputs: DecideInputs,
) -> Option<RememberedRequest> {
    (!request_id.is_empty()).then(|| RememberedRequest {
        rpc,
        request_id: request_id.into(),
        fingerprint: print(),
        answer,
        at: inputs.now,
        row: inputs.row + 1,
    })
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
