//! The prefix of a message in a stream, which is the same in gRPC and Connect: a byte of flags, and the length in four
//! bytes.
use crate::core::types::InvalidField;
use crate::server::status;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tonic::Status;

/// Bytes of flags and length.
pub(super) const PREFIX: usize = 5;
/// The message is compressed.
const COMPRESSED: u8 = 1;
/// The last message of a stream, which says how it ended. Only Connect has it.
pub(super) const END: u8 = 2;

/// A message with its prefix.
pub(super) fn write(flags: u8, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.len());
    append(&mut bytes, flags, message);
    bytes.freeze()
}

/// Appends a message with its prefix.
pub(super) fn append(bytes: &mut BytesMut, flags: u8, message: &[u8]) {
    bytes.put_u8(flags);
    bytes.put_u32(u32::try_from(message.len()).expect("a message is far smaller than 4 GiB"));
    bytes.put_slice(message);
}

/// Takes the first message out of `bytes`; `None`: it is not complete.
pub(super) fn take(bytes: &mut BytesMut) -> Option<Bytes> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>()?;
    let length = length(*prefix);
    if rest.len() < length {
        return None;
    }
    bytes.advance(PREFIX);
    Some(bytes.split_to(length).freeze())
}

/// The one message in `bytes`.
pub(super) fn only(mut bytes: Bytes) -> Result<Bytes, Status> {
    let cut_off = |bytes: &Bytes| invalid(format!("cut off after {} bytes", bytes.len()));
    if bytes.is_empty() {
        return Err(Status::unimplemented("the call has no message: one message is needed"));
    }
    let Some(prefix) = bytes.first_chunk::<PREFIX>().copied() else { return Err(cut_off(&bytes)) };
    if prefix[0] & COMPRESSED != 0 {
        return Err(Status::internal("a compressed message is not supported: send it uncompressed"));
    }
    if prefix[0] != 0 {
        return Err(invalid(format!("a message with the flags {}", prefix[0])));
    }
    match bytes.len().cmp(&(PREFIX + length(prefix))) {
        std::cmp::Ordering::Equal => Ok(bytes.split_off(PREFIX)),
        std::cmp::Ordering::Less => Err(cut_off(&bytes)),
        std::cmp::Ordering::Greater => Err(Status::unimplemented("the call has several messages: one is needed")),
    }
}

fn length([_, a, b, c, d]: [u8; PREFIX]) -> usize {
    u32::from_be_bytes([a, b, c, d]) as usize
}

fn invalid(was: String) -> Status {
    let allowed = "one message behind a byte of flags, 0, and its length in four bytes";
    status::of_field(InvalidField::new("request", was, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn messages_are_taken_one_after_the_other_when_they_are_complete() {
        let all = [write(0, b"one"), write(END, b""), write(0, b"three")].concat();
        let (mut read, mut taken) = (BytesMut::new(), Vec::new());
        for byte in all {
            read.put_u8(byte);
            taken.extend(take(&mut read));
        }
        assert_eq!(taken, ["one", "", "three"]);
    }

    #[test]
    fn a_request_is_exactly_one_message() {
        let only = |bytes: &[u8]| only(Bytes::copy_from_slice(bytes)).map_err(|status| status.code());
        assert_eq!(only(&write(0, b"message")).unwrap(), "message");
        assert_eq!(only(&write(0, b"")).unwrap(), "");
        for (bytes, code) in [
            (vec![], Code::Unimplemented),
            ([write(0, b"a"), write(0, b"b")].concat(), Code::Unimplemented),
            (vec![0, 0, 0], Code::InvalidArgument),
            (vec![0, 0, 0, 0, 2, b'a'], Code::InvalidArgument),
            (vec![0, 0xff, 0xff, 0xff, 0xff], Code::InvalidArgument),
            (write(END, b"{}").to_vec(), Code::InvalidArgument),
            (write(COMPRESSED, b"a").to_vec(), Code::Internal),
        ] {
            assert_eq!(only(&bytes), Err(code), "{bytes:?}");
        }
    }
}
