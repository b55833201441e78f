//! The lines between gpg-agent and pinentry (the Assuan protocol), as `pausewatch pinentry` passes them on. A line that
//! begins with `<` comes from pinentry; every other line comes from gpg-agent.
use pausewatch::test_support::cli::PinentryQuestions;

pub(super) fn check(input: &[u8]) {
    let mut questions = PinentryQuestions::default();
    let (mut description, mut is_open) = (String::new(), false);
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"<") {
            Some(answer) => {
                let first = answer.split(u8::is_ascii_whitespace).next();
                let ends = is_open && matches!(first, Some(b"OK" | b"ERR"));
                assert_eq!(questions.answer(answer), ends, "a question ends with its answer, and only with that");
                is_open &= !ends;
            }
            None => {
                let reason = questions.command(line);
                let line = line.trim_ascii_end();
                let name = line.split(|byte| *byte == b' ').next().unwrap_or_default().to_ascii_uppercase();
                let rest = line.get(name.len()..).unwrap_or_default().trim_ascii();
                let asks = matches!(&name[..], b"GETPIN" | b"CONFIRM" | b"MESSAGE");
                match &name[..] {
                    b"SETDESC" => description = text(rest),
                    b"RESET" => description.clear(),
                    _ => {}
                }
                let shown = if description.is_empty() { "Passphrase" } else { &description };
                assert_eq!(
                    reason.as_deref(),
                    asks.then_some(shown),
                    "the description of the question, and nothing else"
                );
                is_open |= asks;
            }
        }
    }
}

/// Decodes escaped text: `%` and two hexadecimal digits are a byte.
fn text(escaped: &[u8]) -> String {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while let Some(&byte) = escaped.get(at) {
        let digit = |place: usize| char::from(*escaped.get(place)?).to_digit(16);
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(16 * high + low).expect("two digits are one byte"));
                at += 3;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    super::texts(&[
        "<OK Pleased to meet you\nOPTION ttyname=/dev/pts/0\n<OK\nSETDESC Sign%0Awith %25 key\n<OK\nGETPIN\n<D secret\n<OK\nBYE\n<OK\n",
        "setdesc %C3%A9%+f%4\nconfirm --one-button\n<S PASSWORD_FROM_CACHE\n<# OK\n<ERR 83886179 Operation cancelled <Pinentry>\n",
        "SETDESC a\nRESET\nMESSAGE\n<INQUIRE QUALITY x\nCAN\n<OKAY\n<OK\n<OK\n",
        "  SETDESC a\nGETPIN \r\nGETPIN\n<ERR\t1\nSETDESC\nGETPIN",
    ])
}
