//! Whether a token, looked at alone, is what the grammar takes it for; and what text bash makes of it.

/// A word as it grows, part by part.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The text that bash makes of it, if nothing in it is unknown.
    pub(super) text: String,
    /// The text with every quoted character replaced: what globs, braces and tildes are looked for in.
    shape: String,
    /// Whether the text of a part is not known.
    pub(super) unknown: bool,
    /// May become any number of words.
    pub(super) many: bool,
}

/// Stands for a quoted character in a shape.
const QUOTED: char = '\u{1}';

impl Parts {
    fn quoted(&mut self, c: char) {
        self.text.push(c);
        self.shape.push(QUOTED);
    }

    fn bare(&mut self, c: char) {
        self.text.push(c);
        self.shape.push(c);
    }

    /// A part that bash expands: to one word within quotes, to any number of them outside.
    pub(super) fn expansion(&mut self, one: bool) {
        self.unknown = true;
        self.many |= !one;
        self.shape.push(QUOTED);
    }

    /// An unquoted part. `None`: bash would end the word within it.
    pub(super) fn word(&mut self, source: &str) -> Option<()> {
        let mut chars = source.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next()? {
                    '\n' => {}
                    c => self.quoted(c),
                },
                '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '"' | '\'' | ' ' | '\t' | '\n' => return None,
                c => self.bare(c),
            }
        }
        Some(())
    }

    /// `'…'`.
    pub(super) fn raw(&mut self, source: &str) -> Option<()> {
        let inner = source.strip_prefix('\'')?.strip_suffix('\'')?;
        inner.chars().for_each(|c| self.quoted(c));
        (source.len() > 1 && !inner.contains('\'')).then_some(())
    }

    /// A part of what stands within `"…"` that is no expansion.
    pub(super) fn string(&mut self, source: &str) -> Option<()> {
        let mut chars = source.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next()? {
                    '\n' => {}
                    c @ ('$' | '`' | '"' | '\\') => self.quoted(c),
                    c => ['\\', c].into_iter().for_each(|c| self.quoted(c)),
                },
                '"' | '`' => return None,
                '$' if chars.peek().is_some_and(|next| expands(*next)) => return None,
                c => self.quoted(c),
            }
        }
        Some(())
    }

    /// `$'…'`.
    pub(super) fn ansi(&mut self, source: &str) -> Option<()> {
        let inner = source.strip_prefix("$'")?.strip_suffix('\'')?;
        let mut chars = inner.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\'' => return None,
                '\\' => {
                    let c = match chars.next()? {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'a' => '\x07',
                        'b' => '\x08',
                        'e' | 'E' => '\x1b',
                        'f' => '\x0c',
                        'v' => '\x0b',
                        c @ ('\\' | '\'' | '"' | '?') => c,
                        'x' => match digits(&mut chars, 16, 2) {
                            Some(c) => c,
                            None => return self.unknown_rest(chars),
                        },
                        c @ '0'..='7' => {
                            let more =
                                std::iter::from_fn(|| chars.next_if(|c| c.is_digit(8))).take(2).collect::<String>();
                            match u8::from_str_radix(&format!("{c}{more}"), 8) {
                                Ok(code @ 1..=127) => char::from(code),
                                _ => return self.unknown_rest(chars),
                            }
                        }
                        _ => return self.unknown_rest(chars),
                    };
                    self.quoted(c);
                }
                c => self.quoted(c),
            }
        }
        Some(())
    }

    /// Gives up on the text, but not on where it ends.
    fn unknown_rest(&mut self, mut chars: std::iter::Peekable<std::str::Chars<'_>>) -> Option<()> {
        self.expansion(true);
        while let Some(c) = chars.next() {
            match c {
                '\'' => return None,
                '\\' => _ = chars.next()?,
                _ => {}
            }
        }
        Some(())
    }

    /// May become other words than the text: names of files, what braces list.
    pub(super) fn globs(&self) -> bool {
        let shape = self.shape.as_str();
        let within = |open: char, close: char| {
            let (from, to) = (shape.find(open)?, shape.rfind(close)?);
            (from < to).then(|| &shape[from..to])
        };
        shape.contains(['*', '?'])
            || within('[', ']').is_some()
            || within('{', '}').is_some_and(|list| list.contains(',') || list.contains(".."))
    }

    /// Begins with a home directory.
    pub(super) fn tilde(&self) -> bool {
        self.shape.starts_with('~')
    }

    /// Is a word of the shell's grammar where a command begins.
    pub(super) fn reserved(&self) -> bool {
        is_reserved(&self.shape)
    }
}

