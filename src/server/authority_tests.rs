//! Connections whose `:authority` is a path.
use super::*;
use proptest::prelude::*;

const CALL: &[u8] = b"/pausewatch.v1.ElicitationService/GetPauseState";

fn literal(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

/// A field with a literal name, as gRPC's C core sends it.
fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0x40], &*literal(name), &*literal(value)].concat()
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// A connection with these frames, as the parser gets it if it arrives in pieces of this size.
fn filtered(frames: &[Vec<u8>], portion: usize) -> Vec<u8> {
    let mut bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frames.concat()].concat();
    let mut filter = Filter::default();
    bytes.chunks_mut(portion).for_each(|chunk| filter.apply(chunk));
    bytes.split_off(PREFACE)
}

/// Fields around the authority; the path has slashes too.
fn headers(authority: &[u8]) -> Vec<u8> {
    [&field(b":path", CALL), authority, &[0x83, 0x86], &field(b"te", b"trailers/%"), &field(b":authority-of", b"a/b")]
        .concat()
}

#[test]
fn a_path_becomes_a_valid_authority_of_the_same_length_and_nothing_else_changes() {
    for (sent, valid) in
        [(&b"tmp%2Fp.sock"[..], &b"tmp-2Fp.sock"[..]), (b"/tmp/p.sock", b"-tmp-p.sock"), (b"localhost", b"localhost")]
    {
        let indexed = |value: &[u8], first: u8| [&[first], &*literal(value)].concat();
        // By name; by the index of the static table: indexed, not indexed, never indexed.
        let forms = [0, 0x41, 0x01, 0x11].map(|first| {
            let form = |value| if first == 0 { field(NAME, value) } else { indexed(value, first) };
            (form(sent), form(valid))
        });
        for (sent, valid) in &forms {
            let settings = frame(4, 0, b"/%/%/%");
            let padded = |fields: &[u8]| [&[3, 0, 0, 0, 0, 9], fields, b"%/%"].concat();
            let connection = |authority: &[u8]| {
                let block = headers(authority);
                [
                    settings.clone(),
                    frame(1, 4, &block),
                    frame(0, 1, b"a/b%c"),
                    frame(1, 4, &[]),
                    frame(1, 0x2c, &padded(&block)),
                ]
            };
            for portion in [1, 2, 3, 7, 1_000] {
                assert_eq!(filtered(&connection(sent), portion), connection(valid).concat());
            }
        }
    }
}

#[test]
fn long_texts_and_other_names_are_passed_over() {
    let long = vec![b'/'; 5_000];
    let mut number = vec![0x40, 0x7f];
    // 5,000 - 127, seven bits at a time.
    number.extend([(4_873 % 128) as u8 | 0x80, (4_873 / 128) as u8]);
    let block = [number, long, literal(b"a/b"), field(NAME, b"a/b")].concat();
    let expected = [&block[..block.len() - 3], b"a-b"].concat();
    for portion in [1, 1_000, 10_000] {
        assert_eq!(filtered(&[frame(1, 4, &block)], portion), frame(1, 4, &expected));
    }
}

#[test]
fn a_huffman_coded_authority_is_not_touched() {
    let mut value = literal(b"a/b");
    value[0] |= 0x80;
    let block = [&[0x41], &*value].concat();
    assert_eq!(filtered(&[frame(1, 4, &block)], 1), frame(1, 4, &block));
}

proptest! {
    #[test]
    fn any_bytes_in_any_portions_give_the_same_and_only_these_two_are_replaced(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(1), Just(0x41), Just(b'/')], 0..300),
        portion in 1_usize..40,
    ) {
        let whole = filtered(std::slice::from_ref(&bytes), usize::MAX);
        prop_assert_eq!(&whole, &filtered(std::slice::from_ref(&bytes), portion));
        for (before, after) in bytes.iter().zip(&whole) {
            prop_assert!(before == after || (matches!(before, b'%' | b'/') && *after == b'-'));
        }
    }
}
