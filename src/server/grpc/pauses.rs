//! A page of `ListPauses` (AIP-158), and its token: the server process and the filter, and the number below which the
//! listing continues.
//!
//! No page is too large for clients, whose default limit is 4 MiB: all ended pauses together take 1 MiB
//! (`hub/history.rs`).
use super::page::page_size;
use super::wire;
use crate::coordinator::hub::{Hub, PauseFilter};
use crate::core::scope::Scope;
use crate::core::types::{InvalidField, ThreadId};
use crate::proto::v1;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// The listing.
pub(super) struct PauseListing {
    size: usize,
    thread: Option<ThreadId>,
    ended: Range<i64>,
    token: Option<Token>,
}

/// The position at which a listing continues. A forged token reveals nothing that its client could not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token {
    /// Identifies the process: another process numbers its pauses anew.
    began: u64,
    filter: u64,
    below: u64,
}

impl PauseListing {
    pub(super) fn parse(request: &v1::ListPausesRequest) -> Result<Self, InvalidField> {
        let thread = match request.thread_id.as_str() {
            "" => None,
            id => Some(wire::thread_id(id)?),
        };
        let time = |field, time: &Option<_>| time.as_ref().map(|time| wire::wall_nanos(field, time)).transpose();
        let from = time("start_time", &request.start_time)?.unwrap_or(i64::MIN);
        let until = time("end_time", &request.end_time)?.unwrap_or(i64::MAX);
        let order = |time: &prost_types::Timestamp| (time.seconds, time.nanos);
        if let (Some(start), Some(end)) = (&request.start_time, &request.end_time)
            && order(end) < order(start)
        {
            return Err(InvalidField::new("end_time", "before start_time", "start_time or later"));
        }
        let token = match request.page_token.as_str() {
            "" => None,
            text => Some(Token::parse(text).ok_or_else(foreign_token)?),
        };
        Ok(PauseListing { size: page_size(request.page_size)?, thread, ended: from..until, token })
    }

    /// The requested thread; `None`: all.
    pub(super) fn thread(&self) -> Option<&ThreadId> {
        self.thread.as_ref()
    }

    pub(super) fn read(&self, hub: &Hub, scope: &Scope) -> Result<v1::ListPausesResponse, InvalidField> {
        let here = Token { began: hub.history_began().wall.cast_unsigned(), filter: self.digest(), below: u64::MAX };
        let below = match self.token {
            None => u64::MAX,
            Some(token) if Token { below: u64::MAX, ..token } == here => token.below,
            Some(_) => return Err(foreign_token()),
        };
        let filter = PauseFilter { scope, thread: self.thread(), ended: self.ended.clone() };
        let page = hub.pauses(below, self.size, &filter);
        let next = page.pauses.last().filter(|_| page.more).map(|last| Token { below: last.number, ..here }.text());
        Ok(v1::ListPausesResponse {
            pauses: page.pauses.iter().map(|pause| wire::pause(pause)).collect(),
            next_page_token: next.unwrap_or_default(),
            history_start_time: Some(wire::wall_time(page.complete_from)),
        })
    }

    fn digest(&self) -> u64 {
        // This hash is stable within a process, and a token is valid no longer.
        let mut hasher = DefaultHasher::new();
        (&self.thread, &self.ended).hash(&mut hasher);
        hasher.finish()
    }
}

fn foreign_token() -> InvalidField {
    let allowed = "the next_page_token of a listing with the same filter, by a server that has not restarted since";
    InvalidField::new("page_token", "no token of this listing", allowed)
}

impl Token {
    fn text(self) -> String {
        format!("{:016x}{:016x}{:016x}", self.began, self.filter, self.below)
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() != 48 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let part = |i: usize| u64::from_str_radix(&text[16 * i..16 * (i + 1)], 16).ok();
        Some(Token { began: part(0)?, filter: part(1)?, below: part(2)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_nothing_else_is_one() {
        let token = Token { began: 1, filter: u64::MAX, below: 0x1234 };
        assert_eq!(Token::parse(&token.text()), Some(token));
        let text = token.text();
        for bad in ["", "0", &text[1..], &format!("{text}0"), &text.replacen('0', "+", 1), &"é".repeat(24)] {
            assert_eq!(Token::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_interval_is_checked() {
        let at = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
        let parse = |start_time, end_time| {
            PauseListing::parse(&v1::ListPausesRequest { start_time, end_time, ..Default::default() })
                .map(|listing| listing.ended)
                .map_err(|invalid| invalid.field)
        };
        assert_eq!(parse(None, None), Ok(i64::MIN..i64::MAX));
        assert_eq!(parse(at(1, 5), at(2, 0)), Ok(1_000_000_005..2_000_000_000));
        assert_eq!(parse(at(1, 0), at(1, 0)), Ok(1_000_000_000..1_000_000_000));
        assert_eq!(parse(at(-62_135_596_800, 0), at(253_402_300_799, 999_999_999)), Ok(i64::MIN..i64::MAX));
        assert_eq!(parse(at(1, 1), at(1, 0)), Err("end_time".into()));
        assert_eq!(parse(at(1, -1), None), Err("start_time".into()));
        assert_eq!(parse(None, at(1, 1_000_000_000)), Err("end_time".into()));
        assert_eq!(parse(None, at(253_402_300_800, 0)), Err("end_time".into()));
    }
}
