//! Links between pages and into the repository have existing targets.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages of this project, as paths from the root of the repository.
pub(crate) fn pages() -> Vec<String> {
    let mut found = Vec::new();
    search(root(), &mut found);
    let relative = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let mut pages: Vec<_> = found.iter().map(relative).collect();
    pages.sort();
    pages
}

fn search(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap_or_default());
        // Directories that are built, downloaded, or not part of the sources.
        let foreign =
            name.starts_with('.') || ["target", "node_modules", "__pycache__", "dist"].contains(&name.as_str());
        match path.is_dir() {
            true if !foreign => search(&path, found),
            false if name.ends_with(".md") => found.push(path),
            _ => {}
        }
    }
}

/// The text without fenced blocks and code.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.extend(line.split('`').step_by(2));
            kept.push('\n');
        }
    }
    kept
}

/// The targets of `[text](target)`.
fn targets(prose: &str) -> Vec<&str> {
    prose.match_indices("](").filter_map(|(at, _)| Some(prose[at + 2..].split_once(')')?.0)).collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        found.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let path = root().join(&page);
        let text = std::fs::read_to_string(&path).unwrap();
        for target in targets(&prose(&text)).into_iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let is_there = file.exists();
            let has_anchor = || anchor.is_empty() || anchors(&std::fs::read_to_string(&file).unwrap()).contains(anchor);
            if !is_there || !has_anchor() {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn the_index_names_every_page_of_the_documentation() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    let named = targets(&index);
    for page in pages() {
        let Some(page) = page.strip_prefix("docs/").filter(|page| *page != "README.md") else { continue };
        assert!(named.contains(&page), "docs/README.md does not name {page}");
    }
}

#[test]
fn a_broken_link_would_be_seen() {
    let text = "# One: `two` & three\n[a](b.md#c) `[no](link)`\n```\n# no heading\n[no](link)\n```\n";
    assert_eq!(targets(&prose(text)), ["b.md#c"]);
    assert_eq!(anchors(text), ["one-two--three".to_owned()].into());
}
