//! The tree of a line, each node looked at once: what the grammar says of it must hold for bash, or it is a doubt.
use super::{
    Line, names,
    token::{self, Parts},
    word::Word,
};
use tree_sitter::{Node, Tree};

/// Longer expressions are not looked into: they may be within each other, and are read anew at each depth.
const MAX_EXPRESSION: usize = 4 << 10;

/// What may lie between the parts of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// Nothing.
    Nothing,
    /// Blanks within a line.
    Blanks,
    /// Blanks and ends of lines.
    Lines,
    /// Text, which is looked at with the node.
    Text,
}

pub(super) fn read(source: &str, tree: &Tree, line: &mut Line, depth: usize) {
    let mut reader = Reader { source, line, found: Vec::new() };
    // A list of its own instead of the stack: trees may be as deep as the line is long.
    let mut open = vec![(tree.root_node(), "")];
    while let Some((node, parent)) = open.pop() {
        reader.visit(node, parent);
        let mut cursor = node.walk();
        open.extend(node.children(&mut cursor).map(|child| (child, node.kind())));
    }
    let mut found = reader.found;
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().for_each(|(_, words)| line.command(words, depth));
}

struct Reader<'a> {
    source: &'a str,
    line: &'a mut Line,
    /// The commands, with where they begin.
    found: Vec<(usize, Vec<Word>)>,
}

fn children<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    node.children(&mut node.walk()).collect()
}

fn is_word(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "word"
            | "concatenation"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "number"
            | "expansion"
            | "simple_expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
            | "$"
            | "variable_name"
            | "regex"
            | "=~"
            | "=="
            | "command_name"
    )
}

