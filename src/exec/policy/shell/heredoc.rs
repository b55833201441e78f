//! Here-documents. The grammar overlooks backquotes and continued lines in them, so their ends are found anew.
use super::{
    token,
    tree::{Reader, children},
};
use tree_sitter::Node;

impl Reader<'_> {
    /// A here-document ends at the line that its first word names, and nothing else does.
    pub(super) fn heredoc(&mut self, node: Node<'_>) {
        if self.plain_heredoc(node).is_none() {
            self.doubt(node);
        }
    }

    pub(super) fn plain_heredoc(&mut self, node: Node<'_>) -> Option<()> {
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
