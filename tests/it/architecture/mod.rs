//! Checks which module may import which (the table of `docs/architecture.md`), and that no files import each other in a
//! cycle.
//!
//! CI also checks that each feature builds alone.
mod dependencies;
mod source;

use dependencies::{Dependencies, cycles, dependencies};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Imports = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The dependencies between the files of a crate, as paths relative to its root file's directory.
fn files_of(crate_root: &str) -> Dependencies {
    let root_file = root().join(crate_root);
    let directory = root_file.parent().unwrap();
    let relative = |path: PathBuf| path.strip_prefix(directory).unwrap().to_owned();
    let all = dependencies(&source::read(&root_file));
    all.into_iter().map(|(file, on)| (relative(file), on.into_iter().map(relative).collect())).collect()
}

/// The module that a file belongs to: its first directory, or its own name.
fn module_of(file: &Path) -> String {
    file.with_extension("").iter().next().unwrap().to_str().unwrap().to_owned()
}

/// The table: each module, and what it may import.
fn allowed() -> Imports {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let table = text.split("## Which module may import which").nth(1).expect("the chapter with the table");
    let rows =
        table.lines().skip_while(|line| !line.starts_with("| ---")).skip(1).take_while(|line| line.starts_with('|'));
    let mut allowed = Imports::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let names =
            |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let imports = match cells[2] {
            "all of the above" => allowed.keys().cloned().collect(),
            list => names(list),
        };
        for module in names(cells[1]) {
            allowed.insert(module, imports.clone());
        }
    }
    allowed
}

#[test]
fn modules_import_what_the_table_allows() {
    let allowed = allowed();
    let mut used = Imports::new();
    for (file, on) in files_of("src/lib.rs") {
        let module = module_of(&file);
        // These are outside the modules: `lib` names them all, `test_support` is for tests.
        if ["lib", "test_support"].contains(&module.as_str()) {
            continue;
        }
        let may = allowed.get(&module).unwrap_or_else(|| panic!("the table has no row for {module}"));
        for import in on.iter().map(|file| module_of(file)).filter(|import| *import != module) {
            assert!(may.contains(&import), "{} imports {import}; {module} may import {may:?}", file.display());
            used.entry(module.clone()).or_default().insert(import);
        }
    }
    // The search finds imports that are known to exist.
    assert!(used["coordinator"].contains("core") && used["server"].contains("coordinator"), "{used:?}");
    assert!(used["cli"].contains("client") && used["client"].contains("proto"), "{used:?}");
}

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    for crate_root in ["src/lib.rs", "benches/main.rs"] {
        let files = files_of(crate_root);
        let found = cycles(&files);
        let shown: Vec<_> = found
            .iter()
            .map(|group| group.iter().map(|file| (file, files[file].intersection(group).collect::<Vec<_>>())))
            .map(Iterator::collect::<BTreeMap<_, _>>)
            .collect();
        assert!(found.is_empty(), "{crate_root}: {shown:#?}");
    }
}

#[test]
fn a_meter_depends_on_nothing() {
    let files = files_of("src/lib.rs");
    let imported = |file: &str| files[Path::new(file)].clone();
    let helpers = ["client/stopwatch/baseline.rs", "client/stopwatch/covered.rs"];
    assert_eq!(imported("client/stopwatch/meter.rs"), helpers.map(Into::into).into());
    for helper in helpers {
        assert_eq!(imported(helper), BTreeSet::new());
    }
}

#[test]
fn the_client_uses_only_types_of_the_core() {
    for (file, on) in files_of("src/lib.rs").into_iter().filter(|(file, _)| file.starts_with("client")) {
        let core = on.iter().filter(|on| on.starts_with("core")).find(|on| !on.ends_with("types.rs"));
        assert_eq!(core, None, "{}", file.display());
    }
}

#[test]
fn only_the_clock_reads_time_in_the_coordinator_and_the_rules() {
    let files = files_of("src/lib.rs");
    for directory in ["core", "coordinator", "server/grpc", "server/admission"] {
        let here: Vec<_> = files.keys().filter(|file| file.starts_with(directory)).collect();
        assert!(!here.is_empty(), "{directory} has no files");
        for file in here {
            let text = fs::read_to_string(root().join("src").join(file)).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for read in ["Instant::now", "SystemTime::now", "clock_gettime"] {
                assert!(!code.contains(read), "{} reads time with {read}", file.display());
            }
        }
    }
}

/// What the other tests rely on: every form of a path is found, tests are ignored, and a cycle is found.
#[test]
fn dependencies_are_found_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a; mod b; mod c; mod d;");
    write("a.rs", "use crate::{b::{B, Other as O}, c}; fn f() { c::g(); }");
    write("b/mod.rs", "mod inner; pub use inner::{B, Other};");
    write("b/inner.rs", "pub struct B; pub struct Other; fn f() { let _ = vec![super::super::d::D]; }");
    write("c.rs", "pub fn g() { std::fs::read(\"\"); } #[cfg(test)] mod tests { use crate::a; }");
    write("d.rs", "pub struct D; impl D { fn f(_: crate::b::inner::B) {} }");
    let found = dependencies(&source::read(&directory.path().join("lib.rs")));
    let on = |file: &str| -> BTreeSet<String> {
        let files = &found[&directory.path().join(file)];
        files.iter().map(|file| file.strip_prefix(directory.path()).unwrap().display().to_string()).collect()
    };
    let set = |files: &[&str]| files.iter().map(|&file| file.to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(on("a.rs"), set(&["b/inner.rs", "c.rs"]));
    assert_eq!(on("b/mod.rs"), set(&[]));
    assert_eq!(on("b/inner.rs"), set(&["d.rs"]));
    assert_eq!(on("c.rs"), set(&[]));
    assert_eq!(on("d.rs"), set(&["b/inner.rs"]));
    let circle = ["b/inner.rs", "d.rs"].map(|file| directory.path().join(file)).into();
    assert_eq!(cycles(&found), [circle]);
}

/// The package denies unsafe code; each exception has a page under docs/decisions.
#[test]
fn only_five_files_have_unsafe_code() {
    fn search(directory: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                search(&path, found);
            } else if fs::read_to_string(&path)
                .is_ok_and(|text| text.contains("expect(unsafe_code") || text.contains("allow(unsafe_code"))
            {
                found.insert(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    search(&root().join("src"), &mut found);
    let expected = [
        "src/coordinator/store/embedded/lower_priority.rs",
        "src/exec/judge/fork.rs",
        "src/exec/judge/notify.rs",
        "src/exec/supervise/prepare.rs",
        "src/main.rs",
    ]
    .map(PathBuf::from);
    assert_eq!(found, expected.into());
}
