//! The settings of a client: the coordinator's address, the thread and the credentials, from the environment and the
//! config file. The environment wins; the flags of the program win over both.
//!
//! 1. An empty value counts as not set, in a variable and in the file. The thread has several variables: our own, then those
//!    of agents ([`THREAD_VARIABLES`]).
//! 2. An explicitly named config file must exist; the one at the default path may be missing, or in the home of another user.
//! 3. An unknown key is an error with its name and line: a misspelled key must not silently select the default.
//! 4. A plaintext address overrides and ignores inherited TLS settings (an `https://` address or certificate files) and
//!    their token: they belong to another coordinator.
mod foreign_home;
#[cfg(feature = "cli")]
mod of_others;

use super::{Address, Config, ConfigError, Tls, Token, TokenSource, config::check_tls, input_file};
use crate::core::types::ThreadId;
#[cfg(feature = "cli")]
pub(crate) use foreign_home::ignored_config_file;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::{env, ffi::OsString, fmt::Display, io::ErrorKind, path::Path, path::PathBuf};

/// The variables that name the thread; the first one that is set counts. Codex and Claude Code set theirs for the commands
/// that they run, so that a tool of an agent pauses the agent's thread without any setting.
const THREAD_VARIABLES: [&str; 3] = ["PAUSEWATCH_THREAD_ID", "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"];

/// The value of [`Settings::thread_source`] for a thread from the config file.
const CONFIG_FILE: &str = "the config file";

/// The variables that are about the coordinator.
#[cfg(feature = "cli")]
const COORDINATOR_VARIABLES: [&str; 6] = [
    "PAUSEWATCH_ADDRESS",
    "PAUSEWATCH_TOKEN",
    "PAUSEWATCH_TOKEN_FILE",
    "PAUSEWATCH_TLS_CA",
    "PAUSEWATCH_TLS_CERT",
    "PAUSEWATCH_TLS_KEY",
];

/// Reads one environment variable.
type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The settings that every program and library of pausewatch shares.
///
/// | key of the config file | variable |
/// | --- | --- |
/// | `address` | `PAUSEWATCH_ADDRESS` |
/// | `thread_id` | `PAUSEWATCH_THREAD_ID`, else `CODEX_THREAD_ID`, else `CLAUDE_CODE_SESSION_ID` |
/// | `token` | `PAUSEWATCH_TOKEN` |
/// | none | `PAUSEWATCH_TOKEN_FILE`: a file with the token |
/// | `tls_ca`, `tls_cert`, `tls_key` | `PAUSEWATCH_TLS_CA`, `PAUSEWATCH_TLS_CERT`, `PAUSEWATCH_TLS_KEY` |
///
/// The config file is TOML: the one that `PAUSEWATCH_CONFIG` names, else `pausewatch/config.toml` in
/// `$XDG_CONFIG_HOME`, else in `~/.config`. If that directory belongs to another user and the file cannot be read (as after `su`
/// without `-`), the file counts as missing, with a warning. Its table `[serve]` belongs to the server and is ignored here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "File")]
#[non_exhaustive]
pub struct Settings {
    /// The address of the coordinator; `None`: not set.
    pub address: Option<Address>,
    /// The thread.
    pub thread_id: Option<String>,
    /// Where the thread was found: see [`Settings::thread_source`].
    #[serde(skip)]
    pub(crate) thread_source: Option<&'static str>,
    /// Authenticates the client to the coordinator.
    pub token: Option<Token>,
    /// A file with the token, which is read again for every call: see [`TokenSource`]. Not together with `token`.
    pub token_file: Option<PathBuf>,
    /// The certificate authorities to trust instead of the system's: a PEM file.
    pub tls_ca: Option<PathBuf>,
    /// The certificate chain of the client: a PEM file.
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate: a PEM file.
    pub tls_key: Option<PathBuf>,
}

/// The whole config file: the settings, and the table of the server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, deserialize_with = "address")]
    address: Option<Address>,
    #[serde(default, deserialize_with = "thread")]
    thread_id: Option<String>,
    #[serde(default, deserialize_with = "token")]
    token: Option<Token>,
    tls_ca: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    #[serde(rename = "serve")]
    _serve: Option<IgnoredAny>,
}

