//! The tree of a line, each node looked at once: what the grammar says of it must hold for bash, or it is a doubt.
use super::{Line, word::Word};
use tree_sitter::{Node, Tree};

/// Longer expressions are not looked into: they may be within each other, and are read anew at each depth.
const MAX_EXPRESSION: usize = 4 << 10;

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

pub(super) struct Reader<'a> {
    pub(super) source: &'a str,
    pub(super) line: &'a mut Line,
    /// The commands, with where they begin.
    pub(super) found: Vec<(usize, Vec<Word>)>,
}

/// The parts of a node.
pub(super) fn children<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    node.children(&mut node.walk()).collect()
}

/// Whether the node is a word of a command.
pub(super) fn is_word(node: Node<'_>) -> bool {
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

/// Whether other shells may read the node as something else.
fn is_of_bash(node: Node<'_>, parent: &str) -> bool {
    match node.kind() {
        "[[" | "((" | "$[" | "&>" | "&>>" | "|&" | ";&" | ";;&" | "select" | "function" => true,
        "ansi_c_string" | "translated_string" | "process_substitution" | "herestring_redirect" | "extglob_pattern" => {
            true
        }
        "array" | "subscript" | "c_style_for_statement" => true,
        "+=" => parent == "variable_assignment",
        _ => false,
    }
}

impl Reader<'_> {
    pub(super) fn text(&self, node: Node<'_>) -> &str {
        &self.source[node.byte_range()]
    }

    pub(super) fn doubt(&mut self, node: Node<'_>) {
        let text: String = self.text(node).chars().take(80).collect();
        self.line.doubt(format!("how bash reads `{}` is not certain", text.trim()));
    }

    pub(super) fn check(&mut self, node: Node<'_>, holds: bool) {
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
        if self.line.posix && is_of_bash(node, parent) {
            self.line.doubt(format!("shells do not agree on what `{}` is", node.kind()));
        }
        if matches!(node.kind(), "file_redirect" | "heredoc_redirect" | "herestring_redirect") {
            self.descriptor(node);
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
            "variable_assignment" => self.assignment(node, parent),
            "for_statement" => self.each(node),
            "test_command" => self.test(node),
            "array" => self.array(node),
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
}
