//! Variables that get values, and expressions that evaluate them: where what runs may hide in what is only text.
use super::{
    names,
    tree::{Reader, children, is_word},
};
use tree_sitter::Node;

impl Reader<'_> {
    pub(super) fn assignment(&mut self, node: Node<'_>) {
        let parts = children(node);
        // Within arithmetic, names have no meaning beyond it; and it is evaluated anyway.
        let name = parts.first().map_or("", |name| names::name_of(self.text(*name))).to_owned();
        names::set(&name, self.line);
        let number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        let value = parts.get(2).map_or("", |value| self.text(*value));
        let harmless = number(value) || parts.get(2).is_some_and(|value| value.kind() == "arithmetic_expansion");
        self.line.assigned |= !harmless;
    }

    pub(super) fn each(&mut self, node: Node<'_>) {
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
                names::set(name, self.line);
            }
        }
    }
}

/// Whether a positional parameter is in the text.
fn positional(text: &str) -> bool {
    let after = text.match_indices('$').filter_map(|(at, _)| text[at + 1..].trim_start_matches('{').chars().next());
    after.into_iter().any(|c| c.is_ascii_digit() || matches!(c, '@' | '*'))
}
