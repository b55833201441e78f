//! Quotes the names of commands in messages like the GNU tools.
use crate::escape::is_escaped;
use std::{ffi::OsStr, fmt::Write};

/// The quoted name on one line: typographic quotes in a UTF-8 locale, else apostrophes.
pub(crate) fn quoted(name: &OsStr) -> String {
    quote(name, locale_has_utf8())
}

fn quote(name: &OsStr, utf8: bool) -> String {
    let (open, close) = if utf8 { ('‘', '’') } else { ('\'', '\'') };
    let mut quoted = String::from(open);
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                '\r' => quoted.push_str("\\r"),
                '\\' => quoted.push_str("\\\\"),
                c if c == close => quoted.extend(['\\', c]),
                c if is_escaped(c) || !(utf8 || c.is_ascii()) => {
                    octal(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes())
                }
                c => quoted.push(c),
            }
        }
        octal(&mut quoted, chunk.invalid());
    }
    quoted.push(close);
    quoted
}

fn octal(to: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(to, "\\{byte:03o}");
    }
}

fn locale_has_utf8() -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_on_one_line() {
        for (name, utf8, ascii) in [
            ("sleep", "‘sleep’", "'sleep'"),
            ("sl'p é", "‘sl'p é’", r"'sl\'p \303\251'"),
            ("a\nb’c\\\u{1b}", r"‘a\nb\’c\\\033’", r"'a\nb\342\200\231c\\\033'"),
            ("5\u{202e}s", r"‘5\342\200\256s’", r"'5\342\200\256s'"),
        ] {
            assert_eq!(quote(OsStr::new(name), true), utf8);
            assert_eq!(quote(OsStr::new(name), false), ascii);
        }
    }
}
