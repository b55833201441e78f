//! The alerts of `deploy/prometheus` and the dashboard of `deploy/grafana`: they are valid, a server exports every
//! metric and label in them, and docs/observability.md names every alert.
//!
//! Neither Prometheus nor Grafana runs here. The rules were checked with `promtool` by hand.
use crate::metrics::start;
use crate::support::{Samples, config, scrape};
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::{BTreeMap, BTreeSet};

/// Labels that Prometheus adds to every sample of a target.
const OF_THE_TARGET: [&str; 2] = ["instance", "job"];
/// gRPC codes whose samples appear when a call ends with them.
const CODES: [&str; 5] = ["INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAUTHENTICATED", "PERMISSION_DENIED"];

fn read(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An alert: its name, expression and texts.
struct Alert {
    name: String,
    expr: String,
    texts: Vec<String>,
}

fn alerts() -> Vec<Alert> {
    let file = read("deploy/prometheus/alerts.yml");
    let documents = Yaml::load_from_str(&file).expect("alerts.yml is YAML");
    let groups = documents[0]["groups"].as_vec().expect("it has groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_vec().expect("a group has rules"));
    let text = |yaml: &Yaml<'_>| yaml.as_str().unwrap_or_else(|| panic!("wanted a text: {yaml:?}")).to_owned();
    rules
        .map(|rule| {
            let severity = text(&rule["labels"]["severity"]);
            assert!(["warning", "critical"].contains(&severity.as_str()), "{severity}");
            let texts = ["summary", "description"].map(|key| text(&rule["annotations"][key])).to_vec();
            Alert { name: text(&rule["alert"]), expr: text(&rule["expr"]), texts }
        })
        .collect()
}

/// All expressions of the dashboard, those of its variables included.
fn expressions(json: &serde_json::Value, into: &mut Vec<String>) {
    match json {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().filter(|_| ["expr", "definition"].contains(&key.as_str())) {
                    Some(expr) => into.push(expr.to_owned()),
                    None => expressions(value, into),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| expressions(item, into)),
        _ => {}
    }
}

/// The samples that a server exports: for each sample name, its labels and their values.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn exported(samples: &Samples) -> Exported {
    let mut exported = Exported::new();
    for sample in samples.values.keys() {
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let of_name = exported.entry(name.to_owned()).or_default();
        for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once("=\"").expect("LABEL=\"VALUE\"");
            of_name.entry(label.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
        }
    }
    exported
}

/// The additional samples of a replica: a test in tests/fleet compares this list with a running one.
fn of_a_replica() -> Exported {
    let page = read("docs/fleet.md");
    let rows = page.lines().filter(|line| line.starts_with("| `pausewatch_fleet_"));
    rows.filter_map(|row| row.split('`').nth(1)).map(|name| (name.to_owned(), BTreeMap::new())).collect()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// A label, an operator and a value, as text.
type Matcher = (String, String, String);

/// The metrics that an expression reads, each with its matchers.
fn selectors(expr: &str) -> Vec<(String, Vec<Matcher>)> {
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(at) = ["pausewatch_", "process_", "up{"].iter().filter_map(|prefix| rest.find(prefix)).min() {
        let tail = &rest[at..];
        let end = tail.find(|c| !is_name(c)).unwrap_or(tail.len());
        let (name, after) = tail.split_at(end);
        let matchers = after.strip_prefix('{').and_then(|inner| inner.split_once('}')).map_or("", |(inner, _)| inner);
        let matchers = matchers.split(", ").flat_map(|part| part.split("\",")).filter(|part| !part.is_empty());
        let matchers = matchers.map(|matcher| {
            let label = matcher.split(|c| !is_name(c)).next().unwrap();
            let (operator, value) = matcher[label.len()..].split_once('"').expect("LABEL OPERATOR \"VALUE\"");
            (label.to_owned(), operator.to_owned(), value.trim_end_matches('"').to_owned())
        });
        found.push((name.to_owned(), matchers.collect()));
        rest = after;
    }
    found
}

/// The labels that an expression groups by.
fn grouped(expr: &str) -> Vec<String> {
    let lists = expr.split("by (").skip(1).map(|tail| tail.split_once(')').expect("a list ends").0);
    lists.flat_map(|list| list.split(',')).map(|label| label.trim().to_owned()).collect()
}

/// The errors in an expression; empty if a server exports all that it names.
fn wrong(expr: &str, exported: &Exported) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut labels: BTreeSet<String> = OF_THE_TARGET.map(str::to_owned).into();
    let selectors = selectors(expr);
    if selectors.is_empty() && !expr.contains("label_values(") {
        wrong.push("it reads no metric".to_owned());
    }
    for (name, matchers) in selectors {
        let none = BTreeMap::new();
        let of_name = match exported.get(&name) {
            Some(of_name) => of_name,
            // Samples that Prometheus itself adds for a target.
            None if name == "up" => &none,
            None => {
                wrong.push(format!("no metric {name}"));
                continue;
            }
        };
        labels.extend(of_name.keys().cloned());
        for (label, operator, value) in matchers {
            let is_known = |value: &str| of_name[&label].contains(value) || label == "code" && CODES.contains(&value);
            if OF_THE_TARGET.contains(&label.as_str()) {
                continue;
            }
            if !of_name.contains_key(&label) {
                wrong.push(format!("{name} has no label {label}"));
            } else if !["=", "!=", "=~"].contains(&operator.as_str()) || !value.split('|').all(is_known) {
                wrong.push(format!("{name} has no {label}{operator}{value}"));
            }
        }
    }
    wrong.extend(grouped(expr).into_iter().filter(|label| !labels.contains(label)).map(|label| format!("by {label}")));
    wrong
}

#[tokio::test]
async fn alerts_and_dashboard_name_only_what_a_server_exports() {
    let (_server, url) = start(config()).await;
    let exported: Exported = exported(&scrape(&url).await).into_iter().chain(of_a_replica()).collect();
    // The check can fail.
    for (expr, why) in [
        ("pausewatch_paused_thread", "no metric pausewatch_paused_thread"),
        ("rate(pausewatch_refused_total{limits=\"x\"}[5m])", "pausewatch_refused_total has no label limits"),
        ("pausewatch_calls_total{job=\"a\", code!=\"OKAY\"}", "pausewatch_calls_total has no code!=OKAY"),
        ("sum by (instance, holder) (pausewatch_threads)", "by holder"),
        ("vector(1)", "it reads no metric"),
    ] {
        assert_eq!(wrong(expr, &exported), [why], "{expr}");
    }
    for Alert { name, expr, texts } in alerts() {
        assert_eq!(wrong(&expr, &exported), [""; 0], "{name}: {expr}");
        let labels = texts.iter().flat_map(|text| text.split("$labels.").skip(1));
        for label in labels.map(|tail| tail.split(|c| !is_name(c)).next().unwrap().to_owned()) {
            let (grouped, known) = (grouped(&expr), OF_THE_TARGET.contains(&label.as_str()));
            assert!(grouped.contains(&label) || known && grouped.is_empty(), "{name} shows {label} in {texts:?}");
        }
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("deploy/grafana/pausewatch.json")).expect("it is JSON");
    let mut shown = Vec::new();
    expressions(&dashboard, &mut shown);
    for expr in &shown {
        assert_eq!(wrong(expr, &exported), [""; 0], "{expr}");
    }
    // The dashboard shows every metric of a server and a replica, without the parts of histograms. A change of the term
    // is shown as a takeover.
    let all = shown.join(" ");
    let missing: Vec<_> = exported.keys().filter(|name| !name.ends_with("_sum") && !name.ends_with("_count")).collect();
    let missing: Vec<_> = missing.into_iter().filter(|name| !all.contains(name.as_str())).collect();
    assert_eq!(missing, ["pausewatch_fleet_term", "process_virtual_memory_bytes"], "the dashboard lacks these");
}

/// All replicas of a fleet report the same threads, which count once: the leader's report counts.
#[test]
fn threads_of_a_fleet_are_counted_once() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/pausewatch.json")).unwrap();
    let mut exprs = Vec::new();
    expressions(&dashboard, &mut exprs);
    exprs.extend(alerts().into_iter().map(|alert| alert.expr));
    for (metric, others) in [
        ("pausewatch_threads", "(pausewatch_fleet_leader == 0)"),
        ("pausewatch_paused_threads", "(pausewatch_fleet_leader == 0)"),
        ("pausewatch_open_elicitations", "(pausewatch_fleet_leader == 0)"),
        ("pausewatch_paused_threads_unwatched", "pausewatch_fleet_leader"),
    ] {
        let of_metric = exprs.iter().filter(|expr| selectors(expr).iter().any(|(name, _)| name == metric));
        let of_metric: Vec<_> = of_metric.collect();
        assert!(!of_metric.is_empty(), "nothing shows {metric}");
        for expr in of_metric {
            assert!(expr.contains(&format!(" unless on (job, instance) {others}")), "{expr}");
        }
    }
}

