//! The modules of a source tree, read with syn: what each defines, which children it has, and which paths it names.
//!
//! Tests inside the sources are ignored: they may name anything.
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::Visit;
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, ItemUse, Lit, Macro, Meta, MetaNameValue, UseTree, Visibility};

/// The segments of a path: `crate`, `core`, `Record`.
pub(super) type Segments = Vec<String>;

/// One module, inline modules included.
#[derive(Default)]
pub(super) struct Module {
    pub(super) file: PathBuf,
    pub(super) definitions: BTreeSet<String>,
    pub(super) children: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths of two or more segments outside `use`.
    pub(super) paths: BTreeSet<Segments>,
}

/// One name that a `use` declaration brings in.
pub(super) struct Import {
    pub(super) path: Segments,
    pub(super) name: String,
    /// A re-export only passes a name on: it makes no dependency.
    pub(super) is_reexport: bool,
}

/// All modules by their path from the root, whose own path is empty.
pub(super) type Modules = BTreeMap<Segments, Module>;

/// Reads a crate from its root file.
pub(super) fn read(root: &Path) -> Modules {
    let mut modules = Modules::new();
    read_file(root, root.parent().expect("a file has a directory"), Segments::new(), &mut modules);
    modules
}

fn read_file(file: &Path, directory: &Path, module: Segments, modules: &mut Modules) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    add(file, directory, module, &parsed.items, modules);
}

fn add(file: &Path, directory: &Path, path: Segments, items: &[Item], modules: &mut Modules) {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    for item in items {
        let (attributes, name) = attributes_and_name(item);
        if is_for_tests(attributes) {
            continue;
        }
        if let Item::Mod(child) = item {
            let name = child.ident.to_string();
            let child_path: Segments = path.iter().cloned().chain([name.clone()]).collect();
            let below = directory.join(&name);
            match &child.content {
                Some((_, items)) => add(file, &below, child_path, items, modules),
                None => {
                    let beside = directory.join(format!("{name}.rs"));
                    let here = file.parent().expect("a file has a directory");
                    let file = match path_attribute(attributes) {
                        Some(path) => here.join(path),
                        None if beside.exists() => beside,
                        None => below.join("mod.rs"),
                    };
                    read_file(&file, &below, child_path, modules);
                }
            }
            module.children.insert(name);
            continue;
        }
        module.definitions.extend(name);
        Collector(&mut module).visit_item(item);
    }
    modules.insert(path, module);
}

/// The file that `#[path]` names.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(MetaNameValue { path, value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. })
            if path.is_ident("path") =>
        {
            Some(text.value())
        }
        _ => None,
    })
}

fn attributes_and_name(item: &Item) -> (&[Attribute], Option<String>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Enum(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Fn(item) => (&item.attrs, Some(item.sig.ident.to_string())),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref().map(ToString::to_string)),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Struct(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Trait(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Type(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Use(item) => (&item.attrs, None),
        other => panic!("an item of a kind that this test does not know: {other:?}"),
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// Collects the paths of one item.
struct Collector<'a>(&'a mut Module);

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        let mut names = Vec::new();
        flatten(&item.tree, &Segments::new(), &mut names);
        self.0.imports.extend(names.into_iter().map(|(path, name)| Import { path, name, is_reexport }));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.0.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        paths_of_tokens(invocation.tokens.clone(), &mut self.0.paths);
    }
}

fn flatten(tree: &UseTree, prefix: &Segments, names: &mut Vec<(Segments, String)>) {
    let with = |name: &str| prefix.iter().cloned().chain([name.to_owned()]).collect::<Segments>();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident.to_string()), names),
        UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, prefix, names)),
        UseTree::Name(name) if name.ident == "self" => {
            names.push((prefix.clone(), prefix.last().cloned().unwrap_or_default()));
        }
        UseTree::Name(name) => names.push((with(&name.ident.to_string()), name.ident.to_string())),
        UseTree::Rename(rename) => names.push((with(&rename.ident.to_string()), rename.rename.to_string())),
        UseTree::Glob(_) => names.push((prefix.clone(), "*".to_owned())),
    }
}

/// The paths inside a macro: identifiers with `::` between them.
fn paths_of_tokens(tokens: TokenStream, paths: &mut BTreeSet<Segments>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i] {
            TokenTree::Group(group) => paths_of_tokens(group.stream(), paths),
            TokenTree::Ident(first) => {
                let mut path = vec![first.to_string()];
                while let [TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(next), ..] = &tokens[i + 1..]
                    && (a.as_char(), b.as_char()) == (':', ':')
                {
                    path.push(next.to_string());
                    i += 3;
                }
                if path.len() > 1 {
                    paths.insert(path);
                }
            }
            _ => {}
        }
        i += 1;
    }
}
