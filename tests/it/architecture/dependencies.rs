//! The dependencies between files: a file depends on the files that define the names it uses, through any number of
//! re-exports.
use super::source::{Module, Modules, Segments};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files that each file depends on.
pub(super) type Dependencies = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// The maximum number of re-exports that one name may go through.
const MOST_REEXPORTS: usize = 8;

pub(super) fn dependencies(modules: &Modules) -> Dependencies {
    let mut dependencies = Dependencies::new();
    for (path, module) in modules {
        let imports = module.imports.iter().filter(|import| !import.is_reexport).map(|import| &import.path);
        let files = imports.chain(&module.paths).filter_map(|named| resolve(modules, path, named, MOST_REEXPORTS));
        let entry = dependencies.entry(module.file.clone()).or_default();
        entry.extend(files.filter(|file| **file != *module.file).map(Path::to_owned));
    }
    dependencies
}

/// The file that defines what `named` names in the module `from`; `None`: it is not in this crate. What a module
/// imports from another crate, or from generated code, counts as defined by the module.
fn resolve<'a>(modules: &'a Modules, from: &[String], named: &[String], reexports: usize) -> Option<&'a Path> {
    let (mut at, mut rest): (Segments, &[String]) = (from.to_vec(), named);
    let mut is_ours = true;
    match rest.first()?.as_str() {
        "crate" => (at, rest) = (Segments::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
        }
        _ => is_ours = false,
    }
    loop {
        let module = modules.get(&at)?;
        let Some((first, behind)) = rest.split_first() else { return Some(&module.file) };
        if module.children.contains(first) {
            at.push(first.clone());
            rest = behind;
            is_ours = true;
        } else if module.definitions.contains(first) {
            return Some(&module.file);
        } else {
            let here = is_ours.then_some(&*module.file);
            let Some(path) = imported(module, first) else { return here };
            let full: Segments = path.iter().chain(behind).cloned().collect();
            return resolve(modules, &at, &full, reexports.checked_sub(1)?).or(here);
        }
    }
}

/// The path behind a name that a module imports with `use`.
fn imported<'a>(module: &'a Module, name: &str) -> Option<&'a Segments> {
    let import = module.imports.iter().find(|import| import.name == name)?;
    (import.path.first().is_some_and(|first| first != name)).then_some(&import.path)
}

/// Groups of files that depend on each other; empty: there is no cycle.
pub(super) fn cycles(dependencies: &Dependencies) -> Vec<BTreeSet<PathBuf>> {
    let reached = |from: &PathBuf| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            open.extend(dependencies.get(file).into_iter().flatten().filter(|next| reached.insert((*next).clone())));
        }
        reached
    };
    let all: BTreeMap<_, _> = dependencies.keys().map(|file| (file, reached(file))).collect();
    let with = |file: &PathBuf| -> BTreeSet<PathBuf> {
        all[file].iter().filter(|other| all.get(other).is_some_and(|back| back.contains(file))).cloned().collect()
    };
    let groups: BTreeSet<_> = dependencies.keys().map(with).filter(|group| !group.is_empty()).collect();
    groups.into_iter().collect()
}
