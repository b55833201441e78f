//! The files in `deploy/`: they name only existing commands, options and keys, and agree with each other.
//!
//! Neither Docker nor Kubernetes runs here: how they interpret these files is not tested.
use crate::program::{ended, program};
use crate::support::skipped;
use clap::{CommandFactory, Parser};
use pausewatch::test_support::cli::Program;
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Asserts that the program accepts this command line.
fn parses(words: &[&str]) {
    Program::try_parse_from(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

/// Whether the variable has an effect: it is an option of `serve`, or all commands read it.
fn is_read(variable: &str) -> bool {
    let serve = Program::command().find_subcommand("serve").unwrap().clone();
    let keys: BTreeSet<_> =
        serve.get_arguments().filter_map(|arg| Some(arg.get_long()?.replace('-', "_").to_uppercase())).collect();
    let key = variable.strip_prefix("PAUSEWATCH_SERVE_");
    key.map_or(["PAUSEWATCH_DATA_DIR", "PAUSEWATCH_CONFIG"].contains(&variable), |key| keys.contains(key))
}

/// Parses `["list", "of", "words"]`.
fn words(list: &str) -> Vec<String> {
    serde_json::from_str(list).unwrap_or_else(|error| panic!("{list}: {error}"))
}

#[test]
fn the_image_runs_what_there_is() {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let of =
        |instruction: &str| text.lines().find_map(|line| line.strip_prefix(instruction)).unwrap().trim().to_owned();
    let mut command = words(&of("ENTRYPOINT "));
    assert_eq!(command, ["/usr/bin/pausewatch"]);
    command.extend(words(&of("CMD ")));
    parses(&command.iter().map(String::as_str).collect::<Vec<_>>());
    let check = of("HEALTHCHECK ");
    let check = words(check.split_once("CMD ").unwrap().1);
    parses(&check.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(check.ends_with(&["--address".into(), "127.0.0.1:7420".into()]));
    let variables: Vec<_> =
        of("ENV ").split_whitespace().map(|set| set.split_once('=').unwrap().0.to_owned()).collect();
    assert_eq!(variables.iter().find(|variable| !is_read(variable)), None);
    assert!(variables.len() == 3 && text.contains("PAUSEWATCH_SERVE_LISTEN=0.0.0.0:7420"));
    assert_eq!(
        (of("EXPOSE ").as_str(), of("VOLUME ").as_str(), of("USER ").as_str()),
        ("7420", "/var/lib/pausewatch", "65532:65532")
    );
    let rust = read("Cargo.toml")
        .lines()
        .find_map(|line| Some(line.strip_prefix("rust-version = ")?.trim_matches('"').to_owned()));
    assert!(text.contains(&format!("FROM rust:{}-", rust.unwrap())), "the toolchain that Cargo.toml asks for");
}

/// cargo fails if Cargo.toml names a file that is not in the build context.
#[test]
fn the_image_is_built_of_all_that_cargo_asks_for() {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let ignore = read(".dockerignore");
    let taken: Vec<_> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let targets = ["bin", "test", "bench"].into_iter().flat_map(|kind| manifest[kind].as_array().unwrap());
    for path in
        targets.map(|target| target["path"].as_str().unwrap()).chain(["build.rs", "Cargo.lock", "proto/pausewatch"])
    {
        let is_taken = taken.iter().any(|taken| path == *taken || path.starts_with(&format!("{taken}/")));
        assert!(is_taken, ".dockerignore leaves {path} out");
    }
}

fn yaml(text: &str) -> Vec<Yaml<'_>> {
    Yaml::load_from_str(text).expect("it is YAML")
}

fn text<'a>(of: &'a Yaml<'_>) -> &'a str {
    of.as_str().unwrap_or_else(|| panic!("wanted a text: {of:?}"))
}

#[test]
fn the_manifest_runs_what_there_is_and_its_parts_fit() {
    let manifest = read("deploy/kubernetes/pausewatch.yaml");
    let documents = yaml(&manifest);
    let kind = |kind: &str| documents.iter().find(|document| text(&document["kind"]) == kind).unwrap();
    assert_eq!(text(&yaml(&read("deploy/kubernetes/kustomization.yaml"))[0]["resources"][0]), "pausewatch.yaml");
    let (config, service, set) = (kind("ConfigMap"), kind("Service"), kind("StatefulSet"));
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    // It stores its data on the volume, and writes nowhere else.
    let arguments: Vec<_> = container["args"].as_vec().unwrap().iter().map(text).collect();
    parses(&[&["pausewatch"], &arguments[..]].concat());
    let mounts: Vec<_> =
        container["volumeMounts"].as_vec().unwrap().iter().map(|mount| text(&mount["mountPath"])).collect();
    let file = text(&config["data"]["config.toml"]);
    let serve: toml::Table = toml::from_str(file).unwrap();
    assert!(mounts.contains(&serve["serve"]["data_dir"].as_str().unwrap()), "{mounts:?}");
    assert!(arguments.iter().any(|argument| argument.starts_with(mounts[1])), "{arguments:?} of {mounts:?}");
    assert_eq!(text(&pod["volumes"][0]["configMap"]["name"]), text(&config["metadata"]["name"]));
    assert_eq!(
        text(&set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]),
        text(&container["volumeMounts"][0]["name"])
    );
    checked(file);
    // The port is the same everywhere.
    let port = serve["serve"]["listen"][0].as_str().unwrap().rsplit_once(':').unwrap().1.parse::<i64>().unwrap();
    let ports = [
        &container["ports"][0]["containerPort"],
        &service["spec"]["ports"][0]["port"],
        &container["startupProbe"]["grpc"]["port"],
        &container["readinessProbe"]["grpc"]["port"],
        &container["livenessProbe"]["grpc"]["port"],
        &kind("NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"],
    ];
    assert_eq!(ports.map(|port| port.as_integer()), [Some(port); 6]);
    assert_eq!(text(&service["spec"]["ports"][0]["targetPort"]), text(&container["ports"][0]["name"]));
    let health = text(&container["readinessProbe"]["grpc"]["service"]);
    assert_eq!(health, pausewatch::proto::v1::elicitation_service_server::SERVICE_NAME);
    // The label is the same everywhere, one store has one server, and the server has no privileges.
    let label = |of: &Yaml<'_>| text(&of["app.kubernetes.io/name"]).to_owned();
    let labels = [
        label(&service["spec"]["selector"]),
        label(&set["spec"]["selector"]["matchLabels"]),
        label(&set["spec"]["template"]["metadata"]["labels"]),
        label(&kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]),
    ];
    assert!(labels.iter().all(|label| label == "pausewatch"), "{labels:?}");
    assert_eq!(set["spec"]["replicas"].as_integer(), Some(1));
    let security = &container["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"].as_bool(), Some(true));
    assert_eq!(security["allowPrivilegeEscalation"].as_bool(), Some(false));
    assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
}

