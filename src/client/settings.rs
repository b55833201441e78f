//! Where the coordinator is, which thread is ours, and what we prove ourselves with: the environment over the config
//! file. A program's flags go over both.
//!
//! 1. A variable that is set and empty counts as not set, and so does an empty address in the file.
//! 2. A file that was named must be there; the one in its usual place may be missing.
//! 3. A key that is unknown is refused, with its name and line: a typing error must not quietly mean the default.
//! 4. What is for TLS stays there: an address in plain text that goes over settings for TLS (an `https://` address, or files
//!    of certificates) has nothing of theirs, neither their files nor their token. They are another coordinator's.
use super::{Address, Config, Tls, Token};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::{env, fs, io::ErrorKind, path::Path, path::PathBuf};

/// What is wrong in the environment, in the config file or in a [`Config`], and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The settings that every program and library of pausewatch shares.
///
/// | key of the config file | variable |
/// | --- | --- |
/// | `address` | `PAUSEWATCH_ADDRESS` |
/// | `thread_id` | `PAUSEWATCH_THREAD_ID` |
/// | `token` | `PAUSEWATCH_TOKEN` |
/// | `tls_ca`, `tls_cert`, `tls_key` | `PAUSEWATCH_TLS_CA`, `PAUSEWATCH_TLS_CERT`, `PAUSEWATCH_TLS_KEY` |
///
/// The config file is TOML: the one that `PAUSEWATCH_CONFIG` names, else `pausewatch/config.toml` in
/// `$XDG_CONFIG_HOME`, else in `~/.config`. Its table `[serve]` is the server's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "File")]
#[non_exhaustive]
pub struct Settings {
    /// Where the coordinator listens; `None`: nobody said it.
    pub address: Option<Address>,
    /// The thread to work on.
    pub thread_id: Option<String>,
    /// Proves to the coordinator who we are.
    pub token: Option<Token>,
    /// The certificates to trust instead of the system's: a PEM file.
    pub tls_ca: Option<PathBuf>,
    /// Our own certificate chain: a PEM file.
    pub tls_cert: Option<PathBuf>,
    /// Its key: a PEM file.
    pub tls_key: Option<PathBuf>,
}

/// The config file as it is written: our settings, and tables that are for others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, deserialize_with = "parsed")]
    address: Option<Address>,
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
        Self { address, thread_id, token, tls_ca, tls_cert, tls_key }
    }
}

impl Settings {
    /// What the environment says, and for the rest the config file.
    ///
    /// # Errors
    /// One of them is wrong; the text says which, and where.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_env_and(None)
    }

    /// The same, with a config file that was named otherwise.
    ///
    /// # Errors
    /// As [`Settings::from_env`].
    pub fn from_env_and(config_file: Option<&Path>) -> Result<Self, ConfigError> {
        Ok(Self::variables()?.or(Self::file(config_file)?))
    }

    /// Each setting of `self`, or if it has none, that of `other`. If `self` has an address in plain text, and `other` is for
    /// TLS (an `https://` address, or files of certificates), only the thread is taken from `other`: what proves us to one
    /// coordinator is not sent to another one in plain text.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let other = match self.is_in_plain_text() && other.is_for_tls() {
            true => Self { thread_id: other.thread_id, ..Self::default() },
            false => other,
        };
        Self {
            address: self.address.or(other.address),
            thread_id: self.thread_id.or(other.thread_id),
            token: self.token.or(other.token),
            tls_ca: self.tls_ca.or(other.tls_ca),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
        }
    }

    fn is_in_plain_text(&self) -> bool {
        self.address.as_ref().is_some_and(|address| !address.is_encrypted())
    }

    fn is_for_tls(&self) -> bool {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key];
        self.address.as_ref().is_some_and(Address::is_encrypted) || files.iter().any(|file| file.is_some())
    }

    /// A client's configuration: the certificates are read.
    ///
    /// # Errors
    /// A certificate without its key, or a file that cannot be read.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some((cert.as_path(), key.as_path())),
            (None, None) => None,
            (Some(_), None) => return Err(ConfigError::new("tls_cert needs tls_key, the file with its key")),
            (None, Some(_)) => return Err(ConfigError::new("tls_key needs tls_cert, the file with its certificate")),
        };
        let tls = match (&self.tls_ca, identity) {
            (None, None) => None,
            (ca, identity) => Some(Tls::load(ca.as_deref(), identity)?),
        };
        let (address, token) = (self.address.clone().unwrap_or_default(), self.token.clone());
        Ok(Config { address, token, tls, ..Config::default() })
    }

    fn variables() -> Result<Self, ConfigError> {
        let text = |name: &str| match env::var(name) {
            Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err(ConfigError::new(format!("{name}: not UTF-8"))),
        };
        let in_variable = |name: &str, why: String| ConfigError::new(format!("{name}: {why}"));
        let address = text("PAUSEWATCH_ADDRESS")?.map(|text| text.parse()).transpose();
        let token = text("PAUSEWATCH_TOKEN")?.map(|text| Token::new(&text)).transpose();
        Ok(Self {
            address: address.map_err(|why: super::AddressError| in_variable("PAUSEWATCH_ADDRESS", why.to_string()))?,
            thread_id: text("PAUSEWATCH_THREAD_ID")?,
            token: token.map_err(|why| in_variable("PAUSEWATCH_TOKEN", why.to_string()))?,
            tls_ca: path("PAUSEWATCH_TLS_CA"),
            tls_cert: path("PAUSEWATCH_TLS_CERT"),
            tls_key: path("PAUSEWATCH_TLS_KEY"),
        })
    }

    fn file(named: Option<&Path>) -> Result<Self, ConfigError> {
        match config_file(named)? {
            Some((path, text)) => Self::parse(&text).map_err(|why| in_file(&path, &why)),
            None => Ok(Self::default()),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let why = error.message().trim().replace('\n', ", ");
            format!("line {}: {why}", before.matches('\n').count() + 1)
        })
    }
}

