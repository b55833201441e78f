//! Counts the values of a message before it is decoded: an empty id takes two bytes, and 24 bytes when it is decoded.
use prost::encoding::{DecodeContext, decode_key, skip_field};

/// Whether `message` has more than `most` values at its top level; each element of a list is one. The part before the
/// first malformed one counts: decoding reports that one.
pub(super) fn are_more_than(most: usize, mut message: &[u8]) -> bool {
    let mut count = 0;
    while count <= most && !message.is_empty() {
        let Ok((tag, wire_type)) = decode_key(&mut message) else { return false };
        if skip_field(wire_type, tag, &mut message, DecodeContext::default()).is_err() {
            return false;
        }
        count += 1;
    }
    count > most
}

#[cfg(test)]
mod tests {
    use super::super::codec::decode;
    use super::*;
    use crate::core::types::{MAX_VALUES, MAX_WATCHED};
    use crate::proto::v1::WatchPauseStateRequest;

    #[test]
    fn values_are_counted_up_to_the_first_malformed_one() {
        let ids = |n| b"\x0a\x00".repeat(n);
        assert!(!are_more_than(3, &ids(3)) && are_more_than(3, &ids(4)) && !are_more_than(3, b""));
        assert!(are_more_than(3, &[&ids(4), &b"\xff"[..]].concat()));
        assert!(!are_more_than(3, &[&ids(3), &b"\x0a\xff"[..]].concat()));
    }

    #[test]
    fn a_message_of_a_million_empty_ids_is_refused_and_one_of_all_ids_is_read() {
        let read = |n| decode::<WatchPauseStateRequest>(&b"\x0a\x00".repeat(n)[..]).map(|read| read.thread_ids.len());
        assert_eq!(read(MAX_WATCHED).unwrap(), MAX_WATCHED);
        assert_eq!(read(MAX_VALUES).unwrap(), MAX_VALUES);
        assert!(read(1_000_000).unwrap_err().message().contains("more than 10,100 values"));
    }
}