/// The resources of a kustomization, files or directories, as paths from the root.
fn resources(directory: &str) -> Vec<String> {
    let kustomization = read(&format!("{directory}/kustomization.yaml"));
    let parsed = yaml(&kustomization);
    let list = parsed[0]["resources"].as_vec().unwrap().iter().map(|path| text(path).to_owned());
    list.map(|path| match path.strip_prefix("../") {
        Some(beside) => format!("{}/{beside}", directory.rsplit_once('/').unwrap().0),
        None => format!("{directory}/{path}"),
    })
    .collect()
}

#[test]
fn the_manifests_of_a_fleet_run_what_there_is_and_their_parts_fit() {
    let fleet = "deploy/kubernetes/fleet";
    assert_eq!(resources(fleet), ["replicas", "etcd"].map(|part| format!("{fleet}/{part}")));
    assert_eq!(resources(&format!("{fleet}/existing-etcd")), [format!("{fleet}/replicas")]);
    let [replicas, etcd] = ["replicas", "etcd"].map(|part| {
        let file = resources(&format!("{fleet}/{part}")).remove(0);
        assert_eq!(file, format!("{fleet}/{part}/{part}.yaml"));
        read(&file)
    });
    let (replicas, etcd) = (yaml(&replicas), yaml(&etcd));
    let of = |documents: &[Yaml<'_>], kind: &str| {
        documents.iter().position(|document| text(&document["kind"]) == kind).unwrap_or_else(|| panic!("no {kind}"))
    };
    let set = &replicas[of(&replicas, "StatefulSet")];
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];

    // Each replica announces a name that the headless Service has.
    let headless = replicas
        .iter()
        .filter(|each| text(&each["kind"]) == "Service")
        .find(|each| each["spec"].as_mapping_get("clusterIP").and_then(Yaml::as_str) == Some("None"));
    let headless = headless.expect("a headless Service");
    let name = text(&headless["metadata"]["name"]);
    assert_eq!(name, text(&set["spec"]["serviceName"]));
    assert_eq!(headless["spec"]["publishNotReadyAddresses"].as_bool(), Some(true));
    let arguments: Vec<_> = container["args"].as_vec().unwrap().iter().map(text).collect();
    assert!(arguments.ends_with(&["--advertise", &format!("$(POD_NAME).{name}:7420")]), "{arguments:?}");
    assert_eq!(text(&container["env"][0]["name"]), "POD_NAME");
    let words: Vec<_> = arguments.iter().map(|argument| argument.replace("$(POD_NAME)", "pausewatch-0")).collect();
    parses(&[vec!["pausewatch"], words.iter().map(String::as_str).collect()].concat());

    // The members of etcd are those that the replicas name and that name each other.
    let members = &etcd[of(&etcd, "StatefulSet")];
    assert_eq!((members["spec"]["replicas"].as_integer(), set["spec"]["replicas"].as_integer()), (Some(3), Some(3)));
    let config = text(&replicas[of(&replicas, "ConfigMap")]["data"]["config.toml"]);
    checked(config);
    let serve: toml::Table = toml::from_str(config).unwrap();
    let endpoints = serve["serve"]["etcd_endpoints"].as_array().unwrap().iter().map(|url| url.as_str().unwrap());
    assert_eq!(endpoints.collect::<Vec<_>>(), [0, 1, 2].map(|member| format!("http://etcd-{member}.etcd:2379")));
    let peers = [0, 1, 2].map(|member| format!("etcd-{member}=http://etcd-{member}.etcd:2380")).join(",");
    let command = members["spec"]["template"]["spec"]["containers"][0]["command"].as_vec().unwrap();
    let initial = format!("--initial-cluster={peers}");
    assert!(command.iter().any(|word| text(word) == initial), "{command:?}");
    assert_eq!(text(&etcd[of(&etcd, "Service")]["metadata"]["name"]), text(&members["spec"]["serviceName"]));

    // With another etcd, only its addresses and credentials differ.
    let other = read(&format!("{fleet}/existing-etcd/kustomization.yaml"));
    let patches = yaml(&other);
    let patched = |at: usize| yaml(text(&patches[0]["patches"][at]["patch"])).remove(0);
    let (config, mounts) = (patched(0), patched(1));
    let mut existing: toml::Table = toml::from_str(text(&config["data"]["config.toml"])).unwrap();
    let table = existing["serve"].as_table_mut().unwrap();
    let mounted = &mounts["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["mountPath"];
    for (key, file) in [("etcd_ca", "ca.crt"), ("etcd_cert", "tls.crt"), ("etcd_key", "tls.key")] {
        let path = table.remove(key).unwrap();
        assert_eq!(path.as_str().unwrap(), format!("{}/{file}", text(mounted)));
    }
    table.insert("etcd_endpoints".to_owned(), serve["serve"]["etcd_endpoints"].clone());
    assert_eq!(existing, serve);

    // At most one pod at a time is evicted, and only the replicas reach etcd.
    for documents in [&replicas, &etcd] {
        let budget = &documents[of(documents, "PodDisruptionBudget")];
        assert_eq!(budget["spec"]["maxUnavailable"].as_integer(), Some(1));
        let label = |of: &Yaml<'_>| text(&of["matchLabels"]["app.kubernetes.io/name"]).to_owned();
        let set = &documents[of(documents, "StatefulSet")];
        assert_eq!(label(&budget["spec"]["selector"]), label(&set["spec"]["selector"]));
        assert_eq!(text(&set["spec"]["podManagementPolicy"]), "Parallel");
    }
    let from = &etcd[of(&etcd, "NetworkPolicy")]["spec"]["ingress"][0];
    assert_eq!(from["ports"][0]["port"].as_integer(), Some(2379));
    assert_eq!(text(&from["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"]), "pausewatch");
    let health = text(&container["readinessProbe"]["grpc"]["service"]);
    assert_eq!(health, pausewatch::proto::v1::elicitation_service_server::SERVICE_NAME);
}