/// The config file that is read, if there is one: where it is, and what stands in it.
pub(crate) fn config_file(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = named.map(Path::to_owned).or_else(|| path("PAUSEWATCH_CONFIG"));
    let must_exist = named.is_some();
    let Some(path) = named.or_else(usual_place) else { return Ok(None) };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
        Err(error) => Err(in_file(&path, &error.to_string())),
    }
}

fn in_file(path: &Path, why: &str) -> ConfigError {
    ConfigError::new(format!("config file {}: {why}", path.display()))
}

fn parsed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Address>, D::Error> {
    let text = String::deserialize(from)?;
    (!text.is_empty()).then(|| text.parse()).transpose().map_err(D::Error::custom)
}

fn token<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Token>, D::Error> {
    Token::new(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

fn usual_place() -> Option<PathBuf> {
    // The XDG base directory specification: a relative path is to be ignored.
    let config = path("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    Some(config.or_else(|| Some(path("HOME")?.join(".config")))?.join("pausewatch/config.toml"))
}

fn path(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_file_says_all_that_the_environment_may_say() {
        let text = "address = \"https://h:1\"\nthread_id = \"t\"\ntoken = \"s3cret\"\ntls_ca = \"/ca\"\n\
                    tls_cert = \"/cert\"\ntls_key = \"/key\"\n";
        let file = Settings::parse(text).unwrap();
        assert!(!format!("{file:?}").contains("s3cret"), "{file:?}");
        let expected = Settings {
            address: "https://h:1".parse().ok(),
            thread_id: Some("t".into()),
            token: Token::new("s3cret").ok(),
            tls_ca: Some("/ca".into()),
            tls_cert: Some("/cert".into()),
            tls_key: Some("/key".into()),
        };
        assert_eq!(file, expected);
        assert_eq!(Settings::parse("# nothing yet\n"), Ok(Settings::default()));
        // What is the server's is not ours to judge.
        assert_eq!(Settings::parse("[serve]\nlisten = 7\n"), Ok(Settings::default()));
    }

    #[test]
    fn what_is_wrong_in_a_config_file_is_named_with_its_line() {
        for (text, why) in [
            (
                "thread_id = \"t\"\nadress = \"h:1\"\n",
                "line 2: unknown field `adress`, expected one of `address`, `thread_id`, `token`",
            ),
            ("\n\naddress = \"host\"\n", "line 3: address \"host\": the port is missing"),
            ("thread_id = 7\n", "line 1: invalid type: integer `7`, expected a string"),
            ("token = \"two words\"\n", "line 1: token: it has a character that no token has"),
            ("thread_id = \"t\"\n= 7\n", "line 2: "),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn each_setting_goes_over_that_of_the_other() {
        let (over, under) = (
            Settings { thread_id: Some("over".into()), ..Settings::default() },
            Settings { thread_id: Some("under".into()), tls_ca: Some("/ca".into()), ..Settings::default() },
        );
        assert_eq!(over.or(under.clone()), Settings { thread_id: Some("over".into()), ..under });
    }

    #[test]
    fn an_empty_address_in_the_file_counts_as_not_set() {
        let file: File = toml::from_str("address = \"\"\nthread_id = \"t\"\n").unwrap();
        assert_eq!(Settings::from(file), Settings { thread_id: Some("t".into()), ..Settings::default() });
    }

    #[test]
    fn an_address_in_plain_text_has_nothing_of_what_is_for_tls() {
        let all = Settings {
            address: "https://fleet:1".parse().ok(),
            thread_id: Some("t".into()),
            token: Token::new("s3cret").ok(),
            tls_ca: Some("/ca".into()),
            tls_cert: Some("/cert".into()),
            tls_key: Some("/key".into()),
        };
        let at = |address: &str| Settings { address: address.parse().ok(), ..Settings::default() };
        let nowhere = Settings { address: None, ..all.clone() };
        for plain in ["127.0.0.1:1", "unix:/p.sock", "http://localhost:1"] {
            let thread = Settings { thread_id: Some("t".into()), ..at(plain) };
            for under in [&all, &nowhere, &Settings { tls_ca: None, tls_cert: None, tls_key: None, ..all.clone() }] {
                assert_eq!(at(plain).or(under.clone()), thread, "{plain} over {under:?}");
            }
            // What stands beside it is meant for it, wrong or right.
            let beside = Settings { tls_ca: Some("/ours".into()), token: Token::new("ours").ok(), ..at(plain) };
            let expected = Settings { thread_id: Some("t".into()), ..beside.clone() };
            assert_eq!(beside.or(all.clone()), expected);
        }
        let other = Settings { address: "https://other:1".parse().ok(), ..all.clone() };
        assert_eq!(at("https://other:1").or(all.clone()), other, "what goes over TLS stays");
        assert_eq!(Settings::default().or(all.clone()), all);
        let local = Settings { token: Token::new("s3cret").ok(), ..at("127.0.0.1:1") };
        assert_eq!(at("unix:/p.sock").or(local.clone()).token, local.token, "in plain text before, too");
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_what_would() {
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
}
