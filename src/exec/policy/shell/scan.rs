//! Splits a line into words and operators, as far as all shells agree on them.
use super::{
    input::Input,
    line::Line,
    lists::{BEFORE_COMMANDS, UNREAD},
    word::Word,
};

/// Replaces a quoted character in the shape of a word.
const QUOTED: char = '\u{1}';

/// The commands of a line, up to the point from which its meaning is uncertain.
pub(super) fn scan(text: &str) -> Line {
    let (chars, line) = (Input::new(text), Line::default());
    let mut scanner = Scanner { chars, line, words: Vec::new(), is_loop: false, is_simple: false, groups: 0 };
    if scanner.run().is_none() {
        let rest = scanner.chars.rest();
        let start: String = rest.chars().take(40).collect();
        scanner.line.loose(format!("how a shell reads `…{}` is not certain", start.trim()));
        scanner.line.unread += rest;
        // Represents the rest of its words.
        scanner.words.push(Word::Many("…".to_owned()));
        scanner.is_loop = false;
    }
    scanner.end();
    if scanner.chars.is_ambiguous() {
        scanner
            .line
            .doubt("whether a backslash after a letter that is not ASCII is a part of it depends on the locale");
    }
    scanner.line
}

struct Scanner<'a> {
    chars: Input<'a>,
    line: Line,
    /// The words of the current command.
    words: Vec<Word>,
    /// Whether `words` are not those of a command, but of `for NAME in WORDS`.
    is_loop: bool,
    /// Whether the current command has an assignment or a redirection: no word of the grammar stands behind one.
    is_simple: bool,
    /// Parentheses that are open.
    groups: usize,
}

/// A word as it grows.
#[derive(Default)]
struct Parts {
    text: String,
    /// The text with every quoted or unknown character replaced.
    shape: String,
    /// Whether a part of the text is not known: `text` has this part as it was written.
    is_unknown: bool,
    is_many: bool,
}

impl Parts {
    fn bare(&mut self, c: char) {
        self.text.push(c);
        self.shape.push(c);
    }

    fn quoted(&mut self, c: char) {
        self.text.push(c);
        self.shape.push(QUOTED);
    }

    /// The start of quotes, which count even if nothing is between them: `''if` is not a word of the grammar.
    fn quote(&mut self) {
        self.shape.push(QUOTED);
    }

    /// Whether a shell may expand it to other words: names of files, or the parts in braces.
    fn expands(&self) -> bool {
        let braces = self.shape.find('{').zip(self.shape.rfind('}'));
        let list = braces.filter(|(open, close)| open < close).map(|(open, close)| &self.shape[open..close]);
        self.shape.contains(['*', '?', '[']) || list.is_some_and(|list| list.contains(',') || list.contains(".."))
    }

    /// Whether a shell may replace a `~`. Bash does so also in words that only look like an assignment.
    fn has_tilde(&self) -> bool {
        self.shape.starts_with('~') || self.shape.contains("=~") || self.shape.contains(":~")
    }

    /// The name in `NAME=…`.
    fn assigns(&self) -> Option<&str> {
        let (name, _) = self.shape.split_once('=')?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
    }

    fn word(self, is_first: bool) -> Word {
        if self.is_many || self.expands() {
            Word::Many(self.text)
        } else if self.is_unknown || self.shape.starts_with('=') || (!is_first && self.has_tilde()) {
            // zsh replaces `=NAME` by the path of the program.
            Word::One(self.text)
        } else {
            Word::Text(self.text)
        }
    }
}