/// Asserts that `config check` finds no problem.
fn checked(config: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    std::fs::write(&path, config).unwrap();
    let check = ended(program().args(["config", "check"]).arg(path));
    assert_eq!(check.code, Some(0), "{check:?}");
}

#[test]
fn the_example_of_a_config_file_holds_also_with_what_it_proposes() {
    let text = read("deploy/config.toml");
    checked(&text);
    let proposed: String = text
        .lines()
        .filter(|line| !line.starts_with("listen = "))
        .map(|line| match line.strip_prefix("# ") {
            // The TLS files that it names do not exist here, so TLS is turned off.
            Some(rest) if rest.starts_with("listen = ") => format!("{rest}\ninsecure = true\n"),
            Some(rest) if rest.contains(" = ") && !rest.starts_with("tls_") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert!(proposed.contains("\naddress = ") && proposed.contains("\nlisten = [\"0.0.0.0:7420\"]"), "{proposed}");
    checked(&proposed);
}

#[test]
fn the_unit_runs_what_there_is() {
    let text = read("deploy/systemd/pausewatch.service");
    let of = |key: &str| text.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>();
    let commands = of("ExecStart=");
    assert_eq!(commands.len(), 1);
    parses(&commands[0].split(' ').collect::<Vec<_>>());
    // ExecStartPre would fail with the exit code of `config check`, but the manager checks only that of the server.
    assert!(of("ExecStartPre=").is_empty() && of("StartLimitIntervalSec=") == ["0"]);
    let variables = of("Environment=");
    assert_eq!(variables.iter().find(|set| !is_read(set.split_once('=').unwrap().0)), None);
    assert!(variables.contains(&"PAUSEWATCH_DATA_DIR=/var/lib/pausewatch") && of("StateDirectory=") == ["pausewatch"]);
    assert!(of("Type=") == ["notify"] && of("WatchdogSec=").len() == 1);
    // Bad usage, as in src/cli/exit.rs.
    assert_eq!(of("RestartPreventExitStatus="), [pausewatch::test_support::cli::USAGE.to_string()]);
    let page = of("Documentation=man:")[0].replace("(1)", "");
    assert!(Program::command().find_subcommand(page.strip_prefix("pausewatch-").unwrap()).is_some());
}

#[test]
fn systemd_accepts_the_unit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pausewatch.service");
    let unit =
        read("deploy/systemd/pausewatch.service").replace("/usr/bin/pausewatch", env!("CARGO_BIN_EXE_pausewatch"));
    std::fs::write(&path, unit).unwrap();
    let mut verify = Command::new("systemd-analyze");
    match verify.args(["verify", "--man=no"]).arg(path).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
        Err(error) => skipped("systemd-analyze", error),
    }
}
