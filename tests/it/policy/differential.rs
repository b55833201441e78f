//! Compares what our reader finds in a line with what a second parser finds: every command whose words are all
//! literal must be found, or the line must be in doubt.
//!
//! The second parser is tree-sitter's for bash. It knows the grammar but not bash itself: lines that it cannot read without an error are
//! left out, and so are those with a backslash at the end of a line, which separates words for it. Words behind a
//! redirection do not belong to the command for it, so its commands are compared with the beginnings of ours. What it
//! misses is not missed here: `oracle` compares with bash.
use super::grammar;
use fastrand::Rng;
use pausewatch::exec::policy::Rules;
use tree_sitter::{Node, Parser};

/// The rule makes a line without any doubt differ from one with a doubt.
const RULES: &str = "prefix_rule(['rm'], decision = 'forbidden')";

/// The commands of literal words in a line, each as one could type it; `None`: it cannot be read.
fn commands(parser: &mut Parser, line: &str) -> Option<Vec<String>> {
    let tree = parser.parse(line, None)?;
    let mut found = Vec::new();
    let mut left = vec![tree.root_node()];
    while let Some(node) = left.pop() {
        if node.is_error() || node.is_missing() {
            return None;
        }
        if node.kind() == "command" {
            found.extend(words(node, line));
        }
        let mut cursor = node.walk();
        left.extend(node.children(&mut cursor));
    }
    Some(found)
}

/// The words of a command, without assignments and redirections; `None`: not all are literal.
fn words(command: Node<'_>, line: &str) -> Option<String> {
    let mut cursor = command.walk();
    let mut words = Vec::new();
    for part in command.children(&mut cursor) {
        match part.kind() {
            "variable_assignment" | "file_redirect" => {}
            "command_name" => words.push(literal(part.child(0)?, line)?),
            _ => words.push(literal(part, line)?),
        }
    }
    (!words.is_empty())
        .then(|| words.iter().map(|word| shlex::try_quote(word).unwrap_or_default()).collect::<Vec<_>>().join(" "))
}

fn literal(word: Node<'_>, line: &str) -> Option<String> {
    let text = &line[word.byte_range()];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,%@=".contains(c);
    match word.kind() {
        "word" | "number" => text.chars().all(is_plain).then(|| text.to_owned()),
        "raw_string" => Some(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned()),
        "string" => {
            let inner = text.strip_prefix('"')?.strip_suffix('"')?;
            (!inner.contains(['\\', '$', '`', '"'])).then(|| inner.to_owned())
        }
        _ => None,
    }
}

fn check(parser: &mut Parser, rules: &Rules, line: &str) -> Result<usize, String> {
    let Some(found) = commands(parser, line).filter(|_| !line.contains("\\\n")) else { return Ok(0) };
    let judgement = rules.judge(line);
    let is_known = |command: &String| {
        let rest = |ours: &String| ours.strip_prefix(command.as_str()).map(str::to_owned);
        judgement.commands.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let missed = found.iter().find(|command| !is_known(command));
    match missed.filter(|_| judgement.uncertain.is_none()) {
        Some(missed) => Err(format!("{line:?}: `{missed}` is not among {:?}", judgement.commands)),
        None => Ok(found.len()),
    }
}

#[test]
fn every_literal_command_that_a_second_parser_finds_is_found_or_the_line_is_in_doubt() {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).expect("the versions agree");
    let rules = Rules::parse("differential.rules", RULES).expect("they are right");
    let count = super::oracle::number("PAUSEWATCH_ORACLE_ROUNDS", 2_000);
    let seed = super::oracle::number("PAUSEWATCH_ORACLE_SEED", 0);
    let random = (seed..seed + count).map(|seed| grammar::line(&mut Rng::with_seed(seed as u64)));
    let lines: Vec<_> = super::table::lines().chain(random).collect();
    let checked: Vec<_> = lines.iter().map(|line| check(&mut parser, &rules, line)).collect();
    let missed: Vec<_> = checked.iter().filter_map(|checked| checked.as_ref().err()).map(String::as_str).collect();
    let found: usize = checked.iter().flatten().sum();
    println!("{} lines, {found} literal commands found", lines.len());
    assert!(missed.is_empty(), "{} lines:\n{}", missed.len(), missed.join("\n"));
    assert!(found > lines.len() / 4, "too few commands are compared: {found}");
}