impl From<File> for Settings {
    fn from(File { address, thread_id, token, tls_ca, tls_cert, tls_key, _serve }: File) -> Self {
        let path = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        let (tls_ca, tls_cert, tls_key) = (path(tls_ca), path(tls_cert), path(tls_key));
        let thread_source = thread_id.as_ref().map(|_| CONFIG_FILE);
        Self { address, thread_id, thread_source, token, token_file: None, tls_ca, tls_cert, tls_key }
    }
}

fn address<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Address>, D::Error> {
    let text = String::deserialize(value)?;
    (!text.is_empty()).then(|| text.parse()).transpose().map_err(D::Error::custom)
}

fn thread<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(value)?;
    let thread = (!text.is_empty()).then(|| ThreadId::parse("thread_id", &text)).transpose();
    Ok(thread.map_err(D::Error::custom)?.map(|_| text))
}

fn token<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Token>, D::Error> {
    // serde's own error would print the value.
    let text = String::deserialize(value).map_err(|_| D::Error::custom("token: expected a string"))?;
    (!text.is_empty()).then(|| Token::new(&text)).transpose().map_err(D::Error::custom)
}

impl Config {
    /// The defaults, overridden by the config file and the environment: see [`Settings`].
    ///
    /// # Errors
    /// A setting is invalid, or a file that it names cannot be read.
    pub fn from_env() -> Result<Self, ConfigError> {
        Settings::from_env()?.config()
    }
}

impl Settings {
    /// The settings of the environment; those that it does not have come from the config file.
    ///
    /// # Errors
    /// A setting is invalid or the config file cannot be read; the text names the setting and its place.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_env_and(None)
    }

    /// Like [`Settings::from_env`], with this config file instead of the one that `PAUSEWATCH_CONFIG` names or the one at
    /// the default path.
    ///
    /// # Errors
    /// As [`Settings::from_env`].
    pub fn from_env_and(config_file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load(config_file, &|name| env::var_os(name))
    }

    /// Like [`Settings::from_env_and`], for a program that does not call a coordinator: its variables are not read.
    #[cfg(feature = "cli")]
    pub(crate) fn without_coordinator(config_file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load(config_file, &|name| env::var_os(name).filter(|_| !COORDINATOR_VARIABLES.contains(&name)))
    }

    fn load(config_file: Option<&Path>, environment: Environment<'_>) -> Result<Self, ConfigError> {
        let variables = Self::from_variables(environment)?;
        let file = match read_config_file_of(config_file, environment)? {
            Some((path, text)) => Self::parse(&text).map_err(|why| in_file(&path, why))?,
            None => Self::default(),
        };
        Ok(variables.or(file))
    }

    /// The settings of `self`; those that `self` does not have come from `other`. If `self` has a plaintext address and
    /// `other` has TLS settings (an `https://` address or certificate files), only the thread is taken from `other`:
    /// the credentials for one coordinator are not sent to another one in plain text.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let is_plaintext = self.address.as_ref().is_some_and(|address| !address.is_encrypted());
        let is_for_tls = other.address.as_ref().is_some_and(Address::is_encrypted)
            || [&other.tls_ca, &other.tls_cert, &other.tls_key].iter().any(|file| file.is_some());
        let other = match is_plaintext && is_for_tls {
            true => Self { thread_id: other.thread_id, thread_source: other.thread_source, ..Self::default() },
            false => other,
        };
        let (token, token_file) = match self.token.is_some() || self.token_file.is_some() {
            true => (self.token, self.token_file),
            false => (other.token, other.token_file),
        };
        let thread_source = if self.thread_id.is_some() { self.thread_source } else { other.thread_source };
        Self {
            address: self.address.or(other.address),
            thread_id: self.thread_id.or(other.thread_id),
            thread_source,
            token,
            token_file,
            tls_ca: self.tls_ca.or(other.tls_ca),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
        }
    }

    /// The source of the thread, as text for people: a variable, or the config file. `None`: neither names a thread.
    pub fn thread_source(&self) -> Option<&'static str> {
        self.thread_source
    }

    /// The configuration of a client; reads the certificate files.
    ///
    /// # Errors
    /// A certificate has no key or a key no certificate, or a file cannot be read.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some((cert.as_path(), key.as_path())),
            (None, None) => None,
            (Some(_), None) => return Err(ConfigError::new("tls_cert needs tls_key, the file with its key")),
            (None, Some(_)) => return Err(ConfigError::new("tls_key needs tls_cert, the file with its certificate")),
        };
        let (address, token) = (self.address.clone().unwrap_or_default(), self.token.clone());
        let tls = match (&self.tls_ca, identity) {
            (None, None) => None,
            (ca, identity) => {
                // Checked before the files are read, because they may be missing on this machine.
                check_tls(&address)?;
                Some(Tls::load(ca.as_deref(), identity)?)
            }
        };
        if token.is_some() && self.token_file.is_some() {
            return Err(ConfigError::new("PAUSEWATCH_TOKEN and PAUSEWATCH_TOKEN_FILE are both set: set one of them"));
        }
        let token_source = self.token_file.clone().map(TokenSource::file);
        Ok(Config { address, token, token_source, tls, ..Config::default() })
    }

    fn from_variables(environment: Environment<'_>) -> Result<Self, ConfigError> {
        let mut threads = THREAD_VARIABLES
            .into_iter()
            .map(|name| (name, variable(environment, name, |text| Ok::<_, ConfigError>(text.to_owned()))));
        let thread = threads.find(|(_, id)| !matches!(id, Ok(None)));
        let (thread_source, thread_id) = thread.map_or((None, Ok(None)), |(name, id)| (Some(name), id));
        Ok(Self {
            address: variable(environment, "PAUSEWATCH_ADDRESS", str::parse::<Address>)?,
            thread_id: thread_id?,
            thread_source,
            token: variable(environment, "PAUSEWATCH_TOKEN", Token::new)?,
            token_file: path_variable(environment, "PAUSEWATCH_TOKEN_FILE"),
            tls_ca: path_variable(environment, "PAUSEWATCH_TLS_CA"),
            tls_cert: path_variable(environment, "PAUSEWATCH_TLS_CERT"),
            tls_key: path_variable(environment, "PAUSEWATCH_TLS_KEY"),
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let why = error.message().trim().replace('\n', ", ");
            format!("line {}: {why}", before.matches('\n').count() + 1)
        })
    }
}

