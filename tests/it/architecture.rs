//! Who may import whom: the table of `docs/architecture.md`, held against the paths in `src/`.
//!
//! A path that begins with `crate::`, or with as many `super::` as lead to the root, names a module of ours. Tests
//! inside the sources may import what they like. That each feature builds alone is checked by CI.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Imports = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The table: each module, and what it may import.
fn allowed() -> Imports {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let table = text.split("## Who may import whom").nth(1).expect("the chapter with the table");
    let rows =
        table.lines().skip_while(|line| !line.starts_with("| ---")).skip(1).take_while(|line| line.starts_with('|'));
    let mut allowed = Imports::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let names = |cell: &str| -> BTreeSet<String> {
            without_remarks(cell).split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let imports = match cells[2].starts_with("all") {
            true => allowed.keys().cloned().chain(["proto".to_owned()]).collect(),
            false => names(cells[2]),
        };
        for module in names(cells[1]) {
            allowed.insert(module, imports.clone());
        }
    }
    assert!(allowed.len() > 8, "the table was read: {allowed:?}");
    allowed
}

/// The text without what stands in brackets.
fn without_remarks(text: &str) -> String {
    let mut depth = 0;
    let outside = |c: &char| {
        depth += i32::from(*c == '(');
        let outside = depth == 0;
        depth -= i32::from(*c == ')');
        outside
    };
    text.chars().filter(outside).collect()
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => sources(&entry, found),
            false if entry.extension().is_some_and(|extension| extension == "rs") => found.push(entry),
            false => {}
        }
    }
}

/// The source without comments and without its tests, which stand at the end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.take_while(|line| !line.starts_with("mod tests")).collect::<Vec<_>>().join("\n")
}

/// The modules that the paths behind each `prefix` begin with.
fn named_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let ident = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            None => _ = names.insert(ident(rest)),
            Some(list) => {
                let mut depth = 0;
                let mut item = String::new();
                for c in list.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => _ = names.insert(ident(std::mem::take(&mut item).trim())),
                        c if depth == 0 => item.push(c),
                        _ => {}
                    }
                }
                names.insert(ident(item.trim()));
            }
        }
    }
    names.remove("");
    names
}

/// The path of a file's module, from the root.
fn module_of(path: &Path) -> Vec<String> {
    let relative = path.strip_prefix(root().join("src")).unwrap().with_extension("");
    let parts = relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.filter(|part| part != "mod").collect()
}

fn imports_of(path: &Path) -> BTreeSet<String> {
    let code = code(path);
    let to_the_root = "super::".repeat(module_of(path).len());
    let mut names = named_after(&code, "crate::");
    names.extend(named_after(&code, &to_the_root));
    // A longer chain of `super::` would lead out of the crate.
    names.remove("super");
    names
}

#[test]
fn modules_import_what_the_table_allows() {
    let allowed = allowed();
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut used = Imports::new();
    for path in &files {
        let module = module_of(path)[0].clone();
        if ["lib", "main", "proto"].contains(&module.as_str()) {
            continue;
        }
        let may = allowed.get(&module).unwrap_or_else(|| panic!("{module} is not in the table"));
        for import in imports_of(path).into_iter().filter(|import| *import != module) {
            assert!(may.contains(&import), "{} imports {import}; {module} may import {may:?}", path.display());
            used.entry(module.clone()).or_default().insert(import);
        }
    }
    // The search does find what is there.
    assert!(used["coordinator"].is_superset(&["core", "store", "hub"].map(str::to_owned).into()), "{used:?}");
    assert!(used["cli"].contains("client") && used["service"].contains("proto"), "{used:?}");
    assert!(!used.contains_key("core"));
}

#[test]
fn the_clock_of_a_stopwatch_knows_nothing_of_ours() {
    let path = root().join("src/stopwatch/meter.rs");
    assert!(!code(&path).contains("crate::") && !code(&path).contains("super::"));
}

#[test]
fn the_client_takes_only_types_from_the_core() {
    let mut files = Vec::new();
    sources(&root().join("src/client"), &mut files);
    for path in files {
        let code = code(&path);
        assert!(!code.replace("crate::core::types", "").contains("crate::core"), "{}", path.display());
    }
}

#[test]
fn only_the_clock_reads_time_on_the_server() {
    let mut files = Vec::new();
    for module in ["core", "store", "hub", "coordinator", "service"] {
        sources(&root().join("src").join(module), &mut files);
    }
    for path in files {
        let code = code(&path);
        for read in ["Instant::now", "SystemTime", "clock_gettime"] {
            assert!(!code.contains(read), "{} reads time with {read}", path.display());
        }
    }
}

#[test]
fn the_search_sees_every_form_of_a_path() {
    let code = "use crate::hub::{Hub, View};\nuse crate::{core::{Moment, types::Ttl}, store, clock};\nlet x = crate::proto::v1::A;";
    let all = ["hub", "core", "store", "clock", "proto"].map(str::to_owned).into();
    assert_eq!(named_after(code, "crate::"), all);
    assert_eq!(named_after("use mycrate::hub; use super::super::cli::Args;", "crate::"), BTreeSet::new());
    assert_eq!(named_after("use super::super::cli::Args;", "super::super::"), ["cli".to_owned()].into());
}
