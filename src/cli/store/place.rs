//! The store of a command: by default the one that `serve` would use.
use crate::cli::config_sources;
use crate::cli::data_dir::DataDir;
use crate::cli::option_value::OptionValue;
use crate::cli::serve::{etcd_member, etcd_prefix};
use crate::coordinator::store::etcd::Endpoints;
use clap::{Command, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// The options that name it. Those of a fleet have the variables and keys of the config file that `serve` has.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StoreArgs {
    /// Where the state is: in a data directory, or in etcd, shared by the replicas of a fleet [env: PAUSEWATCH_SERVE_STORE]
    /// [default: what the config file says in its table `[serve]`, else embedded].
    #[arg(long, value_name = "STORE")]
    store: Option<Kind>,
    #[command(flatten)]
    data_dir: DataDir,
    #[command(flatten)]
    etcd: EtcdArgs,
}

/// The options of a fleet; each is that of `serve`.
#[derive(Clone, Debug, clap::Args)]
struct EtcdArgs {
    /// A member of the etcd cluster that keeps the state with --store etcd, such as https://etcd-1:2379. Name all members.
    /// Repeatable, or with commas between them [env: PAUSEWATCH_SERVE_ETCD_ENDPOINTS].
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = etcd_member)]
    etcd_endpoints: Vec<String>,
    /// The beginning of the keys of the fleet in etcd [env: PAUSEWATCH_SERVE_ETCD_PREFIX] [default: /pausewatch/].
    #[arg(long, value_name = "PREFIX", value_parser = etcd_prefix)]
    etcd_prefix: Option<String>,
    /// The authorities of the certificates of etcd, a PEM file [env: PAUSEWATCH_SERVE_ETCD_CA] [default: those of the system].
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// The certificate that etcd knows this program by, a PEM file [env: PAUSEWATCH_SERVE_ETCD_CERT].
    #[arg(long, value_name = "FILE")]
    etcd_cert: Option<PathBuf>,
    /// The key of --etcd-cert, a PEM file [env: PAUSEWATCH_SERVE_ETCD_KEY].
    #[arg(long, value_name = "FILE")]
    etcd_key: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Embedded,
    Etcd,
}

/// Where a store is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Directory(PathBuf),
    Fleet(Fleet),
}

/// A fleet, by its etcd.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    pub(super) endpoints: Endpoints,
    pub(super) prefix: String,
}

impl StoreArgs {
    /// The store. `serve`: the definition of that command, whose options the environment and the config file set.
    ///
    /// # Errors
    /// The problems in the environment and the config file, options that do not fit, or that nothing says where the store is.
    pub(super) fn find(self, serve: &Command) -> Result<Place, Vec<String>> {
        let StoreArgs { store, data_dir, etcd } = self;
        if data_dir.is_given() && store == Some(Kind::Etcd) {
            return Err(vec!["--data-dir has no effect with --store etcd: leave one of them out".into()]);
        }
        let in_directory = |data_dir: DataDir| -> Result<Place, Vec<String>> {
            match etcd.is_given() {
                false => Ok(Place::Directory(data_dir.find(serve)?)),
                true => Err(vec!["--etcd-... have no effect without --store etcd: add that, or leave them out".into()]),
            }
        };
        if store == Some(Kind::Embedded) || data_dir.is_given() {
            return in_directory(data_dir);
        }
        let set = config_sources::environment_and_file(serve, data_dir.config())?;
        match (store, value(&set, "store")) {
            (Some(Kind::Etcd), _) => {}
            (_, Some(of_serve)) if of_serve == "etcd" => {}
            (_, Some(of_serve)) if of_serve == "memory" => {
                return Err(vec![
                    "the store of `serve` is `memory`, which keeps nothing: name another one with --store".into(),
                ]);
            }
            _ => return in_directory(data_dir),
        }
        Ok(Place::Fleet(etcd.or(&set)?))
    }
}

impl EtcdArgs {
    fn is_given(&self) -> bool {
        let files = [&self.etcd_ca, &self.etcd_cert, &self.etcd_key];
        !self.etcd_endpoints.is_empty() || self.etcd_prefix.is_some() || files.iter().any(|file| file.is_some())
    }

    /// The fleet that the command line names, else the one that is `set` for `serve`.
    fn or(self, set: &[OptionValue]) -> Result<Fleet, Vec<String>> {
        let text = |value: &OsString| value.to_string_lossy().into_owned();
        let file = |given: Option<PathBuf>, key| given.or_else(|| value(set, key).map(PathBuf::from));
        let urls = match self.etcd_endpoints.is_empty() {
            true => set.iter().rfind(|option| option.key == "etcd_endpoints").map(|option| &option.values[..]),
            false => None,
        };
        let urls = urls.map_or(self.etcd_endpoints, |set| set.iter().map(text).collect());
        if urls.is_empty() {
            return Err(vec!["--store etcd needs --etcd-endpoints, such as http://127.0.0.1:2379".into()]);
        }
        let prefix = self.etcd_prefix.or_else(|| value(set, "etcd_prefix").map(text));
        let (ca, cert) = (file(self.etcd_ca, "etcd_ca"), file(self.etcd_cert, "etcd_cert"));
        let endpoints = Endpoints { urls, ca, cert, key: file(self.etcd_key, "etcd_key") };
        Ok(Fleet { endpoints, prefix: prefix.unwrap_or_else(|| "/pausewatch/".into()) })
    }
}

/// The value of an option of `serve`, where it is set.
fn value<'a>(set: &'a [OptionValue], key: &str) -> Option<&'a OsString> {
    set.iter().rfind(|option| option.key == key)?.values.first()
}