/// docs/fleet.md lists what to watch, and alerts.yml has all of it.
#[test]
fn what_to_watch_of_a_fleet_has_an_alert() {
    let page = read("docs/fleet.md");
    let exprs: Vec<_> = alerts().into_iter().map(|alert| alert.expr).collect();
    let watched =
        page.lines().filter(|line| line.starts_with("| `pausewatch_fleet_") && line.to_lowercase().contains("alert "));
    let names: Vec<_> = watched.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        assert!(exprs.iter().any(|expr| expr.contains(name)), "no alert on {name}");
    }
}

/// A code has no sample before its first call. Prometheus sees no increase when a counter appears, so an alert must
/// cover that too.
#[test]
fn an_alert_on_a_code_sees_its_first_calls() {
    let on_codes: Vec<_> = alerts().into_iter().filter(|alert| alert.expr.contains("{code")).collect();
    assert!(on_codes.len() >= 2);
    for Alert { name, expr, .. } in on_codes {
        let (increase, first) = expr.split_once(" or ").unwrap_or((&expr, ""));
        assert!(
            increase.contains("[15m]") && first.contains(" unless ") && first.contains(" offset 15m"),
            "{name}: {expr}"
        );
    }
}

#[test]
fn the_dashboard_is_complete_in_itself() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/pausewatch.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables: BTreeSet<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(variables, BTreeSet::from(["datasource", "instance", "job"]));
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        // Not the data source of the author.
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{}", panel["title"]);
    }
}

#[test]
fn the_page_names_every_alert_and_no_other() {
    let page = read("docs/observability.md");
    let named = page.lines().filter_map(|line| line.strip_prefix("| `Pausewatch")?.split_once('`'));
    let named: Vec<_> = named.map(|(name, _)| format!("Pausewatch{name}")).collect();
    assert_eq!(named, alerts().into_iter().map(|alert| alert.name).collect::<Vec<_>>());
}