impl Scanner<'_> {
    /// `None`: the meaning is uncertain from here on.
    fn run(&mut self) -> Option<()> {
        while let Some(c) = self.chars.peek() {
            match c {
                ' ' | '\t' => _ = self.chars.next(),
                '\n' | ';' | '&' | '|' => self.operator()?,
                '#' => self.chars.skip_comment(),
                '(' if self.words.is_empty() && !self.is_loop => {
                    self.chars.next();
                    // Arithmetic.
                    if self.chars.peek() == Some('(') {
                        return None;
                    }
                    self.groups += 1;
                    self.line.loose("it groups commands");
                }
                ')' => {
                    self.groups = self.groups.checked_sub(1)?;
                    self.chars.next();
                    self.end();
                }
                '(' => return None,
                '<' | '>' => self.redirection()?,
                _ => self.word()?,
            }
        }
        Some(())
    }

    /// The end of a command.
    fn end(&mut self) {
        self.is_simple = false;
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() && !std::mem::take(&mut self.is_loop) {
            self.line.commands.push(words);
        }
    }

    fn operator(&mut self) -> Option<()> {
        let first = self.chars.next()?;
        self.end();
        match (first, self.chars.peek()) {
            ('&', Some('>')) | (';', Some(';' | '&')) => return None,
            ('|', Some('&')) => {
                self.chars.next();
                self.line.loose("shells do not agree on what `|&` is");
            }
            ('&' | '|', Some(second)) if first == second => _ = self.chars.next(),
            _ => {}
        }
        Some(())
    }

    fn redirection(&mut self) -> Option<()> {
        let first = self.chars.next()?;
        self.is_simple = true;
        let mut copies = false;
        match self.chars.peek() {
            // `<>`, `>>`
            Some('>') => _ = self.chars.next(),
            Some('|') if first == '>' => _ = self.chars.next(),
            Some('&') => {
                self.chars.next();
                copies = true;
            }
            // A here-document, or a command whose output is a file.
            Some('<' | '(') => return None,
            _ => {}
        }
        while self.chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let target = self.parts()?.word(false);
        let target = target.text()?;
        let is_descriptor = target == "-" || (!target.is_empty() && target.chars().all(|c| c.is_ascii_digit()));
        // Shells do not agree on `>&file`.
        if target.is_empty() || (copies && !is_descriptor) {
            return None;
        }
        Some(())
    }

    fn word(&mut self) -> Option<()> {
        let parts = self.parts()?;
        let next = self.chars.peek();
        if matches!(next, Some('<' | '>')) {
            if !parts.shape.is_empty() && parts.shape.chars().all(|c| c.is_ascii_digit()) {
                // The number of a file descriptor.
                return Some(());
            }
            // `{NAME}>file`
            if parts.shape.ends_with('}') {
                return None;
            }
        }
        // A function, or a pattern.
        if next == Some('(') {
            return None;
        }
        if self.words.is_empty() {
            match parts.shape.as_str() {
                // A program of this name.
                "!" if self.is_simple => return None,
                "!" => return Some(()),
                "for" => {
                    self.is_loop = true;
                    self.line.loose("it has a loop");
                }
                shape if BEFORE_COMMANDS.contains(&shape) => {
                    self.line.loose("which of its commands run depends on others");
                    return Some(());
                }
                shape if UNREAD.contains(&shape) => return None,
                // `NAME+=value`, `NAME[…]=value`
                shape if parts.assigns().is_none() && shape.contains('=') && shape.contains(['+', '[']) => return None,
                _ => {}
            }
            if let Some(name) = parts.assigns() {
                self.line.assign(name);
                self.is_simple = true;
                return Some(());
            }
        }
        let is_first = self.words.is_empty();
        self.words.push(parts.word(is_first));
        Some(())
    }

    /// The parts of a word.
    fn parts(&mut self) -> Option<Parts> {
        let mut parts = Parts::default();
        while let Some(c) = self.chars.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '`' => return None,
                _ => _ = self.chars.next(),
            }
            match c {
                '\\' => parts.quoted(self.chars.next_literal()?),
                '\'' => {
                    parts.quote();
                    loop {
                        match self.chars.next_literal()? {
                            '\'' => break,
                            c => parts.quoted(c),
                        }
                    }
                }
                '"' => self.string(&mut parts)?,
                '$' => self.expansion(&mut parts, false)?,
                c => parts.bare(c),
            }
        }
        Some(parts)
    }

    /// Reads the text after `"`.
    fn string(&mut self, parts: &mut Parts) -> Option<()> {
        parts.quote();
        loop {
            match self.chars.next()? {
                '"' => return Some(()),
                '`' => return None,
                '$' => self.expansion(parts, true)?,
                '\\' => match self.chars.next_literal()? {
                    c @ ('$' | '`' | '"' | '\\') => parts.quoted(c),
                    c => ['\\', c].into_iter().for_each(|c| parts.quoted(c)),
                },
                c => parts.quoted(c),
            }
        }
    }

    /// Reads the text after `$`: only the values of variables are followed.
    fn expansion(&mut self, parts: &mut Parts, is_quoted: bool) -> Option<()> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut name = String::new();
        match self.chars.peek() {
            Some('{') => {
                self.chars.next();
                name.extend(std::iter::from_fn(|| self.chars.next_if(is_name)));
                if self.chars.next()? != '}' || name.is_empty() {
                    return None;
                }
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => name.extend(self.chars.next()),
            Some(c) if is_name(c) => name.extend(std::iter::from_fn(|| self.chars.next_if(is_name))),
            Some('(' | '[' | '`') => return None,
            Some('\'' | '"') if !is_quoted => return None,
            _ => {
                parts.quoted('$');
                return Some(());
            }
        }
        parts.is_unknown = true;
        // `"$@"` is as many words as there are.
        parts.is_many |= !is_quoted || name == "@";
        parts.text += &format!("${name}");
        parts.shape.push(QUOTED);
        self.line.doubt(format!("the value of `${name}` is not known"));
        Some(())
    }
}
