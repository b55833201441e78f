//! Makes text from other programs safe to show: on a terminal, in a question to a person, in a log, in the audit trail.
//!
//! 1. The result moves no cursor: control characters (Unicode Cc) and line and paragraph separators are escaped.
//! 2. The result does not change the order or the look of the text beside it, and hides nothing: characters that set the
//!    direction of text or have no width are escaped, with the tags U+E0000 to U+E0FFF.
use std::borrow::Cow;
use std::fmt::Write;

/// Characters without width that join others, or choose the look of the one before, as in emoji and in Persian.
const JOINERS: [char; 4] = ['\u{200c}', '\u{200d}', '\u{fe0e}', '\u{fe0f}'];

/// One line of text.
pub(crate) fn escaped(text: &str) -> String {
    escape(text, |c| JOINERS.contains(&c))
}

/// Lines of text in which every character must be seen, such as a command. Blanks other than the space are escaped, and long runs of blanks
/// or line breaks, behind which nobody would look, have their number in their place.
#[cfg(feature = "exec-server")]
pub(crate) fn escaped_lines(text: &str) -> String {
    let (mut safe, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let others = rest.trim_start_matches(first);
        let count = (rest.len() - others.len()) / first.len_utf8();
        let (run, after) = rest.split_at(rest.len() - others.len());
        match first {
            ' ' if count > MOST_SPACES => safe += &format!(" [{count} spaces] "),
            '\n' if count > MOST_LINE_BREAKS => safe += &format!("\n[{count} line breaks]\n"),
            ' ' | '\n' => safe += run,
            _ if is_blank(first) => (0..count).for_each(|_| safe.extend(first.escape_default())),
            _ => safe += &escape(run, |_| false),
        }
        rest = after;
    }
    safe
}

/// More than code is indented by.
#[cfg(feature = "exec-server")]
const MOST_SPACES: usize = 40;
#[cfg(feature = "exec-server")]
const MOST_LINE_BREAKS: usize = 8;

/// Whether a person sees nothing in the place of this character.
#[cfg(feature = "exec-server")]
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}'
}

fn escape(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hostile(c) && !is_kept(c) {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe
}

/// Replaces the same characters in JSON by `\u` escapes, which do not change its meaning. Line breaks, tabs and the escape
/// character (which starts a color) stay: serde_json has escaped those within strings, and a text log has no others.
pub(crate) fn escaped_json(json: &str) -> Cow<'_, str> {
    let is_kept = |c| matches!(c, '\n' | '\t' | '\u{1b}') || JOINERS.contains(&c);
    if !json.chars().any(|c| is_hostile(c) && !is_kept(c)) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 6);
    for c in json.chars() {
        match is_hostile(c) && !is_kept(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(safe, "\\u{unit:04x}")),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Whether [`escaped`] escapes this character.
#[cfg(feature = "cli")]
pub(crate) fn is_escaped(c: char) -> bool {
    is_hostile(c) && !JOINERS.contains(&c)
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        // The property Default_Ignorable_Code_Point of Unicode, and what separates lines or annotates them.
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
        || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_could_control_a_terminal_or_hide_text_are_escaped() {
        for (text, printed) in [
            ("approve C:\\x \"é\" 請求書 👩‍💻?", "approve C:\\x \"é\" 請求書 👩‍💻?"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{9b}31m\u{7f}\u{85}", "\\u{9b}31m\\u{7f}\\u{85}"),
            ("pay \u{202e}001$\u{2028}", "pay \\u{202e}001$\\u{2028}"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
            ("\u{26a0}\u{fe0f} push", "\u{26a0}\u{fe0f} push"),
            ("r\u{fe00}m\u{34f}\u{180b}\u{1d173}", "r\\u{fe00}m\\u{34f}\\u{180b}\\u{1d173}"),
        ] {
            assert_eq!(escaped(text), printed);
        }
    }

    #[cfg(feature = "exec-server")]
    #[test]
    fn nothing_is_hidden_by_blanks() {
        let (spaces, lines) = (" ".repeat(41), "\n".repeat(9));
        for (text, shown) in [
            ("if x; then\n        y \u{e9}\nfi\n", "if x; then\n        y \u{e9}\nfi\n".to_owned()),
            (&format!("curl 'a{spaces}' -d b"), "curl 'a [41 spaces] ' -d b".to_owned()),
            (&format!("a{lines}b"), "a\n[9 line breaks]\nb".to_owned()),
            ("a\u{a0}\u{2800}\u{3000}b\t", "a\\u{a0}\\u{2800}\\u{3000}b\\t".to_owned()),
            ("\u{1b}[2J\u{202e}", "\\u{1b}[2J\\u{202e}".to_owned()),
        ] {
            assert_eq!(escaped_lines(text), shown);
        }
    }

    #[test]
    fn escaped_json_has_the_same_meaning() {
        let text = "a\n\u{1b}\u{9b}\u{85}\u{7f}\u{202e}\u{2028}\u{e0041}é👩";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let safe = escaped_json(&json);
        assert!(safe.chars().all(|c| c == '\n' || !is_hostile(c)), "{safe}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [text]);
    }
}
