//! The words of a command, from its nodes: those behind its redirections too.
use super::{
    names,
    token::Parts,
    tree::{Reader, children, is_word},
    word::Word,
};
use tree_sitter::Node;

impl Reader<'_> {
    /// The words of a command, with those that stand behind its redirections.
    pub(super) fn command(&mut self, node: Node<'_>, dash: bool, more: &[Node<'_>]) {
        let mut words = Vec::new();
        let parts = children(node);
        for (i, part) in parts.iter().chain(more).enumerate() {
            if dash && i == parts.len() {
                words.push(Word::Text("-".to_owned()));
            }
            match part.kind() {
                "variable_assignment" if words.is_empty() => {}
                "variable_assignment" | "test_operator" => words.push(self.assigning_word(*part)),
                "file_redirect" | "herestring_redirect" => {}
                "command_name" => {
                    let word = part.child(0).map_or(Word::Many(String::new()), |word| self.program(word));
                    words.push(word);
                }
                "subshell" => return self.doubt(node),
                _ if !is_word(*part) && words.is_empty() => words.push(Word::Text(self.text(*part).to_owned())),
                _ if is_word(*part) => words.push(self.word(*part)),
                _ => self.doubt(*part),
            }
        }
        if dash && more.is_empty() {
            words.push(Word::Text("-".to_owned()));
        }
        self.found.push((node.start_byte(), words));
    }

    /// A statement with redirections. What stands behind them belongs to its command.
    pub(super) fn redirected(&mut self, node: Node<'_>) {
        let mut more = Vec::new();
        let mut body = None;
        for part in children(node) {
            match part.kind() {
                "file_redirect" => {
                    let words = children(part).into_iter().filter(|part| is_word(*part));
                    more.extend(words.skip(1));
                }
                "herestring_redirect" => {}
                "heredoc_redirect" => {
                    for part in children(part) {
                        match part.kind() {
                            "file_redirect" => {
                                more.extend(children(part).into_iter().filter(|part| is_word(*part)).skip(1))
                            }
                            _ if is_word(part) => more.push(part),
                            _ => {}
                        }
                    }
                }
                _ if body.is_none() => body = Some(part),
                _ => self.doubt(part),
            }
        }
        let end = body.map_or(0, |body| body.end_byte());
        let next = children(node).into_iter().map(|part| part.start_byte()).find(|start| *start > end);
        let dash = body.is_some() && next.is_some_and(|next| is_dash(&self.source[end..next]));
        match body {
            Some(body) if matches!(body.kind(), "command" | "declaration_command" | "unset_command") => {
                self.command(body, dash, &more);
            }
            _ if more.is_empty() && !dash => {}
            _ => self.doubt(node),
        }
    }

    pub(super) fn redirect(&mut self, node: Node<'_>) {
        let parts = children(node);
        let Some(target) = parts.iter().find(|part| is_word(**part)) else { return };
        let operators: Vec<_> = parts.iter().filter(|part| !part.is_named()).map(|part| part.kind()).collect();
        let writes = operators.iter().any(|operator| !matches!(*operator, "<" | "<&"));
        let copies = operators.iter().any(|operator| matches!(*operator, ">&" | "<&"));
        let nowhere = match self.word(*target) {
            Word::Text(text) => {
                matches!(text.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
                    || (copies && is_descriptor(&text))
            }
            Word::One(_) | Word::Many(_) => false,
        };
        self.line.beyond_allow |= writes && !nowhere;
        // The grammar takes it for the redirection's; for bash it is a word of the command.
        let closes = operators.iter().any(|operator| matches!(*operator, "<&-" | ">&-"));
        self.check(node, !closes);
    }

    /// `{NAME}>file`: bash sets the variable, and the grammar takes `{NAME}` for a word of the command.
    pub(super) fn descriptor(&mut self, node: Node<'_>) {
        let before = &self.source[..node.start_byte()];
        let word = before.rsplit([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')']).next().unwrap_or_default();
        self.check(node, !may_name_descriptor(word));
    }

    /// `NAME=value` as an argument: what `export` takes.
    pub(super) fn assigning_word(&mut self, node: Node<'_>) -> Word {
        let source = self.text(node).to_owned();
        match source
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '=' | '-' | '.' | '/' | ':' | '+' | ','))
        {
            true => Word::Text(source),
            false if node.kind() == "variable_assignment" => {
                // The name is what matters, and it is known.
                Word::Text(format!("{}={}", names::name_of(&source), names::READ_WITH_ITS_NODE))
            }
            false => Word::One(source),
        }
    }

    /// The first word: a path with a tilde is good enough for its name.
    pub(super) fn program(&mut self, node: Node<'_>) -> Word {
        let parts = self.parts(node);
        if parts.reserved() {
            self.doubt(node);
        }
        match parts.tilde() && !parts.unknown && !parts.many && !parts.globs() {
            true => Word::Text(parts.text),
            false => self.word(node),
        }
    }

    pub(super) fn word(&mut self, node: Node<'_>) -> Word {
        let parts = self.parts(node);
        let source = || self.text(node).to_owned();
        if parts.many || parts.globs() {
            Word::Many(source())
        } else if parts.unknown || parts.tilde() {
            Word::One(source())
        } else {
            Word::Text(parts.text)
        }
    }

    pub(super) fn parts(&mut self, node: Node<'_>) -> Parts {
        let mut parts = Parts::default();
        match node.kind() {
            "concatenation" => children(node).into_iter().for_each(|part| self.part(part, &mut parts)),
            _ => self.part(node, &mut parts),
        }
        self.line.hidden |= ["$(", "${", "`"].iter().any(|part| parts.text.contains(part));
        parts
    }

    pub(super) fn part(&mut self, node: Node<'_>, parts: &mut Parts) {
        let text = &self.source[node.byte_range()];
        let known = match node.kind() {
            "raw_string" => parts.raw(text),
            "ansi_c_string" => parts.ansi(text),
            "string" => self.string(node, parts),
            "$" => parts.string(text),
            "arithmetic_expansion" | "process_substitution" | "translated_string" => {
                parts.expansion(true);
                Some(())
            }
            "expansion" | "simple_expansion" | "command_substitution" | "brace_expression" => {
                parts.expansion(false);
                Some(())
            }
            "number" if node.child_count() > 0 => None,
            _ => parts.word(text),
        };
        if known.is_none() {
            parts.expansion(false);
            self.doubt(node);
        }
    }

    /// `"…"`: what lies between its expansions, blanks that the grammar skips included, is text.
    pub(super) fn string(&self, node: Node<'_>, parts: &mut Parts) -> Option<()> {
        let text = self.text(node);
        let (start, end) = (node.start_byte() + 1, node.end_byte().checked_sub(1)?);
        if !text.starts_with('"') || !text.ends_with('"') || text.len() < 2 {
            return None;
        }
        let mut at = start;
        for part in children(node) {
            if !matches!(
                part.kind(),
                "expansion" | "simple_expansion" | "command_substitution" | "arithmetic_expansion"
            ) {
                continue;
            }
            parts.string(self.source.get(at..part.start_byte())?)?;
            let source = self.text(part);
            // `"$@"` and its like are as many words as there are.
            parts.expansion(!source.contains('@') || part.kind() == "command_substitution");
            at = part.end_byte();
        }
        parts.string(self.source.get(at..end)?)
    }
}

/// Whether the text behind `>&` names a file descriptor, so that no file is written.
fn is_descriptor(text: &str) -> bool {
    let number = text.strip_suffix('-').unwrap_or(text);
    text == "-" || (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// Whether a redirection that this touches may put its descriptor into a variable: `{NAME}` or `{NAME[…]}`, of which only the end
/// may be here, as within brackets there may be blanks.
fn may_name_descriptor(word: &str) -> bool {
    let balanced = |open: char, close: char| word.matches(open).count() == word.matches(close).count();
    match word.strip_suffix('}') {
        None | Some("") => false,
        Some(_) if !balanced('{', '}') || !balanced('[', ']') => true,
        Some(start) => start.strip_prefix('{').is_some_and(|inner| {
            let rest = &inner[names::name_of(inner).len()..];
            !inner.is_empty() && (rest.is_empty() || rest.starts_with('['))
        }),
    }
}

/// A lone `-` before a redirection (`python3 - <<EOF`): the grammar has no token for it there.
pub(super) fn is_dash(gap: &str) -> bool {
    gap.starts_with([' ', '\t']) && gap.ends_with([' ', '\t']) && gap.trim_matches([' ', '\t']) == "-"
}
