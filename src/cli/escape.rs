//! Text of others, made safe to print.
//!
//! 1. What is printed is one line and moves no cursor: control characters (Unicode Cc), line and paragraph separators
//!    come as escapes.
//! 2. Nor does it change the order or the look of what stands beside it: so do characters that steer the direction of
//!    text or have no width of their own.
use std::{borrow::Cow, fmt::Write};

/// The text on one line, harmless to a terminal.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if is_hostile(c) => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// JSON with the same characters as `\u` escapes, which mean the same to who reads it.
///
/// JSON has control characters in its strings only, and serde_json has escaped those below U+0020 there.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        match c {
            '\n' => safe.push(c),
            c if is_hostile(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(safe, "\\u{unit:04x}");
                }
            }
            c => safe.push(c),
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
    fn what_could_steer_a_terminal_is_escaped_and_nothing_else() {
        for (given, printed) in [
            ("approve C:\\x \"é\" 請求書 👩‍💻?", "approve C:\\x \"é\" 請求書 👩‍💻?"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("pay \u{202e}001$", "pay \\u{202e}001$"),
        ] {
            assert_eq!(escaped(given), printed);
        }
    }

    #[test]
    fn escaped_json_means_the_same() {
        let text = "a\n\u{1b}\u{9b}\u{7f}\u{202e}é👩";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let safe = escaped_json(&json);
        assert!(safe.chars().all(|c| c == '\n' || !is_hostile(c)), "{safe}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [text]);
    }
}
