//! Makes text from other programs safe to print.
//!
//! 1. The result is one line and moves no cursor: control characters (Unicode Cc) and line and paragraph separators are
//!    escaped.
//! 2. The result does not change the order or the look of the text beside it: characters that set the direction of text
//!    or have no width are escaped.
use std::fmt::Write;

pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hostile(c) {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe
}

/// Replaces the same characters in JSON by `\u` escapes, which do not change its meaning.
///
/// A control character in JSON is within a string, where serde_json has already escaped those below U+0020, or is a line
/// break between values.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        match is_hostile(c) && c != '\n' {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(safe, "\\u{unit:04x}")),
            false => safe.push(c),
        }
    }
    safe
}

fn is_hostile(c: char) -> bool {
    // The joiner U+200D and the variation selectors are parts of emoji, and harmless.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_could_control_a_terminal_are_escaped() {
        for (text, printed) in [
            ("approve C:\\x \"é\" 請求書 👩‍💻?", "approve C:\\x \"é\" 請求書 👩‍💻?"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("pay \u{202e}001$", "pay \\u{202e}001$"),
        ] {
            assert_eq!(escaped(text), printed);
        }
    }

    #[test]
    fn escaped_json_has_the_same_meaning() {
        let text = "a\n\u{1b}\u{9b}\u{7f}\u{202e}é👩";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let safe = escaped_json(&json);
        assert!(safe.chars().all(|c| c == '\n' || !is_hostile(c)), "{safe}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [text]);
    }
}
