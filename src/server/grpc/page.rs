//! A page of `ListPauseStates` (AIP-158), and its token: the listing to continue, and the last thread.
use super::wire::{self, ReadContext};
use crate::coordinator::hub::Hub;
use crate::core::scope::Scope;
use crate::core::types::InvalidField;
use crate::proto::v1;

/// The default size of a page of threads or pauses.
const DEFAULT_SIZE: usize = 100;
/// The maximum size of a page.
const MAX_SIZE: usize = 1_000;
/// A page ends at this many bytes: a thousand threads may have a thousand elicitations each, and the default limit of
/// clients is 4 MiB.
const MAX_BYTES: usize = 2 << 20;

/// The requested size of a page.
pub(super) fn page_size(size: i32) -> Result<usize, InvalidField> {
    match usize::try_from(size) {
        Ok(0) => Ok(DEFAULT_SIZE),
        Ok(size) => Ok(size.min(MAX_SIZE)),
        Err(_) => Err(InvalidField::new("page_size", size.to_string(), "0 or more")),
    }
}

/// The listing.
pub(super) struct Page {
    after: Option<String>,
    size: usize,
    include_running: bool,
}

impl Page {
    pub(super) fn parse(request: v1::ListPauseStatesRequest) -> Result<Self, InvalidField> {
        let size = page_size(request.page_size)?;
        let include_running = request.include_running;
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(read_token(token, include_running).ok_or_else(|| {
                let allowed = "the next_page_token of a listing with the same include_running";
                InvalidField::new("page_token", "no token of this listing", allowed)
            })?),
        };
        Ok(Page { after, size, include_running })
    }

    pub(super) fn read(&self, hub: &Hub, scope: &Scope, context: ReadContext) -> v1::ListPauseStatesResponse {
        let (views, mut more) = hub.list(self.after.as_deref(), self.size, self.include_running, scope);
        let mut bytes = 0;
        let mut pause_states = Vec::with_capacity(views.len());
        for view in &views {
            let state = wire::view(view, context);
            bytes += prost::Message::encoded_len(&state);
            if bytes > MAX_BYTES && !pause_states.is_empty() {
                more = true;
                break;
            }
            pause_states.push(state);
        }
        let last = pause_states.last().map(|state| state.thread_id.as_str());
        let next_page_token = last.filter(|_| more).map(|last| write_token(last, self.include_running));
        v1::ListPauseStatesResponse { next_page_token: next_page_token.unwrap_or_default(), pause_states }
    }
}

/// The kind of listing, then the last thread in hexadecimal digits, so that people do not construct tokens.
fn write_token(last: &str, include_running: bool) -> String {
    let kind = if include_running { 'k' } else { 'p' };
    std::iter::once(kind.to_string()).chain(last.bytes().map(|byte| format!("{byte:02x}"))).collect()
}

fn read_token(token: &str, include_running: bool) -> Option<String> {
    let digits = token.strip_prefix(if include_running { 'k' } else { 'p' })?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits.len() % 2 == 0 && !digits.is_empty();
    let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).ok();
    String::from_utf8(is_hex.then(|| (0..digits.len()).step_by(2).map_while(byte).collect())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_in_its_own_listing_only() {
        let token = write_token("thread/ä", false);
        assert_eq!(read_token(&token, false).as_deref(), Some("thread/ä"));
        for foreign in [token.replacen('p', "k", 1).as_str(), "p", "p1", "pzz", "pff", "é", "p+1", ""] {
            assert_eq!(read_token(foreign, false), None, "{foreign}");
        }
    }
}
