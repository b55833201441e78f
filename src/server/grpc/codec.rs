//! Encodes and decodes messages with prost. A request that cannot be decoded is refused with the name of the invalid
//! field.
//!
//! A field that does not match the proto is `INVALID_FIELD`, like one outside its limits. tonic's own codec would
//! report an error of the server.
use super::fields;
use crate::core::types::{InvalidField, MAX_VALUES};
use crate::server::status;
use bytes::Buf;
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

/// The beginning of prost's error messages.
const PREFIX: &str = "failed to decode Protobuf message: ";

/// Reads requests `Q`, and writes answers `A`.
#[derive(Clone, Debug)]
pub(crate) struct RequestCodec<A, Q>(ProstCodec<A, Q>);

impl<A, Q> Default for RequestCodec<A, Q> {
    fn default() -> Self {
        RequestCodec(ProstCodec::default())
    }
}

impl<A, Q> Codec for RequestCodec<A, Q>
where
    A: Message + Send + 'static,
    Q: Message + Default + Send + 'static,
{
    type Encode = A;
    type Decode = Q;
    type Encoder = ProstEncoder<A>;
    type Decoder = RequestDecoder<Q>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        RequestDecoder(std::marker::PhantomData)
    }
}

/// Reads requests `Q`.
#[derive(Clone, Debug)]
pub(crate) struct RequestDecoder<Q>(std::marker::PhantomData<Q>);

impl<Q: Message + Default> Decoder for RequestDecoder<Q> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        decode(bytes).map(Some)
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

/// Reads a message.
pub(super) fn decode<Q: Message + Default>(bytes: impl Buf) -> Result<Q, Status> {
    // Each value has at least a byte.
    if bytes.remaining() > MAX_VALUES && fields::are_more_than(MAX_VALUES, bytes.chunk()) {
        return Err(status::of_field(InvalidField::too_many_values()));
    }
    Q::decode(bytes).map_err(|error| status::of_field(unreadable(&error.to_string())))
}

/// The field that prost's error message names: `Message.field: ` for each level, the innermost first, then the reason.
/// Bytes that are not a message have no field.
fn unreadable(said: &str) -> InvalidField {
    let mut why = said.strip_prefix(PREFIX).unwrap_or(said);
    let mut fields = Vec::new();
    while let Some((level, rest)) = why.split_once(": ")
        && let Some((_, field)) = level.split_once('.').filter(|_| !level.contains(' '))
    {
        fields.push(field);
        why = rest;
    }
    match fields[..] {
        [] => InvalidField::new("request", why, "the message of this call, as proto3 encodes it"),
        _ => {
            fields.reverse();
            InvalidField::new(fields.join("."), why, "what the proto says; text is UTF-8")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::IncrementElicitationRequest;

    #[test]
    fn the_field_that_cannot_be_read_is_named() {
        for (bytes, field, why) in [
            (&b"\x0a\x02\xff\xfe"[..], "thread_id", "UTF-8"),
            (b"\x0a\x01t\x2a\x02\x08\xff", "ttl.seconds", "varint"),
            (b"\x08\x01", "thread_id", "wire type"),
            (b"\xff", "request", "varint"),
        ] {
            let invalid = unreadable(&IncrementElicitationRequest::decode(bytes).unwrap_err().to_string());
            assert!(invalid.field == field && invalid.was.contains(why), "{bytes:?}: {invalid:?}");
        }
    }
}