impl Reader<'_> {
    fn text(&self, node: Node<'_>) -> &str {
        &self.source[node.byte_range()]
    }

    fn doubt(&mut self, node: Node<'_>) {
        let text: String = self.text(node).chars().take(80).collect();
        self.line.doubt(format!("how bash reads `{}` is not certain", text.trim()));
    }

    fn check(&mut self, node: Node<'_>, holds: bool) {
        if !holds {
            self.doubt(node);
        }
    }

    fn visit(&mut self, node: Node<'_>, parent: &str) {
        if node.is_error() || node.is_missing() {
            let text: String = self.text(node).chars().take(80).collect();
            return self.line.doubt(format!("`{}` cannot be read", text.trim()));
        }
        if node.child_count() == 0 {
            self.leaf(node, parent);
        } else {
            self.gaps(node);
        }
        match node.kind() {
            // With a redirection, that one's node has more of its words.
            "command" | "declaration_command" | "unset_command" if parent != "redirected_statement" => {
                self.command(node, false, &[]);
            }
            "test_command" | "expansion" | "arithmetic_expansion" | "subscript"
                if node.byte_range().len() > MAX_EXPRESSION =>
            {
                self.doubt(node);
            }
            "redirected_statement" => self.redirected(node),
            "file_redirect" => self.redirect(node),
            "variable_assignment" => self.assignment(node),
            "for_statement" => self.each(node),
            "test_command" => self.test(node),
            "heredoc_redirect" => self.heredoc(node),
            "command_substitution" => {
                let text = self.text(node);
                let doubtful = (text.starts_with('`') && text.contains('\\')) || text.starts_with("$`");
                self.check(node, !doubtful);
            }
            "expansion" => self.expansion(node),
            "arithmetic_expansion" | "c_style_for_statement" | "subscript" => self.evaluation(node),
            "compound_statement" if self.text(node).starts_with("((") => self.evaluation(node),
            "simple_expansion" => {}
            _ => {}
        }
    }

    /// Whether nothing but blanks lies between the parts.
    fn gaps(&mut self, node: Node<'_>) {
        let between = match node.kind() {
            "program"
            | "list"
            | "pipeline"
            | "compound_statement"
            | "subshell"
            | "if_statement"
            | "elif_clause"
            | "else_clause"
            | "while_statement"
            | "do_group"
            | "for_statement"
            | "c_style_for_statement"
            | "case_statement"
            | "case_item"
            | "function_definition"
            | "command_substitution"
            | "process_substitution"
            | "array"
            | "arithmetic_expansion"
            | "binary_expression"
            | "unary_expression"
            | "postfix_expression"
            | "ternary_expression"
            | "parenthesized_expression"
            | "test_command"
            | "expansion" => Between::Lines,
            "command"
            | "command_name"
            | "declaration_command"
            | "unset_command"
            | "negated_command"
            | "redirected_statement"
            | "file_redirect"
            | "herestring_redirect"
            | "variable_assignments" => Between::Blanks,
            "concatenation"
            | "simple_expansion"
            | "variable_assignment"
            | "subscript"
            | "translated_string"
            | "brace_expression"
            | "number" => Between::Nothing,
            "string" | "heredoc_body" | "heredoc_redirect" => Between::Text,
            _ => return self.doubt(node),
        };
        let parts = children(node);
        for (before, after) in parts.iter().zip(&parts[1..]) {
            let gap = &self.source[before.end_byte()..after.start_byte().max(before.end_byte())];
            if node.kind() == "redirected_statement" && is_dash(gap) {
                continue;
            }
            // Tokens within strings begin with the blanks before them.
            let holds = match between {
                Between::Nothing => gap.is_empty(),
                Between::Blanks => gap.replace("\\\n", "").chars().all(|c| matches!(c, ' ' | '\t')),
                Between::Lines => gap.replace("\\\n", "").chars().all(|c| matches!(c, ' ' | '\t' | '\n')),
                Between::Text => true,
            };
            let loose = matches!(between, Between::Nothing | Between::Text)
                || matches!(node.kind(), "expansion" | "arithmetic_expansion" | "binary_expression");
            // Words that touch are one word.
            let apart = loose || !(gap.is_empty() && is_word(*before) && is_word(*after));
            // Bash joins what a continued line parts, the grammar does not.
            let joined = gap.contains("\\\n") && gap.replace("\\\n", "").is_empty();
            if !holds || !apart || (joined && between != Between::Text) {
                return self.doubt(node);
            }
        }
    }

    /// Whether the token is what its kind says.
    fn leaf(&mut self, node: Node<'_>, parent: &str) {
        let text = self.text(node).to_owned();
        let mut parts = Parts::default();
        let holds = match node.kind() {
            "word" => parts.word(&text).is_some(),
            "string_content" => parts.string(&text).is_some(),
            "raw_string" => parts.raw(&text).is_some(),
            "ansi_c_string" => parts.ansi(&text).is_some(),
            "number" => text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '#' | '@' | '_')),
            "variable_name" => text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "special_variable_name" | "test_operator" | "heredoc_start" | "heredoc_end" | "heredoc_body" => true,
            "heredoc_content" => true,
            "file_descriptor" => {
                let before = self.source[..node.start_byte()].chars().next_back();
                text.chars().all(|c| c.is_ascii_digit())
                    && before.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '`'))
            }
            "regex" => {
                !text.contains(['`', ';', '&', '\n', '"', '\''])
                    && !["$(", "${", "<(", ">("].iter().any(|part| text.contains(part))
            }
            "extglob_pattern" => !text.contains(['`', ';', '&', '\n', '"', '\'', '$', '<', '>', '(', ')']),
            "comment" => self.comment(node, parent),
            "program" => text.trim().is_empty(),
            kind if !node.is_named() => text.trim() == kind.trim(),
            _ => false,
        };
        self.line.hidden |= node.is_named() && ["$(", "${", "`"].iter().any(|part| parts.text.contains(part));
        self.check(node, holds);
    }

    /// A comment begins where a word could, and hides nothing but the rest of its line.
    fn comment(&self, node: Node<'_>, parent: &str) -> bool {
        let before = self.source[..node.start_byte()].chars().next_back();
        let text = self.text(node);
        let statements = matches!(
            parent,
            "program"
                | "list"
                | "pipeline"
                | "compound_statement"
                | "subshell"
                | "if_statement"
                | "elif_clause"
                | "else_clause"
                | "while_statement"
                | "do_group"
                | "for_statement"
                | "case_statement"
                | "case_item"
                | "command_substitution"
                | "process_substitution"
                | "function_definition"
        );
        statements
            && before.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')'))
            && !text.contains(['\n', '`'])
            && self.source[node.end_byte()..].chars().next().is_none_or(|c| c == '\n')
    }

    /// The words of a command, with those that stand behind its redirections.
    fn command(&mut self, node: Node<'_>, dash: bool, more: &[Node<'_>]) {
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

    /// `NAME=value` as an argument: what `export` takes.
    fn assigning_word(&mut self, node: Node<'_>) -> Word {
        let source = self.text(node).to_owned();
        match source
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '=' | '-' | '.' | '/' | ':' | '+' | ','))
        {
            true => Word::Text(source),
            false if node.kind() == "variable_assignment" => {
                // The name is what matters, and it is known.
                Word::Text(format!("{}=…", names::name_of(&source)))
            }
            false => Word::One(source),
        }
    }

    /// The first word: a path with a tilde is good enough for its name.
    fn program(&mut self, node: Node<'_>) -> Word {
        let parts = self.parts(node);
        if parts.reserved() {
            self.doubt(node);
        }
        match parts.tilde() && !parts.unknown && !parts.many && !parts.globs() {
            true => Word::Text(parts.text),
            false => self.word(node),
        }
    }

    fn word(&mut self, node: Node<'_>) -> Word {
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

    fn parts(&mut self, node: Node<'_>) -> Parts {
        let mut parts = Parts::default();
        match node.kind() {
            "concatenation" => children(node).into_iter().for_each(|part| self.part(part, &mut parts)),
            _ => self.part(node, &mut parts),
        }
        self.line.hidden |= ["$(", "${", "`"].iter().any(|part| parts.text.contains(part));
        parts
    }

    fn part(&mut self, node: Node<'_>, parts: &mut Parts) {
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
    fn string(&self, node: Node<'_>, parts: &mut Parts) -> Option<()> {
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

    /// A statement with redirections. What stands behind them belongs to its command.
    fn redirected(&mut self, node: Node<'_>) {
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

    fn redirect(&mut self, node: Node<'_>) {
        let parts = children(node);
        let writes = parts.iter().any(|part| matches!(part.kind(), ">" | ">>" | "&>" | "&>>" | ">&" | ">|"));
        let Some(target) = parts.into_iter().find(|part| is_word(*part)) else { return };
        let nowhere = match self.word(target) {
            Word::Text(text) => {
                matches!(text.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
                    || text.chars().all(|c| c.is_ascii_digit() || c == '-')
            }
            Word::One(_) | Word::Many(_) => false,
        };
        self.line.beyond_allow |= writes && !nowhere;
    }

    fn assignment(&mut self, node: Node<'_>) {
        let parts = children(node);
        // Within arithmetic, names have no meaning beyond it; and it is evaluated anyway.
        let name = parts.first().map_or("", |name| names::name_of(self.text(*name))).to_owned();
        names::set(&name, self.line);
        let number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        let value = parts.get(2).map_or("", |value| self.text(*value));
        let harmless = number(value) || parts.get(2).is_some_and(|value| value.kind() == "arithmetic_expansion");
        self.line.assigned |= !harmless;
    }

    fn each(&mut self, node: Node<'_>) {
        for part in children(node) {
            match part.kind() {
                "variable_name" => {
                    let name = self.text(part).to_owned();
                    names::set(&name, self.line);
                }
                "number" | "do_group" => {}
                _ if is_word(part) => self.line.assigned = true,
                _ => {}
            }
        }
    }

    /// `[[ … ]]` ends where it ends; `[ … ]` is a command, whose end the grammar does not see at `&&` or at the end of the line.
    fn test(&mut self, node: Node<'_>) {
        let text = self.text(node).to_owned();
        let mut open = children(node);
        let old = !text.starts_with("[[");
        while let Some(part) = open.pop() {
            match part.kind() {
                "string"
                | "raw_string"
                | "ansi_c_string"
                | "command_substitution"
                | "process_substitution"
                | "expansion"
                | "simple_expansion"
                | "arithmetic_expansion" => {}
                "test_operator" if matches!(self.text(part), "-v" | "-R") => self.line.evaluates = true,
                "test_operator" if !old && matches!(self.text(part), "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") => {
                    self.line.evaluates = true;
                }
                "subscript" | "redirected_statement" | "compound_statement" => self.doubt(part),
                kind => {
                    if old && !part.is_named() && kind.contains(['&', '|', ';', '<', '>', '(', ')']) {
                        self.doubt(node);
                    }
                    open.extend(children(part));
                }
            }
        }
        if old {
            self.check(node, !text.replace("\\\n", "").contains('\n'));
        }
    }

    /// `${…}`: quotes in it mean other things within and without double quotes, so they are a doubt.
    fn expansion(&mut self, node: Node<'_>) {
        let text = self.text(node).to_owned();
        let inner = text.trim().trim_start_matches("${").trim_end_matches('}');
        if inner.contains(['\'', '"', '\\', '`', '#'])
            && !inner.starts_with('#')
            && inner.contains(['\'', '"', '\\', '`'])
            || ["<(", ">(", "$["].iter().any(|part| inner.contains(part))
        {
            return self.doubt(node);
        }
        let name = names::name_of(inner.trim_start_matches(['!', '#'])).to_owned();
        let rest = inner.trim_start_matches(['!', '#'])[name.len()..].to_owned();
        if let Some(index) = rest.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            self.line.evaluates |= !(index.chars().all(|c| c.is_ascii_digit()) || index == "@" || index == "*");
        }
        let offset = rest.strip_prefix(':').is_some_and(|rest| {
            !rest.starts_with(['-', '=', '+', '?'])
                && rest.contains(|c: char| c.is_ascii_alphabetic() || c == '$' || c == '_')
        });
        // `${!x}` and `${x@P}` evaluate the value.
        self.line.evaluates |= offset || inner.starts_with('!') || rest.starts_with('@');
        if rest.starts_with('=') || rest.starts_with(":=") {
            names::set(&name, self.line);
            self.line.assigned = true;
        }
        if rest.contains('[') && !rest.starts_with('[') {
            self.line.evaluates = true;
        }
    }

    /// Arithmetic on more than numbers.
    fn evaluation(&mut self, node: Node<'_>) {
        let text = self.text(node).to_owned();
        if text.contains(['$', '`', '\'', '"']) && (text.contains(['`', '\'', '"']) || positional(&text)) {
            self.line.evaluates = true;
            self.line.assigned = true;
        }
        let head = match node.kind() {
            "c_style_for_statement" => text.split("))").next().unwrap_or_default().trim_start_matches("for"),
            "subscript" => text.split_once('[').map_or("", |(_, index)| index.trim_end_matches(']')),
            _ => &text,
        };
        let head = head.trim_start_matches("$");
        self.line.evaluates |= head.contains(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$');
        for name in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            if names::is_powerful(name) && node.kind() != "subscript" {
                names::set(name, self.line);
            }
        }
    }

    /// A here-document ends at the line that its first word names, and nothing else does.
    fn heredoc(&mut self, node: Node<'_>) {
        if self.plain_heredoc(node).is_none() {
            self.doubt(node);
        }
    }

    fn plain_heredoc(&mut self, node: Node<'_>) -> Option<()> {
        let parts = children(node);
        let find = |kind: &str| parts.iter().find(|part| part.kind() == kind).copied();
        let (start, body, end) = (find("heredoc_start")?, find("heredoc_body")?, find("heredoc_end")?);
        let tabs = find("<<-").is_some();
        let (mark, expands) = token::heredoc_end(self.text(start))?;
        let from = start.end_byte() + self.source[start.end_byte()..].find('\n')? + 1;
        let rest_of_line = &self.source[start.end_byte()..from];
        // More than one document on a line, or a line that goes on.
        let alone = !rest_of_line.contains("<<")
            && !rest_of_line.ends_with("\\\n")
            && self.source[..start.start_byte()].rsplit('\n').next()?.matches("<<").count() == 1;
        let begins = body.start_byte() == from
            || (body.start_byte() > from
                && self.source[from..body.start_byte()].chars().all(|c| matches!(c, ' ' | '\t' | '\n')));
        let mut at = from;
        let found = self.source[from..].split_inclusive('\n').find_map(|line| {
            let begin = at;
            at += line.len();
            let bare = line.strip_suffix('\n').unwrap_or(line);
            let bare = if tabs { bare.trim_start_matches('\t') } else { bare };
            (bare == mark).then_some((begin, at))
        })?;
        let ends = found.0 <= end.start_byte()
            && end.end_byte() <= found.1
            && self.text(end).trim() == mark
            && body.end_byte() <= found.1;
        if !alone || !begins || !ends {
            return None;
        }
        let text = &self.source[from..found.0];
        if !expands {
            self.line.hidden |= ["$(", "${", "`"].iter().any(|part| text.contains(part));
            return (body.child_count() == 0).then_some(());
        }
        let mut at = from;
        for part in children(body) {
            if matches!(part.kind(), "expansion" | "simple_expansion" | "command_substitution") {
                if !token::plain_heredoc(self.source.get(at..part.start_byte())?) {
                    return None;
                }
                at = part.end_byte();
            }
        }
        token::plain_heredoc(self.source.get(at..found.0)?).then_some(())
    }
}

/// A lone `-` before a redirection (`python3 - <<EOF`): the grammar has no token for it there.
fn is_dash(gap: &str) -> bool {
    gap.starts_with([' ', '\t']) && gap.ends_with([' ', '\t']) && gap.trim_matches([' ', '\t']) == "-"
}

/// Whether a positional parameter is in the text.
fn positional(text: &str) -> bool {
    let after = text.match_indices('$').filter_map(|(at, _)| text[at + 1..].trim_start_matches('{').chars().next());
    after.into_iter().any(|c| c.is_ascii_digit() || matches!(c, '@' | '*'))
}
