//! Variables that get values, and expressions that evaluate them: where what runs may hide in what is only text.
use super::{
    builtins,
    names::{self, Value},
    tree::{Reader, children, is_word},
    word::Word,
};
use tree_sitter::Node;

impl Reader<'_> {
    pub(super) fn assignment(&mut self, node: Node<'_>, parent: &str) {
        let parts = children(node);
        // Within arithmetic, names have no meaning beyond it; and it is evaluated anyway.
        let name = parts.first().map_or("", |name| names::name_of(self.text(*name))).to_owned();
        let word = parts.get(2).filter(|value| is_word(**value)).map(|value| self.word(*value));
        let value = match (&word, parts.get(2)) {
            (_, Some(value)) if value.kind() == "arithmetic_expansion" => Value::Text("0"),
            (Some(Word::Text(text)), _) => Value::Text(text),
            (_, None) => Value::Text(""),
            _ => Value::Unknown,
        };
        match parent {
            "command" => names::pass(&name, value, self.line),
            _ => names::set(&name, value, self.line),
        }
        let list = parts.get(2).is_some_and(|value| value.kind() == "array");
        if list || parts.first().is_some_and(|name| name.kind() == "subscript") {
            self.line.arrays.insert(name.clone());
        }
        if parent == "declaration_command" && !list && word.is_some_and(|word| may_be_list(&word)) {
            self.line.lists.insert(name);
        }
        let number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        let value = parts.get(2).map_or("", |value| self.text(*value));
        let harmless = number(value) || parts.get(2).is_some_and(|value| value.kind() == "arithmetic_expansion");
        self.line.assigned |= !harmless;
    }

    pub(super) fn each(&mut self, node: Node<'_>) {
        let parts = children(node);
        let Some(variable) = parts.iter().position(|part| part.kind() == "variable_name") else {
            return self.doubt(node);
        };
        let words: Vec<_> = parts[variable + 1..].iter().filter(|part| is_word(**part)).collect();
        let numbers = !words.is_empty() && words.iter().all(|word| word.kind() == "number");
        let name = self.text(parts[variable]).to_owned();
        names::set(&name, if numbers { Value::Text("0") } else { Value::Unknown }, self.line);
        self.line.assigned |= !numbers;
    }

    /// `([SUBSCRIPT]=value …)`: a subscript is evaluated, if the array is not one whose subscripts are texts.
    pub(super) fn array(&mut self, node: Node<'_>) {
        for element in children(node) {
            let text = self.text(element);
            if let Some(rest) = text.strip_prefix('[') {
                let number = rest
                    .split_once(']')
                    .is_some_and(|(index, _)| !index.is_empty() && index.chars().all(|c| c.is_ascii_digit()));
                self.line.evaluates |= !number && !self.has_texts_for_subscripts(node);
            }
        }
    }

    /// `declare -A NAME=(…)`.
    fn has_texts_for_subscripts(&self, array: Node<'_>) -> bool {
        let declaration = array.parent().and_then(|assignment| assignment.parent());
        declaration.filter(|node| node.kind() == "declaration_command").is_some_and(|declaration| {
            let words = children(declaration);
            words.iter().map(|word| self.text(*word)).any(|word| word.starts_with('-') && word.contains('A'))
        })
    }

    /// `[[ … ]]` ends where it ends; `[ … ]` is a command, whose end the grammar does not see at `&&` or at the end of the line.
    pub(super) fn test(&mut self, node: Node<'_>) {
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
                | "arithmetic_expansion" => {
                    self.line.splits |= old && self.splits(part);
                    self.line.beyond_allow |= old && part.kind() == "command_substitution";
                }
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

    /// Whether a word in `[ … ]` may become more than one, and be read as other operators than the line shows.
    fn splits(&self, part: Node<'_>) -> bool {
        let text = self.text(part);
        match part.kind() {
            "string" => text.contains('@'),
            "expansion" | "simple_expansion" => !builtins::is_numeric(text),
            kind => kind == "command_substitution",
        }
    }

    /// `${…}`: quotes in it mean other things within and without double quotes, so they are a doubt.
    pub(super) fn expansion(&mut self, node: Node<'_>) {
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
        let behind_index = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, behind)) => behind,
            None => rest.strip_prefix(['@', '*']).filter(|_| name.is_empty()).unwrap_or(&rest),
        };
        let offset = behind_index.strip_prefix(':').is_some_and(|rest| {
            !rest.starts_with(['-', '=', '+', '?'])
                && rest.contains(|c: char| c.is_ascii_alphabetic() || c == '$' || c == '_')
        });
        // `${!x}` and `${x@P}` evaluate the value.
        self.line.evaluates |= offset || inner.starts_with('!') || behind_index.starts_with('@');
        if behind_index.starts_with(['=', ':']) && behind_index.trim_start_matches(':').starts_with('=') {
            names::set(&name, Value::Unknown, self.line);
            self.line.assigned = true;
        }
        if rest.contains('[') && !rest.starts_with('[') {
            self.line.evaluates = true;
        }
    }

    /// Arithmetic on more than numbers.
    pub(super) fn evaluation(&mut self, node: Node<'_>) {
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
                names::set(name, Value::Unknown, self.line);
            }
        }
    }
}

/// Whether `declare` may take the value for a list, in which it runs what is to be substituted.
fn may_be_list(word: &Word) -> bool {
    match word {
        Word::Text(text) => text.starts_with('('),
        Word::One(source) | Word::Many(source) => !source
            .trim_start_matches('"')
            .starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '/' | '.' | '-' | '~')),
    }
}

/// Whether a positional parameter is in the text.
fn positional(text: &str) -> bool {
    let after = text.match_indices('$').filter_map(|(at, _)| text[at + 1..].trim_start_matches('{').chars().next());
    after.into_iter().any(|c| c.is_ascii_digit() || matches!(c, '@' | '*'))
}
