//! Runs every page.
use crate::page::{Step, Typed, steps};
use crate::session::{Ran, Session};
use crate::skipped::skipped;
use crate::{expect, links, tools};
use std::path::Path;
use std::time::{Duration, Instant};

/// The maximum time until the output is as shown: a server may still start, and a list may still change.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// The attempts at `examples/story`, whose limit of 3 s leaves 2 s to start a shell and `hold`: a busy machine may need
/// more.
const STORIES: usize = 3;

macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(#[test] fn $name() { play($path); })*
    };
}

pages! {
    readme: "README.md",
    guide: "docs/guide.md",
    concepts: "docs/concepts.md",
    faq: "docs/faq.md",
    agents: "docs/agents.md",
    exec_server: "docs/exec-server.md",
    http: "docs/http.md",
    fleet: "docs/fleet.md",
    operations: "docs/operations.md",
    observability: "docs/observability.md",
    policy: "docs/policy.md",
    security: "docs/security.md",
    web_page: "docs/page.md",
    clients: "clients/README.md",
    clients_go: "clients/go/README.md",
    clients_python: "clients/python/README.md",
    clients_typescript: "clients/typescript/README.md",
    interleavings: "tests/interleavings/README.md",
}

#[test]
fn every_page_with_commands_is_played() {
    let with_commands: Vec<_> =
        links::pages().into_iter().filter(|page| !steps(&links::root().join(page)).is_empty()).collect();
    for page in &with_commands {
        assert!(PAGES.contains(&page.as_str()), "{page} has commands: add it to the pages of tests/docs/pages.rs");
    }
    for page in PAGES {
        assert!(with_commands.iter().any(|with| with == page), "{page} has no commands: take it from the list");
    }
}

fn play(page: &str) {
    let steps = steps(&Path::new(env!("CARGO_MANIFEST_DIR")).join(page));
    let mut session = match Session::start() {
        Ok(session) => session,
        Err(reason) => return skipped(page, reason),
    };
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Skip { line, reason } => eprintln!("{page}:{line}: not run: {reason}"),
            Step::Write { name, text, .. } => session.write(name, text),
            Step::Run(typed) => {
                if let Some(reason) = typed.needs.iter().find_map(|program| tools::lacks(program)) {
                    skipped(&format!("{page}:{}", typed.line), reason);
                    continue;
                }
                let next_looks = matches!(steps.get(at + 1), Some(Step::Run(next)) if next.command.contains("$?"));
                if let Err(why) = type_in(&mut session, typed, next_looks) {
                    panic!("{page}:{}: `{}` {why}", typed.line, typed.command);
                }
            }
        }
    }
}

fn type_in(session: &mut Session, typed: &Typed, may_fail: bool) -> Result<(), String> {
    let attempts = if typed.command.starts_with("examples/story") { STORIES } else { 1 };
    let mut ran = session.run(&typed.command)?;
    for _ in 1..attempts {
        if ran.status == 0 {
            break;
        }
        eprintln!("another attempt at {}, which printed:\n{}", typed.command, ran.printed());
        ran = session.run(&typed.command)?;
    }
    if ran.status != 0 && !may_fail {
        return Err(format!("ended with {}; it printed:\n{}", ran.status, ran.printed()));
    }
    let end = Instant::now() + PATIENCE;
    while !has_come(typed, &ran) {
        // A person types more slowly than a server starts, and tries again.
        match looks(&typed.command) {
            _ if Instant::now() > end => return Err(differs(typed, &ran)),
            true => {
                std::thread::sleep(PAUSE);
                ran = session.run(&typed.command)?;
            }
            false if is_in_background(&typed.command) => std::thread::sleep(PAUSE),
            false => return Err(differs(typed, &ran)),
        }
    }
    Ok(())
}

fn has_come(typed: &Typed, ran: &Ran) -> bool {
    match &typed.shown {
        Some(shown) if shown.is_empty() && is_in_background(&typed.command) => true,
        Some(shown) => expect::matches(shown, &ran.printed()),
        None if is_in_background(&typed.command) && typed.command.starts_with("pausewatch serve") => {
            typed.command.contains('>') || ran.printed().contains("listening ")
        }
        None => true,
    }
}

fn differs(typed: &Typed, ran: &Ran) -> String {
    match &typed.shown {
        Some(shown) => format!("printed:\n{}\nthe page shows:\n{}\n", ran.printed(), shown.join("\n")),
        None => format!("does not listen; it printed:\n{}", ran.printed()),
    }
}

/// Whether the command only reads, so that it can be repeated.
fn looks(command: &str) -> bool {
    ["pausewatch list", "pausewatch get"].iter().any(|start| command.starts_with(start))
}

fn is_in_background(command: &str) -> bool {
    let code = command.rsplit_once(" #").map_or(command, |(code, _)| code);
    code.trim_end().ends_with('&') && !code.trim_end().ends_with("&&")
}
