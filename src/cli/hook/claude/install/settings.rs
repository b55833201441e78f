//! The entries in the text of the settings; everything else keeps its order and its form.
//!
//! 1. `uninstall` after `install` gives the settings that were there before. An object or list that is empty afterwards is
//!    removed.
//! 2. `install` replaces the entries of pausewatch at another path, and `uninstall` removes them. A program with
//!    another name counts as pausewatch if it is this program, or if a rule allows it as the clock. `install` keeps the
//!    options that a person gave to a hook.
//! 3. A `BASH_MAX_TIMEOUT_MS` that someone else wrote stays.
use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstNode, CstObject, CstRootNode},
    json,
};
use serde_json::Value;

/// The maximum of the tool's timeout, in milliseconds: 7 days for people to answer, plus a second by which `uninstall`
/// recognizes the value of `install`.
const MAX_TIMEOUT_MS: &str = "604801000";
const MAX_TIMEOUT: &str = "BASH_MAX_TIMEOUT_MS";

/// New settings.
pub(super) struct Installed {
    pub(super) text: String,
    /// Notes for the person.
    pub(super) notes: Vec<String>,
}

/// Adds the entries. `program`: the path of this program, quoted for the shell.
///
/// # Errors
/// The text is not JSON, or an entry has another type.
pub(super) fn install(text: &str, program: &str) -> Result<Installed, String> {
    let root = parse(text)?;
    let settings = root.object_value().ok_or("it is not a JSON object")?;
    let hook = format!("{program} hook claude");
    let mut notes = Vec::new();
    let env = object(&settings, "env")?;
    match env.get(MAX_TIMEOUT).and_then(|property| property.value()) {
        None => _ = env.append(MAX_TIMEOUT, json!(MAX_TIMEOUT_MS)),
        Some(value) if text_of(&value).as_deref() == Some(MAX_TIMEOUT_MS) => {}
        Some(value) => notes.push(format!(
            "{MAX_TIMEOUT} is {value} here and stays so: a command ends then, even while a person is asked"
        )),
    }
    let allow = array(&object(&settings, "permissions")?, "permissions.allow", "allow")?;
    let ours = Programs::of(&settings, program);
    let rule = format!("Bash({hook} clock *)");
    remove_elements(&allow, |text| program_of_rule(text).is_some() && text != rule);
    if !allow.elements().iter().any(|element| text_of(element).as_deref() == Some(&rule)) {
        allow.append(json!(rule));
    }
    let hooks = object(&settings, "hooks")?;
    for (event, matcher) in [("PreToolUse", Some("Bash")), ("SessionStart", None)] {
        let groups = array(&hooks, &format!("hooks.{event}"), event)?;
        let options = commands(&groups).find_map(|(_, command)| ours.options_of(&command).map(str::to_owned));
        let hook = hook.clone() + &options.unwrap_or_default();
        if !retain_hook(&groups, &ours, &hook) {
            groups.append(match matcher {
                Some(matcher) => {
                    json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": (hook.clone()) }] })
                }
                None => json!({ "hooks": [{ "type": "command", "command": (hook.clone()) }] }),
            });
        }
    }
    Ok(Installed { text: root.to_string(), notes })
}

/// Removes the entries. `program` is that of `install`.
///
/// # Errors
/// The text is not JSON.
pub(super) fn uninstall(text: &str, program: &str) -> Result<String, String> {
    let root = parse(text)?;
    let settings = root.object_value().ok_or("it is not a JSON object")?;
    let ours = Programs::of(&settings, program);
    if let Some(env) = settings.object_value("env") {
        let ours = env
            .get(MAX_TIMEOUT)
            .filter(|property| property.value().and_then(|value| text_of(&value)).as_deref() == Some(MAX_TIMEOUT_MS));
        if let Some(property) = ours {
            property.remove();
            remove_if_empty(&settings, "env");
        }
    }
    if let Some(permissions) = settings.object_value("permissions")
        && let Some(allow) = permissions.array_value("allow")
        && remove_elements(&allow, |text| program_of_rule(text).is_some())
    {
        remove_if_empty(&permissions, "allow");
        remove_if_empty(&settings, "permissions");
    }
    if let Some(hooks) = settings.object_value("hooks") {
        let mut changed = false;
        for event in ["PreToolUse", "SessionStart"] {
            if let Some(groups) = hooks.array_value(event)
                && remove_hooks(&groups, |command| ours.options_of(command).is_some())
            {
                remove_if_empty(&hooks, event);
                changed = true;
            }
        }
        if changed {
            remove_if_empty(&settings, "hooks");
        }
    }
    Ok(root.to_string())
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    // Strictly, as Claude Code reads it.
    serde_json::from_str::<Value>(text).map_err(|error| format!("it is not JSON: {error}"))?;
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| format!("it is not JSON: {error}"))
}

