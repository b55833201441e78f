//! The decisions of a leader, in the terms of the books.
use pausewatch::test_support::core::types::ElicitationId;
use pausewatch::test_support::core::{Header, PauseEnd};
use pausewatch::test_support::store::Write;
use std::time::Duration;

/// One change of a batch, as the engine decided it.
pub(super) enum Decided {
    Opened {
        thread: String,
        id: ElicitationId,
        row: u64,
        ttl: Option<Duration>,
    },
    Gone {
        row: u64,
    },
    Closed {
        id: ElicitationId,
        how: PauseEnd,
    },
    /// A request id, and the answer to its call.
    Counted {
        name: String,
        thread: String,
        revision: u64,
        count: usize,
    },
    Header {
        thread: String,
        header: Header,
    },
}

/// Translates a batch of the engine; `None`: it evicts a thread, for which every run is too short.
pub(super) fn decided(batch: &[Write<'_>]) -> Option<Vec<Decided>> {
    let mut decided = Vec::new();
    for write in batch {
        decided.push(match write {
            Write::PutElicitation(thread, open) => Decided::Opened {
                thread: thread.to_string(),
                id: open.elicitation.id,
                row: open.row,
                ttl: open.lease.map(|(length, _)| length),
            },
            Write::DeleteElicitation(row) => Decided::Gone { row: *row },
            Write::PutClosing(_, closing) => Decided::Closed { id: closing.id, how: closing.how },
            Write::PutRequest(thread, request) => Decided::Counted {
                name: format!("{:?} {thread} {}", request.rpc, request.request_id),
                thread: thread.to_string(),
                revision: request.answer.revision,
                count: request.answer.count as usize,
            },
            Write::PutThread(thread, header) => Decided::Header { thread: thread.to_string(), header: **header },
            Write::DeleteMemory(_) => continue,
            Write::DeleteThread(_) | Write::PutFloor(_) => return None,
        });
    }
    Some(decided)
}
