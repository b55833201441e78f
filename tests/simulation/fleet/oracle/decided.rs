//! What a leader has decided, in the words of the books.
use pausewatch::test_support::core::types::ElicitationId;
use pausewatch::test_support::core::{Closing, Header};
use pausewatch::test_support::store::Write;
use std::time::Duration;

/// One change of a batch, as the engine has decided it.
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
        how: Closing,
    },
    /// A request id, and what its call is answered.
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

/// A batch of the engine; `None`: it forgets a thread, which no run is long enough for.
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