fn object(parent: &CstObject, name: &str) -> Result<CstObject, String> {
    parent.object_value_or_create(name).ok_or_else(|| format!("{name} is not an object"))
}

fn array(parent: &CstObject, path: &str, name: &str) -> Result<CstArray, String> {
    parent.array_value_or_create(name).ok_or_else(|| format!("{path} is not a list"))
}

fn text_of(node: &CstNode) -> Option<String> {
    node.as_string_lit()?.decoded_value().ok()
}

/// The programs, quoted for the shell, that are pausewatch under another name. Another program may have a `hook claude` too.
struct Programs(Vec<String>);

impl Programs {
    /// `program`: this one.
    fn of(settings: &CstObject, program: &str) -> Self {
        let allow = settings.object_value("permissions").and_then(|permissions| permissions.array_value("allow"));
        let rules = allow.into_iter().flat_map(|allow| allow.elements()).filter_map(|rule| text_of(&rule));
        let allowed = rules.filter_map(|rule| program_of_rule(&rule).map(str::to_owned));
        Self(allowed.chain([program.to_owned()]).collect())
    }

    /// The options in a command of a hook, with the space before them. `None`: the command does not start pausewatch,
    /// at any path.
    fn options_of<'a>(&self, command: &'a str) -> Option<&'a str> {
        let (program, options) = command.rsplit_once(" hook claude")?;
        let has_our_name =
            program.trim_matches('\'').rsplit('/').next().is_some_and(|name| name.starts_with("pausewatch"));
        let is_ours = has_our_name || self.0.iter().any(|ours| ours == program);
        (is_ours && (options.is_empty() || options.starts_with(" -"))).then_some(options)
    }
}

/// The program that a rule of `install` allows, quoted for the shell. No other program has such a clock.
fn program_of_rule(rule: &str) -> Option<&str> {
    rule.strip_prefix("Bash(")?.strip_suffix(" hook claude clock *)")
}

/// Removes other hooks of ours, and returns whether this one is there.
fn retain_hook(groups: &CstArray, ours: &Programs, hook: &str) -> bool {
    let is_there = commands(groups).any(|(_, command)| command == hook);
    remove_hooks(groups, |command| ours.options_of(command).is_some() && command != hook);
    is_there
}

/// The hooks of all groups of an event that run a command, each with its command.
fn commands(groups: &CstArray) -> impl Iterator<Item = (CstNode, String)> {
    let hooks = groups.elements().into_iter().filter_map(|group| group.as_object()?.array_value("hooks"));
    hooks.flat_map(|hooks| hooks.elements()).filter_map(|hook| {
        let command = text_of(&hook.as_object()?.get("command")?.value()?)?;
        Some((hook, command))
    })
}

/// Removes the hooks whose command is `unwanted`, and the groups that are empty then.
fn remove_hooks(groups: &CstArray, unwanted: impl Fn(&str) -> bool) -> bool {
    let mut removed = false;
    for (hook, command) in commands(groups) {
        if unwanted(&command) {
            hook.remove();
            removed = true;
        }
    }
    if removed {
        for group in groups.elements() {
            let hooks = group.as_object().and_then(|group| group.array_value("hooks"));
            if hooks.is_some_and(|hooks| hooks.elements().is_empty()) {
                group.remove();
            }
        }
    }
    removed
}

fn remove_elements(array: &CstArray, unwanted: impl Fn(&str) -> bool) -> bool {
    let found: Vec<_> =
        array.elements().into_iter().filter(|element| text_of(element).is_some_and(|text| unwanted(&text))).collect();
    let any = !found.is_empty();
    found.into_iter().for_each(CstNode::remove);
    any
}