fn in_file(path: &Path, why: impl Display) -> ConfigError {
    ConfigError::new(format!("config file {}: {why}", path.display()))
}

fn path_variable(environment: Environment<'_>, name: &str) -> Option<PathBuf> {
    environment(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn variable<T, E: Display>(
    environment: Environment<'_>,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, ConfigError> {
    let Some(value) = environment(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let text = value.to_str().ok_or_else(|| ConfigError::new(format!("{name}: not UTF-8")))?;
    parse(text).map(Some).map_err(|why| ConfigError::new(format!("{name}: {why}")))
}

/// The path and the text of the config file, if there is one.
pub(crate) fn read_config_file(path: Option<&Path>) -> Result<Option<(PathBuf, String)>, ConfigError> {
    read_config_file_of(path, &|name| env::var_os(name))
}

fn read_config_file_of(
    path: Option<&Path>,
    environment: Environment<'_>,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = path.map(Path::to_owned).or_else(|| path_variable(environment, "PAUSEWATCH_CONFIG"));
    let (path, base) = match named {
        Some(path) => (path, None),
        None => match default_directory(environment) {
            Some(base) => (base.join("pausewatch/config.toml"), Some(base)),
            None => return Ok(None),
        },
    };
    match (input_file::read_text(&path), base) {
        (Ok(text), _) => Ok(Some((path, text))),
        // With HOME=/dev/null, the error is NotADirectory.
        (Err(error), Some(_)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        (Err(error), Some(base)) if foreign_home::ignore(&path, &base, &error) => Ok(None),
        (Err(error), _) => Err(in_file(&path, error)),
    }
}

/// `$XDG_CONFIG_HOME`, else `~/.config`.
fn default_directory(environment: Environment<'_>) -> Option<PathBuf> {
    // The XDG base directory specification requires that relative paths are ignored.
    let config = path_variable(environment, "XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    config.or_else(|| Some(path_variable(environment, "HOME")?.join(".config")))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn all() -> Settings {
        Settings {
            address: "https://h:1".parse().ok(),
            thread_id: Some("t".into()),
            thread_source: Some(CONFIG_FILE),
            token: Token::new("s3cret").ok(),
            token_file: None,
            tls_ca: Some("/ca".into()),
            tls_cert: Some("/cert".into()),
            tls_key: Some("/key".into()),
        }
    }

    #[test]
    fn a_token_file_goes_with_the_token_of_its_layer() {
        let file = |path: &str| Settings { token_file: Some(path.into()), ..Settings::default() };
        let token = |text: &str| Settings { token: Token::new(text).ok(), ..Settings::default() };
        assert_eq!(file("/t").or(token("under")), file("/t"));
        assert_eq!(token("over").or(file("/t")), token("over"));
        assert_eq!(Settings::default().or(file("/t")), file("/t"));
        assert!(file("/t").config().unwrap().token_source.is_some());
        let both = Settings { token: Token::new("t").ok(), ..file("/t") };
        assert!(both.config().unwrap_err().to_string().contains("set one of them"));
        let elsewhere = Settings { address: Some("example.com:1".parse().unwrap()), ..file("/t") };
        assert!(elsewhere.config().unwrap().check().is_err(), "it would be sent in plain text");
    }

    #[test]
    fn config_file_can_set_everything_that_the_environment_can() {
        let text = "address = \"https://h:1\"\nthread_id = \"t\"\ntoken = \"s3cret\"\ntls_ca = \"/ca\"\n\
                    tls_cert = \"/cert\"\ntls_key = \"/key\"\n";
        let file = Settings::parse(text).unwrap();
        assert!(!format!("{file:?}").contains("s3cret"), "{file:?}");
        assert_eq!(file, all());
        assert_eq!(Settings::parse("# nothing yet\n"), Ok(Settings::default()));
        // The server's table is not checked here.
        assert_eq!(Settings::parse("[serve]\nlisten = 7\n"), Ok(Settings::default()));
    }

    #[test]
    fn errors_in_a_config_file_are_reported_with_their_line() {
        for (text, why) in [
            (
                "thread_id = \"t\"\nadress = \"h:1\"\n",
                "line 2: unknown field `adress`, expected one of `address`, `thread_id`, `token`",
            ),
            ("\n\naddress = \"host\"\n", "line 3: address \"host\": the port is missing"),
            ("thread_id = 7\n", "line 1: invalid type: integer `7`, expected a string"),
            ("\nthread_id = \"a\\nb\"\n", "line 2: thread_id is a text with the control character U+000A"),
            ("token = \"two words\"\n", "line 1: token: it is empty, or it has a character that no token has"),
            ("token = 7\n", "line 1: token: expected a string"),
            ("thread_id = \"t\"\n= 7\n", "line 2: "),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn each_setting_overrides_the_same_setting_of_the_other() {
        let thread =
            |under| Settings { thread_id: Some("over".into()), thread_source: Some("CODEX_THREAD_ID"), ..under };
        let merged = thread(Settings::default()).or(all());
        assert_eq!(merged, thread(all()));
        assert_eq!(merged.thread_source(), Some("CODEX_THREAD_ID"));
    }

    #[test]
    fn plaintext_address_takes_no_tls_settings_from_the_other() {
        let all = all();
        let at = |address: &str| Settings { address: address.parse().ok(), ..Settings::default() };
        let nowhere = Settings { address: None, ..all.clone() };
        for plain in ["127.0.0.1:1", "unix:/p.sock", "http://localhost:1"] {
            let thread_source = Some(CONFIG_FILE);
            let thread = Settings { thread_id: Some("t".into()), thread_source, ..at(plain) };
            for under in [&all, &nowhere, &Settings { tls_ca: None, tls_cert: None, tls_key: None, ..all.clone() }] {
                assert_eq!(at(plain).or(under.clone()), thread, "{plain} over {under:?}");
            }
            // Settings from the same source as the address are meant for it, right or wrong.
            let beside = Settings { tls_ca: Some("/ours".into()), token: Token::new("ours").ok(), ..at(plain) };
            let expected = Settings { thread_id: Some("t".into()), thread_source, ..beside.clone() };
            assert_eq!(beside.or(all.clone()), expected);
        }
        let other = Settings { address: "https://other:1".parse().ok(), ..all.clone() };
        assert_eq!(at("https://other:1").or(all.clone()), other, "TLS settings stay with a TLS address");
        assert_eq!(Settings::default().or(all.clone()), all);
        let local = Settings { token: Token::new("s3cret").ok(), ..at("127.0.0.1:1") };
        assert_eq!(
            at("unix:/p.sock").or(local.clone()).token,
            local.token,
            "the other settings are for plain text too"
        );
    }

    #[test]
    fn config_file_in_its_default_place_may_be_missing() {
        let directory = tempfile::tempdir().unwrap();
        let read = |variable: &str, value: &std::ffi::OsStr| {
            read_config_file_of(None, &|name| (name == variable).then(|| value.to_owned()))
        };
        let here = directory.path().as_os_str();
        for (variable, value) in [("HOME", here), ("HOME", "/dev/null".as_ref()), ("XDG_CONFIG_HOME", here)] {
            assert_eq!(read(variable, value), Ok(None));
        }
        assert!(read("PAUSEWATCH_CONFIG", here).is_err());
    }

    #[test]
    fn conflicting_settings_are_refused_with_what_is_needed() {
        let settings = |address: &str| Settings { address: address.parse().ok(), ..Settings::default() };
        let half = Settings { tls_cert: Some("/cert".into()), ..settings("https://h:1") };
        assert_eq!(half.config().unwrap_err().to_string(), "tls_cert needs tls_key, the file with its key");
        let token = |address: &str| Settings { token: Token::new("s3cret").ok(), ..settings(address) };
        for local in ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/p.sock", "https://example.com:1"] {
            assert_eq!(token(local).config().unwrap().check(), Ok(()), "{local}");
        }
        let error = token("example.com:1").config().unwrap().check().unwrap_err().to_string();
        assert!(error.contains("plain text: use https://") && !error.contains("s3cret"), "{error}");
        let unused = Config { tls: Some(Tls::default()), ..Config::default() };
        assert!(unused.check().unwrap_err().to_string().contains("an address that begins with https://"));
    }

    #[cfg(feature = "cli")]
    #[test]
    fn settings_are_found_as_in_all_libraries() {
        use crate::client::vectors::{cases, check_keys};
        use serde_json::{Map, Value};
        use std::fs;

        let object =
            |value: &Value, key: &str| value.get(key).map_or_else(Map::new, |map| map.as_object().unwrap().clone());
        for case in cases("settings.json") {
            check_keys(&case, &["name", "files", "environment", "config_file", "options", "expect", "error"]);
            let name = &case["name"];
            let directory = tempfile::tempdir().unwrap();
            for (file, content) in object(&case, "files") {
                let path = directory.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content.as_str().unwrap()).unwrap();
            }
            let place = |text: &Value| text.as_str().unwrap().replace("$DIR", directory.path().to_str().unwrap());
            let environment = object(&case, "environment");
            let variable = |name: &str| environment.get(name).map(|value| place(value).into());
            let config_file = case.get("config_file").map(|file| directory.path().join(file.as_str().unwrap()));
            let options = object(&case, "options");
            check_keys(&options.clone().into(), &["address", "thread_id", "token"]);
            let option = |name: &str| options.get(name).map(|value| value.as_str().unwrap());
            let options = Settings {
                address: option("address").map(|address| address.parse().unwrap()),
                thread_id: option("thread_id").map(str::to_owned),
                token: option("token").map(|token| Token::new(token).unwrap()),
                ..Settings::default()
            };
            let loaded = Settings::load(config_file.as_deref(), &variable).map(|others| options.or(others));
            if let Some(parts) = case.get("error") {
                let error = loaded.and_then(|settings| settings.config()?.check()).expect_err(&name.to_string());
                let text = error.to_string();
                assert!(!text.contains("s3cret"), "{name}: {text}");
                for part in parts.as_array().unwrap() {
                    let part = part.as_str().unwrap().to_lowercase();
                    assert!(text.to_lowercase().contains(&part), "{name}: {text:?} has no {part:?}");
                }
                continue;
            }
            let settings = loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
            check_keys(&case["expect"], &["address", "thread_id", "token", "tls_ca"]);
            let known = serde_json::json!({
                "address": settings.address.clone().unwrap_or_default().to_string(),
                "thread_id": settings.thread_id,
                "token": settings.token.as_ref().map(Token::secret),
                "tls_ca": settings.tls_ca,
            });
            for (key, expected) in object(&case, "expect") {
                assert_eq!(known[&key], expected, "{name}: {key}");
            }
        }
    }
}