/// Whether the unquoted word is one of the shell's grammar where a command begins.
pub(super) fn is_reserved(word: &str) -> bool {
    const RESERVED: [&str; 21] = [
        "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
        "if", "in", "select", "then", "until", "while",
    ];
    RESERVED.contains(&word)
}

fn digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize) -> Option<char> {
    let text: String = std::iter::from_fn(|| chars.next_if(|c| c.is_digit(radix))).take(most).collect();
    match u8::from_str_radix(&text, radix) {
        Ok(code @ 1..=127) => Some(char::from(code)),
        _ => None,
    }
}

/// Whether `$` and this begin an expansion.
pub(super) fn expands(next: char) -> bool {
    next.is_ascii_alphanumeric()
        || matches!(next, '_' | '(' | '{' | '[' | '@' | '*' | '#' | '?' | '-' | '$' | '!' | '\'' | '"' | '`')
}

/// Whether the text, in a here-document that bash expands, is only text.
pub(super) fn plain_heredoc(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // A line that ends so goes on with the next one, which may be the one that ends the document.
            '\\' if chars.peek() == Some(&'\n') => return false,
            '\\' => _ = chars.next(),
            '`' => return false,
            '$' if chars.peek().is_some_and(|next| expands(*next) && !matches!(next, '\'' | '"')) => return false,
            _ => {}
        }
    }
    true
}

/// The line that ends a here-document, from the word after `<<`, and whether bash expands what is before it.
pub(super) fn heredoc_end(word: &str) -> Option<(&str, bool)> {
    let quoted = |quote: char| word.strip_prefix(quote).and_then(|word| word.strip_suffix(quote));
    let (end, expands) = match quoted('\'').or_else(|| quoted('"')).or_else(|| word.strip_prefix('\\')) {
        Some(end) => (end, false),
        None => (word, true),
    };
    let plain =
        !end.is_empty() && end.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '!' | '+' | '='));
    plain.then_some((end, expands))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(read: impl FnOnce(&mut Parts) -> Option<()>) -> Option<String> {
        let mut parts = Parts::default();
        read(&mut parts)?;
        (!parts.unknown).then_some(parts.text)
    }

    #[test]
    fn quotes_end_where_bash_ends_them() {
        for (source, text) in [
            (r"$'a\'b'", Some("a'b")),
            (r"$'\\'", Some("\\")),
            // The grammar takes the longest match here, and bash the first.
            (r"$'\\' rm 'x'", None),
            (r"$'\x72\155'", Some("rm")),
            (r"$'\x7'", Some("\x07")),
            (r"$'\xff'", None),
            (r"$'\u0072m'", None),
            (r"$'r\cm'", None),
        ] {
            assert_eq!(one(|parts| parts.ansi(source)).as_deref(), text, "{source}");
        }
        assert_eq!(one(|parts| parts.raw("'a b'")).as_deref(), Some("a b"));
        assert_eq!(one(|parts| parts.raw("'a' 'b'")), None);
        assert_eq!(one(|parts| parts.word(r"r\m")).as_deref(), Some("rm"));
        assert_eq!(one(|parts| parts.word("r\\\nm")).as_deref(), Some("rm"));
        assert_eq!(one(|parts| parts.word("a;b")), None);
        assert_eq!(one(|parts| parts.string(r#"a \" \n \$x"#)).as_deref(), Some(r#"a " \n $x"#));
        assert_eq!(one(|parts| parts.string("a $(rm)")), None);
        assert_eq!(one(|parts| parts.string("a `rm`")), None);
        assert_eq!(one(|parts| parts.string("5$ a$")).as_deref(), Some("5$ a$"));
    }

    #[test]
    fn words_that_may_expand_are_detected() {
        for (source, globs) in [
            ("a*", true),
            (r"a\*", false),
            ("[ab]", true),
            ("[", false),
            ("{a,b}", true),
            ("{}", false),
            ("{a}", false),
        ] {
            let mut parts = Parts::default();
            parts.word(source).unwrap();
            assert_eq!(parts.globs(), globs, "{source}");
        }
    }

    #[test]
    fn a_heredoc_is_plain_if_bash_expands_nothing_in_it() {
        for (text, plain) in [
            ("a b\n", true),
            ("$(rm)", false),
            (r"\$(rm)", true),
            ("`rm`", false),
            ("a\\\nEOF", false),
            ("5$ \"$\"", true),
        ] {
            assert_eq!(plain_heredoc(text), plain, "{text}");
        }
        assert_eq!(heredoc_end("'EOF'"), Some(("EOF", false)));
        assert_eq!(heredoc_end("EOF"), Some(("EOF", true)));
        assert_eq!(heredoc_end(r"\EOF"), Some(("EOF", false)));
        assert_eq!(heredoc_end("E'O'F"), None);
    }
}
