//! Checks the syntax of code that a page shows and does not run.
use crate::links::{pages, root};
use crate::page::{Block, blocks};
use crate::skipped::skipped;
use crate::tools;
use std::io::Write;
use std::process::{Command, Stdio};

/// Every block of this language, with its page.
fn snippets(language: &str) -> Vec<(String, Block)> {
    let of = |page: String| {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        blocks(&text).into_iter().map(move |block| (page.clone(), block))
    };
    pages().into_iter().flat_map(of).filter(|(_, block)| block.language == language).collect()
}

fn check(language: &str, wrong: impl Fn(&str) -> Option<String>) {
    let (mut found, snippets) = (Vec::new(), snippets(language));
    assert!(!snippets.is_empty(), "no page has a block of {language}");
    for (page, block) in snippets {
        found.extend(wrong(&block.text.join("\n")).map(|why| format!("{page}:{}: {why}", block.line)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn toml_and_json_can_be_read() {
    check("toml", |text| text.parse::<toml::Table>().err().map(|error| error.to_string()));
    // One value, or several after each other, as in a log.
    let values = |text: &str| {
        serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>().collect::<Result<Vec<_>, _>>()
    };
    check("json", |text| values(text).err().map(|error| error.to_string()));
}

#[test]
fn rust_is_compiled_with_the_documentation_tests() {
    let library = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for (page, block) in snippets("rust") {
        let included = library.contains(&format!("#[doc = include_str!(\"../{page}\")]"));
        assert!(
            included,
            "{page}:{}: name the page in `mod pages` of src/lib.rs, or say `rust,ignore` and why",
            block.line
        );
    }
}

#[test]
fn python_can_be_parsed() {
    if let Some(reason) = tools::lacks("python3") {
        return skipped("python3", reason);
    }
    check("python", |text| {
        // Snippets use `await` outside a function.
        let parse = "import ast, sys; compile(sys.stdin.read(), 'it', 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)";
        let mut python = Command::new("python3");
        python.args(["-c", parse]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut python = python.spawn().unwrap();
        python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let ended = python.wait_with_output().unwrap();
        (!ended.status.success()).then(|| String::from_utf8_lossy(&ended.stderr).into_owned())
    });
}
