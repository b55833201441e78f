//! Where a question begins and ends in the lines between gpg-agent and pinentry (the Assuan protocol).
//!
//! 1. Only commands of gpg-agent and the answers `OK` and `ERR` are parsed. Data lines, which contain the secrets, are not.

/// The state of the conversation.
#[derive(Debug, Default)]
pub struct Questions {
    description: String,
    is_open: bool,
}

impl Questions {
    /// A line of gpg-agent. Returns the reason of the question that it begins.
    pub fn command(&mut self, line: &[u8]) -> Option<String> {
        let line = line.trim_ascii_end();
        let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (name, rest) = (line[..end].to_ascii_uppercase(), line[end..].trim_ascii());
        match name.as_slice() {
            b"SETDESC" => self.description = decoded(rest),
            b"RESET" => self.description.clear(),
            b"GETPIN" | b"CONFIRM" | b"MESSAGE" => {
                self.is_open = true;
                return Some(match self.description.is_empty() {
                    true => "Passphrase".to_owned(),
                    false => self.description.clone(),
                });
            }
            _ => {}
        }
        None
    }

    /// Whether a question waits for its answer.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// A line of pinentry. Returns whether it ends the question.
    pub fn answer(&mut self, line: &[u8]) -> bool {
        let is_last = [&b"OK"[..], b"ERR"]
            .iter()
            .any(|word| line.strip_prefix(*word).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace)));
        is_last && std::mem::take(&mut self.is_open)
    }
}

/// Percent-decoded text.
fn decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'%').then(|| after.get(..2)).flatten();
        // `from_str_radix` accepts a sign, which is not a digit.
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_lasts_from_its_command_to_its_answer() {
        let mut questions = Questions::default();
        assert_eq!(questions.command(b"OPTION ttyname=/dev/pts/0\n"), None);
        assert!(!questions.answer(b"OK Pleased to meet you\n"));
        assert_eq!(questions.command(b"SETDESC Sign%0Awith %25 key\n"), None);
        assert!(!questions.answer(b"OK\n"));
        assert_eq!(questions.command(b"getpin\n").as_deref(), Some("Sign\nwith % key"));
        for line in [&b"S PASSWORD_FROM_CACHE\n"[..], b"D OK\n", b"INQUIRE QUALITY x\n", b"OKAY\n", b"# OK\n"] {
            assert!(!questions.answer(line));
        }
        assert!(questions.answer(b"OK\n"));
        assert!(!questions.answer(b"OK\n"), "it has ended");
        assert!(questions.command(b"CONFIRM --one-button\n").is_some());
        assert!(questions.answer(b"ERR 83886179 Operation cancelled <Pinentry>\n"));
        questions.command(b"RESET\n");
        assert_eq!(questions.command(b"MESSAGE").as_deref(), Some("Passphrase"));
    }

    #[test]
    fn bad_escapes_are_kept() {
        assert_eq!(decoded(b"a%4%+f"), "a%4%+f");
        assert_eq!(decoded(b"%zz%41%ff"), "%zzA\u{fffd}");
    }
}
