//! The options that stand between a command and the command that it runs.
use super::Word;

/// The options of a program, as getopt takes them: those that stand alone, and those that have a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) flags: &'static str,
    pub(super) values: &'static str,
    pub(super) long_flags: &'static [&'static str],
    pub(super) long_values: &'static [&'static str],
}

/// Options as they were found, each with its value if that is known.
pub(super) type Found = Vec<(String, Option<String>)>;

impl Options {
    pub(super) const fn short(flags: &'static str, values: &'static str) -> Self {
        Self { flags, values, long_flags: &[], long_values: &[] }
    }

    /// The index of the first word that is no option, beginning at `from`, and the options on the way there.
    /// `None` if a word is not known or not an option that the program is known to have.
    pub(super) fn skip(&self, words: &[Word], from: usize) -> Option<(usize, Found)> {
        let mut found = Vec::new();
        let mut at = from;
        loop {
            let Some(word) = words.get(at) else { return Some((at, found)) };
            let text = word.text()?;
            at += 1;
            if text == "--" {
                return Some((at, found));
            } else if let Some(long) = text.strip_prefix("--") {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
                let value = match value {
                    None if self.long_values.contains(&name) => take(words, &mut at)?,
                    None if self.long_flags.contains(&name) => None,
                    Some(value) if self.long_values.contains(&name) => Some(value),
                    _ => return None,
                };
                found.push((name.to_owned(), value));
            } else if text.len() > 1 && text.starts_with('-') {
                let mut rest = text[1..].chars();
                while let Some(c) = rest.next() {
                    if self.values.contains(c) {
                        let value = match rest.as_str() {
                            "" => take(words, &mut at)?,
                            value => Some(value.to_owned()),
                        };
                        found.push((c.to_string(), value));
                        break;
                    } else if !self.flags.contains(c) {
                        return None;
                    }
                    found.push((c.to_string(), None));
                }
            } else {
                return Some((at - 1, found));
            }
        }
    }
}

/// The value of an option, which must be one word.
fn take(words: &[Word], at: &mut usize) -> Option<Option<String>> {
    let value = match words.get(*at)? {
        Word::Text(text) => Some(text.clone()),
        Word::One(_) => None,
        Word::Many(_) => return None,
    };
    *at += 1;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_where_getopt_ends_them() {
        let options = Options { flags: "iv", values: "un", long_flags: &["ignore"], long_values: &["unset"] };
        let skip = |line: &str| {
            let words: Vec<_> = line
                .split(' ')
                .map(|word| match word {
                    "$1" => Word::One(word.to_owned()),
                    "$*" => Word::Many(word.to_owned()),
                    text => Word::Text(text.to_owned()),
                })
                .collect();
            options.skip(&words, 0).map(|(at, _)| at)
        };
        for (line, at) in [
            ("rm", Some(0)),
            ("-i rm -v", Some(1)),
            ("-iu X rm", Some(2)),
            ("-iuX rm", Some(1)),
            ("-u $1 rm", Some(2)),
            ("-u $* rm", None),
            ("$1 rm", None),
            ("--unset X --ignore rm", Some(3)),
            ("--unset=X -- -rm", Some(2)),
            ("--uns X rm", None),
            ("--ignore=X rm", None),
            ("-x rm", None),
            ("- rm", Some(0)),
            ("-i", Some(1)),
            ("-u", None),
        ] {
            assert_eq!(skip(line), at, "{line}");
        }
    }
}