fn remove_if_empty(parent: &CstObject, name: &str) {
    let Some(property) = parent.get(name) else { return };
    let is_empty = match property.value() {
        Some(value) => match (value.as_object(), value.as_array()) {
            (Some(object), _) => object.properties().is_empty(),
            (_, Some(array)) => array.elements().is_empty(),
            _ => false,
        },
        None => false,
    };
    if is_empty {
        property.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "/opt/bin/pausewatch";

    fn installed(text: &str) -> String {
        install(text, PROGRAM).unwrap().text
    }

    fn uninstalled(text: &str) -> String {
        uninstall(text, PROGRAM).unwrap()
    }

    #[test]
    fn install_adds_the_entries_and_uninstall_removes_them() {
        for before in [
            "{}\n",
            "{\n  \"model\": \"opus\"\n}\n",
            "{\n\t\"env\": {\n\t\t\"A\": \"1\"\n\t},\n\t\"z\": [1, 2],\n\t\"a\": {\"b\":null}\n}",
            "{\"permissions\":{\"allow\":[\"Bash(git *)\"],\"deny\":[\"Read(./.env)\"]}}\n",
            "{\n    \"hooks\": {\n        \"PreToolUse\": [\n            {\n                \"matcher\": \"Bash\",\n                \
             \"hooks\": [{ \"type\": \"command\", \"command\": \"audit\" }]\n            }\n        ]\n    }\n}\n",
            "{\r\n  \"model\": \"opus\"\r\n}\r\n",
        ] {
            let after = installed(before);
            let value: Value = serde_json::from_str(&after).unwrap();
            assert_eq!(value["env"][MAX_TIMEOUT], MAX_TIMEOUT_MS, "{after}");
            let rules = value["permissions"]["allow"].as_array().unwrap();
            assert!(rules.contains(&"Bash(/opt/bin/pausewatch hook claude clock *)".into()), "{after}");
            for event in ["PreToolUse", "SessionStart"] {
                let last = value["hooks"][event].as_array().unwrap().last().unwrap();
                assert_eq!(last["hooks"][0]["command"], "/opt/bin/pausewatch hook claude", "{after}");
            }
            assert_eq!(installed(&after), after, "installing twice changes nothing");
            let removed = uninstalled(&after);
            let [removed_value, before_value] =
                [&removed, before].map(|text| serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(removed_value, before_value);
            assert_eq!(uninstalled(&removed), removed);
        }
    }

    #[test]
    fn other_content_keeps_its_text() {
        let before = "{\n  \"z\" : 1.50,\n\n  \"a\":\"\\u00e9\"\n}\n";
        let after = installed(before);
        assert!(after.starts_with("{\n  \"z\" : 1.50,\n\n  \"a\":\"\\u00e9\",\n  \"env\": {\n"), "{after}");
        assert!(after.ends_with("\n}\n"), "{after}");
    }

    #[test]
    fn entries_of_another_path_are_replaced() {
        let before = install("{}\n", "'/old place/pausewatch'").unwrap().text;
        assert!(before.contains("/old place"), "{before}");
        assert_eq!(installed(&before), installed("{}\n"));
        assert_eq!(uninstalled(&before), "{}\n");
    }

    #[test]
    fn a_program_of_another_name_is_known_by_its_clock() {
        let of_another = "{\"hooks\":{\"PreToolUse\":[{\"hooks\":\
                          [{\"type\":\"command\",\"command\":\"/usr/bin/audit hook claude\"}]}]}}";
        for program in ["/opt/bin/pw", "'/old place/pw'"] {
            for before in ["{}\n", of_another] {
                let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                let after = install(before, program).unwrap().text;
                assert_eq!(install(&after, program).unwrap().text, after);
                assert_eq!(value(&installed(&after)), value(&installed(before)), "its entries are replaced");
                assert_eq!(value(&uninstalled(&after)), value(before));
                // Without the rule, it is known to itself.
                let without_rule = after.replace(" clock *)", " *)");
                let kept = |by: &str| uninstall(&without_rule, by).unwrap().matches(&format!("{program} hook")).count();
                assert_eq!((kept(program), kept(PROGRAM)), (1, 3), "{without_rule}");
            }
        }
    }

    #[test]
    fn options_that_a_person_gave_to_a_hook_stay() {
        for program in [PROGRAM, "'/old place/pausewatch'"] {
            let fresh = install("{}\n", program).unwrap().text;
            let before = fresh.replace(" hook claude\"", " hook claude --max-limit 1h\"");
            assert_ne!(before, fresh);
            let expected = installed("{}\n").replace(" hook claude\"", " hook claude --max-limit 1h\"");
            assert_eq!(installed(&before), expected);
            assert_eq!(uninstalled(&before), "{}\n");
        }
    }

    #[test]
    fn what_others_wrote_stays() {
        let before = "{\"env\":{\"BASH_MAX_TIMEOUT_MS\":\"900000\"},\"hooks\":{\"PreToolUse\":[{\"hooks\":\
                      [{\"type\":\"command\",\"command\":\"my hook claude\"}]}]}}";
        let Installed { text, notes } = install(before, PROGRAM).unwrap();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(text.contains("\"900000\""), "{text}");
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&uninstalled(&text)), value(before));
        assert_eq!(uninstalled(before), before);
    }

    #[test]
    fn settings_of_another_form_are_refused() {
        for (text, why) in [
            ("", "not JSON"),
            ("// x\n{}", "not JSON"),
            ("{\"a\":1,}", "not JSON"),
            ("[]", "not a JSON object"),
            ("{\"env\":[]}", "env is not an object"),
            ("{\"permissions\":{\"allow\":\"Bash\"}}", "permissions.allow is not a list"),
            ("{\"hooks\":{\"PreToolUse\":{}}}", "hooks.PreToolUse is not a list"),
        ] {
            let error = install(text, PROGRAM).err().unwrap();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
