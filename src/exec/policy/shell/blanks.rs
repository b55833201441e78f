//! The text in and between the tokens of a line: it must have nothing that the grammar does not report.
use super::{
    commands::is_dash,
    token::Parts,
    tree::{Reader, children, is_word},
};
use tree_sitter::Node;

/// The text that may lie between the parts of a node.
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

/// Whether commands stand in it, apart by blanks and line ends.
fn holds_statements(kind: &str) -> bool {
    matches!(
        kind,
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
    )
}

fn ends_with_word(node: Node<'_>) -> bool {
    is_word(node) || matches!(node.kind(), "file_redirect" | "herestring_redirect" | "variable_assignment")
}

fn begins_with_word(node: Node<'_>) -> bool {
    is_word(node) || node.kind() == "variable_assignment"
}

impl Reader<'_> {
    /// Whether nothing but blanks lies between the parts.
    pub(super) fn gaps(&mut self, node: Node<'_>) {
        let between = match node.kind() {
            kind if holds_statements(kind) => Between::Lines,
            "c_style_for_statement"
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
            let apart = loose || !(gap.is_empty() && ends_with_word(*before) && begins_with_word(*after));
            // Bash joins what a continued line parts, the grammar does not.
            let joined = gap.contains("\\\n") && gap.replace("\\\n", "").is_empty();
            if !holds || !apart || (joined && between != Between::Text) {
                return self.doubt(node);
            }
        }
    }

    /// Whether the token is what its kind says.
    pub(super) fn leaf(&mut self, node: Node<'_>, parent: &str) {
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
            // `{` is a word of its own; the grammar takes the one of `{a,b}` for it, too.
            "{" if parent == "compound_statement" => self.source[node.end_byte()..].starts_with([' ', '\t', '\n']),
            kind if !node.is_named() => text.trim() == kind.trim(),
            _ => false,
        };
        self.line.hidden |= node.is_named() && ["$(", "${", "`"].iter().any(|part| parts.text.contains(part));
        self.check(node, holds);
    }

    /// A comment begins where a word could, and hides nothing but the rest of its line.
    pub(super) fn comment(&self, node: Node<'_>, parent: &str) -> bool {
        let before = self.source[..node.start_byte()].chars().next_back();
        let text = self.text(node);
        holds_statements(parent)
            && before.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')'))
            && !text.contains(['\n', '`'])
            && self.source[node.end_byte()..].chars().next().is_none_or(|c| c == '\n')
    }
}
