//! The tools that pages need besides a shell and `pausewatch`: their paths, or the reason why they are missing.
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Why a block that needs this program cannot be run; `None`: it can.
pub(crate) fn lacks(program: &str) -> Option<String> {
    if program == "python3" {
        return python().as_ref().err().cloned();
    }
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).stdout(Stdio::null()).status();
    (!found.unwrap().success()).then(|| format!("there is no {program}"))
}

/// The variables of a session: `bin` first on the PATH, and settings of pip so that it needs no network.
pub(crate) fn environment(bin: &Path) -> Vec<(&'static str, OsString)> {
    let mut path = vec![bin.to_owned()];
    let mut variables = Vec::new();
    if let Ok(python) = python() {
        path.push(python.directory.clone());
        variables = vec![("PIP_NO_INDEX", "1".into()), ("PIP_FIND_LINKS", wheels().into())];
    }
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    variables.push(("PATH", std::env::join_paths(path).unwrap()));
    variables
}

/// A Python that can run the client, with everything that `pip install ./clients/python` needs.
struct Python {
    /// The directory of its `python3`. This is not a shim that needs files in a home directory, which a session lacks.
    directory: PathBuf,
}

fn python() -> &'static Result<Python, String> {
    static PYTHON: OnceLock<Result<Python, String>> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let asked =
            "import ensurepip, os, sys; assert sys.version_info >= (3, 11); print(os.path.realpath(sys.executable))";
        let answer = Command::new("python3").args(["-c", asked]).stderr(Stdio::null()).output();
        let found = answer.ok().filter(|answer| answer.status.success());
        let found = found.ok_or("there is no python3 of version 3.11 or later with venv")?;
        let interpreter = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
        fetch_wheels(&interpreter)?;
        let directory = interpreter.parent().ok_or("python3 has no directory")?.to_owned();
        Ok(Python { directory })
    })
}

fn wheels() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheels")
}

/// Downloads once what the client and its build need, because sessions have no network.
fn fetch_wheels(python: &Path) -> Result<(), String> {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
    let project = std::fs::read_to_string(client.join("pyproject.toml")).map_err(|_| "clients/python is not here")?;
    let complete = wheels().join(format!("complete-for-{}", python.display().to_string().replace('/', "-")));
    if std::fs::read_to_string(&complete).is_ok_and(|then| then == project) {
        return Ok(());
    }
    let project_table: toml::Table = project.parse().map_err(|error| format!("{error}"))?;
    let list = |table: &str, key: &str| -> Vec<String> {
        let entries = project_table[table][key].as_array().into_iter().flatten();
        entries.filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
    };
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest"]).arg(wheels());
    pip.args(list("build-system", "requires")).args(list("project", "dependencies"));
    let fetched = pip.output().map_err(|error| format!("pip: {error}"))?;
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr);
        return Err(format!("the wheels of the Python client cannot be fetched: {}", why.trim()));
    }
    std::fs::write(complete, project).map_err(|error| error.to_string())
}
