//! `backup`, `restore` and `check`: a copy is of one moment, even of a store in use, and a bad copy loses no data.
mod at_once;
mod epoch;
mod fixture;

use crate::program::{Ended, ended, program};
use crate::support::{Api, Process, skipped, timed};
use fastrand::Rng;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Runs the program on a data directory.
fn pausewatch(command: &str, directory: &Path, arguments: &[&str]) -> Ended {
    ended(program().arg(command).arg("--data-dir").arg(directory).args(arguments))
}

fn succeeds(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out
}

fn fails(ended: Ended, why: &str) {
    assert!(ended.code == Some(1) && ended.err.contains(why), "{why:?}: {ended:?}");
}

async fn serve(directory: &Path) -> Process {
    let listen = format!("unix:{}", directory.with_extension("sock").display());
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || Process::serve(&directory, &listen)).await.unwrap()
}

/// The files beneath a directory, with a hash of their content, without the file that says who had the store open last.
fn files(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        match kind {
            kind if kind.is_dir() => found.extend(files(&path)),
            kind if kind.is_file() && entry.file_name() != "lock" => {
                let mut hasher = std::hash::DefaultHasher::new();
                std::fs::read(&path).unwrap().hash(&mut hasher);
                found.insert(path, hasher.finish());
            }
            _ => {}
        }
    }
    found
}

/// A temporary directory for data directories and backups.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// The number of concurrent callers.
const CALLERS: usize = 8;
/// The maximum number of elicitations of a thread.
const MOST: u32 = 990;

/// What one caller has requested and what was acknowledged: increments of its threads `a` and `b`, alternately.
#[derive(Default)]
struct Book {
    asked: AtomicU32,
    told: AtomicU32,
}

async fn call(mut api: Api, caller: usize, book: Arc<Book>, over: Arc<AtomicBool>) {
    for turn in 0..2 * MOST {
        if over.load(SeqCst) {
            break;
        }
        book.asked.fetch_add(1, SeqCst);
        let thread = format!("{}{caller}", if turn % 2 == 0 { 'a' } else { 'b' });
        if api.try_increment(&thread, "", None).await.is_err() {
            break;
        }
        book.told.fetch_add(1, SeqCst);
    }
}

/// G5: a backup that is made under load, of a server that is then killed, has every change that was acknowledged before
/// the request, and no change without those before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_the_store_at_one_moment() {
    let mut random = Rng::with_seed(std::process::id().into());
    for round in 0..4 {
        let place = Place::new();
        let server = serve(&place.path("data")).await;
        let (over, mut callers) = (Arc::<AtomicBool>::default(), tokio::task::JoinSet::new());
        let books: Vec<_> = (0..CALLERS).map(|_| Arc::<Book>::default()).collect();
        for (caller, book) in books.iter().enumerate() {
            callers.spawn(call(server.api().await, caller, book.clone(), over.clone()));
        }
        let until = 20 + random.u32(..300);
        let under_way = async {
            while books[0].told.load(SeqCst) < until {
                tokio::task::yield_now().await;
            }
        };
        timed("the callers", under_way).await;
        let told: Vec<_> = books.iter().map(|book| book.told.load(SeqCst)).collect();
        let (data, backup) = (place.path("data"), place.text("backup"));
        let made = tokio::task::spawn_blocking(move || pausewatch("backup", &data, &[&backup])).await.unwrap();
        let asked: Vec<_> = books.iter().map(|book| book.asked.load(SeqCst)).collect();
        succeeds(made);
        server.kill();
        over.store(true, SeqCst);
        timed("the callers", callers.join_all()).await;

        succeeds(pausewatch("restore", &place.path("restored"), &[&place.text("backup")]));
        let restored = serve(&place.path("restored")).await;
        let mut api = restored.api().await;
        for caller in 0..CALLERS {
            let a = api.get(&format!("a{caller}")).await.count;
            let b = api.get(&format!("b{caller}")).await.count;
            let what =
                format!("round {round}, caller {caller}: {a} and {b}; {} told, {} asked", told[caller], asked[caller]);
            assert!(a == b || a == b + 1, "a change is present without the one before it: {what}");
            assert!((told[caller]..=asked[caller]).contains(&(a + b)), "{what}");
        }
        // The store that was backed up is intact.
        succeeds(pausewatch("check", &place.path("data"), &[]));
    }
}

/// Leftovers of unfinished backups.
fn drafts(place: &Place) -> Vec<String> {
    let names = std::fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.contains("partial")).collect()
}

/// A server that signals `asked` at the request for `backup`, sends it when it gets `finish`, and refuses three other
/// requests meanwhile.
fn one_at_a_time(socket: &Path, backup: Vec<u8>, asked: Sender<()>, finish: Receiver<()>) -> JoinHandle<()> {
    use std::io::{Read, Write};
    let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let next = || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 64]).unwrap();
            connection
        };
        let mut first = next();
        asked.send(()).unwrap();
        let (half, rest) = backup.split_at(backup.len() / 2);
        first.write_all(b"ok\n").and_then(|()| first.write_all(half)).unwrap();
        for _ in 0..3 {
            next().write_all(b"error a backup is being made already\n").unwrap();
        }
        finish.recv().unwrap();
        first.write_all(rest).unwrap();
    })
}

/// Refused requests do not disturb the backup that is being made. A file in its place passes on neither its mode nor
/// its owner.
#[tokio::test]
async fn backups_to_one_name_leave_each_other_alone() {
    let place = Place::new();
    let (data, backup) = (place.path("data"), place.text("backup"));
    let server = serve(&data).await;
    server.api().await.increment("t", None).await;
    let lying_there = place.path("backup.partial");
    std::fs::write(&lying_there, "somebody's").unwrap();
    std::fs::set_permissions(&lying_there, std::fs::Permissions::from_mode(0o644)).unwrap();
    succeeds(pausewatch("backup", &data, &[&backup]));
    let mode = std::fs::metadata(&backup).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner can read it");
    assert_eq!(std::fs::read(&lying_there).unwrap(), b"somebody's");
    std::fs::remove_file(lying_there).unwrap();

    std::fs::remove_file(data.join("control")).unwrap();
    let whole = std::fs::read(&backup).unwrap();
    let ((asked, was_asked), (finish, told)) = (channel(), channel());
    let answers = one_at_a_time(&data.join("control"), whole.clone(), asked, told);
    let mut command = program();
    command.args(["backup", "--data-dir"]).arg(&data).arg(&backup);
    let first = crate::program::Process::start(command);
    was_asked.recv().unwrap();
    assert_eq!(drafts(&place).len(), 1);
    for _ in 0..3 {
        fails(pausewatch("backup", &data, &[&backup]), "a backup is being made already");
    }
    finish.send(()).unwrap();
    assert_eq!(first.end().code, Some(0));
    answers.join().unwrap();
    assert_eq!(std::fs::read(&backup).unwrap(), whole);
    assert_eq!(drafts(&place), [""; 0]);
}

/// If the server is killed during a backup, no incomplete backup is left.
#[tokio::test]
async fn half_a_backup_gets_no_name() {
    let place = Place::new();
    let server = serve(&place.path("data")).await;
    let mut api = server.api().await;
    api.increment("t", None).await;
    // A server of another version, or one that closes the connection.
    std::fs::remove_file(place.path("data").join("control")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(place.path("data").join("control")).unwrap();
    let answers = std::thread::spawn(move || {
        use std::io::{Read, Write};
        for answer in [&b"ok\npausewatch backup\nh"[..], b"error it does not like to\n", b""] {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 64]).unwrap();
            connection.write_all(answer).unwrap();
        }
    });
    std::fs::write(place.path("backup"), "what was there before").unwrap();
    for why in ["the backup was cut off", "it does not like to", "the server ended"] {
        fails(pausewatch("backup", &place.path("data"), &[&place.text("backup")]), why);
    }
    answers.join().unwrap();
    assert_eq!(std::fs::read(place.path("backup")).unwrap(), b"what was there before");
    assert_eq!(drafts(&place), [""; 0]);
    std::fs::remove_file(place.path("data").join("control")).unwrap();
    fails(pausewatch("backup", &place.path("data"), &[&place.text("backup")]), "it does not take questions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_regular_file_is_replaced_by_a_backup() {
    let place = Place::new();
    serve(&place.path("data")).await.kill();
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).expect("a short path");
    fails(pausewatch("backup", &place.path("data"), &[&place.text("socket")]), "socket: is not a regular file");
    std::os::unix::net::UnixStream::connect(place.path("socket")).expect("it is still there");
    std::fs::write(place.path("file"), "of before").expect("there is space");
    succeeds(pausewatch("backup", &place.path("data"), &[&place.text("file")]));
    succeeds(ended(program().arg("check").arg(place.path("file"))));
}

/// A link may lead to another disk, and its name may be all that others know.
#[tokio::test]
async fn a_backup_to_a_link_replaces_its_target() {
    let place = Place::new();
    let data = place.path("data");
    serve(&data).await.kill();
    std::fs::create_dir(place.path("disk")).expect("there is space");
    std::os::unix::fs::symlink("disk/backup", place.path("latest")).expect("a new name");
    for target in ["does not exist yet", "exists"] {
        succeeds(pausewatch("backup", &data, &[&place.text("latest")]));
        assert!(place.path("latest").is_symlink(), "{target}");
        assert!(!place.path("disk/backup").is_symlink(), "{target}");
        succeeds(ended(program().arg("check").arg(place.path("disk/backup"))));
        std::fs::write(place.path("disk/backup"), "of before").expect("there is space");
    }
    // The link leads to a file of the store.
    std::os::unix::fs::symlink("data/lock", place.path("mistyped")).expect("a new name");
    fails(pausewatch("backup", &data, &[&place.text("mistyped")]), "is a name of the store");
}

/// Everybody may put a link into a shared folder.
#[tokio::test]
async fn a_backup_does_not_follow_the_link_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return skipped("links of another user", "only root can make one".to_owned());
    }
    let place = Place::new();
    let data = place.path("data");
    serve(&data).await.kill();
    std::fs::write(place.path("of root"), "kept").expect("there is space");
    std::os::unix::fs::symlink("of root", place.path("backup")).expect("a new name");
    std::os::unix::fs::lchown(place.path("backup"), Some(65_534), None).expect("this is root");
    fails(pausewatch("backup", &data, &[&place.text("backup")]), "is a link of another user (uid 65534)");
    assert_eq!(std::fs::read_to_string(place.path("of root")).unwrap(), "kept");
}

/// Otherwise every later change would be acknowledged, and lost.
#[tokio::test]
async fn g5_a_server_whose_data_directory_is_gone_stops_at_once() {
    for harm in ["deleted", "moved", "replaced"] {
        for changes in [false, true] {
            let place = Place::new();
            let data = place.path("data");
            let server = serve(&data).await;
            let mut api = server.api().await;
            api.increment("t", None).await;
            match harm {
                "deleted" => std::fs::remove_dir_all(&data).unwrap(),
                "moved" => std::fs::rename(&data, place.path("aside")).unwrap(),
                _ => {
                    let other = Place::new();
                    serve(&other.path("data")).await.kill();
                    std::fs::rename(&data, place.path("aside")).unwrap();
                    let copied = std::process::Command::new("cp").arg("-r").arg(other.path("data")).arg(&data).status();
                    assert!(copied.unwrap().success());
                }
            }
            if changes {
                let after = api.try_increment("u", "", None).await;
                assert!(after.is_err(), "{harm}: it is acknowledged: {after:?}");
            }
            let (status, said) = tokio::task::spawn_blocking(move || server.end()).await.unwrap();
            assert_eq!(status.code(), Some(1), "{said}");
            // Between the two steps of a replacement, it is deleted.
            assert!(said.contains("was deleted") || (harm == "replaced" && said.contains("was replaced")), "{said}");
            for part in [&*data.to_string_lossy(), "pausewatch restore"] {
                assert!(said.contains(part), "{harm}: {said}");
            }
        }
    }
}

/// A mistyped path must not replace the store by its own backup.
#[tokio::test]
async fn a_backup_over_a_file_of_a_store_is_refused() {
    let place = Place::new();
    let data = place.path("data");
    let server = serve(&data).await;
    server.api().await.increment("t", None).await;
    std::os::unix::fs::symlink(&data, place.path("link")).unwrap();
    let of_the_store: Vec<_> = files(&data).into_keys().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert!(of_the_store.len() >= 4, "database, journal, reserve: {of_the_store:?}");
    let others = ["lock", "journal-7", "journal.new", "pausewatch.redb.new", "restoring"];
    let refused = |when: &str| {
        for name in of_the_store.iter().map(|name| name.to_str().unwrap()).chain(others) {
            for directory in ["data", "link"] {
                let file = place.text(&format!("{directory}/{name}"));
                let ended = pausewatch("backup", &data, &[&file]);
                assert!(ended.code == Some(1) && ended.err.contains("is a name of the store"), "{when}: {ended:?}");
            }
        }
    };
    refused("while it is served");
    server.kill();
    let before = files(&data);
    refused("while it is not");
    // Also from another directory, and where the path has no directory.
    fails(ended(program().current_dir(&data).args(["backup", "--data-dir", ".", "lock"])), "is a name of the store");
    assert_eq!(files(&data), before);
    assert!(succeeds(pausewatch("check", &data, &[])).contains("1 thread, 1 paused"));
    // Any other name is accepted, also there; and these names are accepted where there is no store.
    for file in ["data/monday", "lock", "pausewatch.redb"] {
        succeeds(pausewatch("backup", &data, &[&place.text(file)]));
    }
}

/// G6: a client that has seen states later than the backup accepts those of the restored server as newer.
#[tokio::test]
async fn g6_revisions_go_on_above_what_was_seen_after_the_backup() {
    let place = Place::new();
    let server = serve(&place.path("data")).await;
    let mut api = server.api().await;
    api.increment("t", None).await;
    let backup = place.text("backup");
    succeeds(pausewatch("backup", &place.path("data"), &[&backup]));
    let mut seen = 0;
    for _ in 0..20 {
        seen = api.increment("t", None).await.revision;
    }
    server.kill();
    let mut last = seen;
    for _ in 0..2 {
        succeeds(pausewatch("restore", &place.path("data"), &[&backup, "--force"]));
        let server = serve(&place.path("data")).await;
        let mut api = server.api().await;
        let restored = api.get("t").await;
        assert_eq!((restored.count, restored.paused), (1, true));
        assert!(restored.revision > last, "{} after {last}", restored.revision);
        last = api.increment("t", None).await.revision;
        assert_eq!(last, restored.revision + 1);
        assert!(api.increment("never named before", None).await.revision > seen);
        server.signal(Signal::TERM);
        // The second restore begins at a later second than the first one.
        let second = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        tokio::task::spawn_blocking(|| server.end()).await.unwrap();
        while std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() == second {
            tokio::task::yield_now().await;
        }
    }
}

/// Root restores where the user of a service exists only while the service runs.
#[test]
fn what_root_restores_belongs_to_the_owner_of_the_directory() {
    if !rustix::process::geteuid().is_root() {
        return skipped("other-user", "only root can give files to another user");
    }
    let place = Place::new();
    let (data, backup) = (place.path("data"), place.text("backup"));
    drop(pausewatch::test_support::store::Embedded::open(&data, 7).unwrap());
    succeeds(pausewatch("backup", &data, &[&backup]));
    for path in std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).chain([data.clone()]) {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    // A symbolic link in place of a file makes root write nowhere else.
    let (lock, other) = (data.join("lock"), place.path("other"));
    std::fs::write(&other, "of root").unwrap();
    std::fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(&other, &lock).unwrap();
    fails(pausewatch("restore", &data, &[&backup, "--force"]), "lock");
    assert_eq!((std::fs::read(&other).unwrap(), std::fs::metadata(&other).unwrap().uid()), (b"of root".to_vec(), 0));
    std::fs::remove_file(&lock).unwrap();
    succeeds(pausewatch("restore", &data, &[&backup, "--force"]));
    for entry in std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap()) {
        let owner = entry.metadata().unwrap();
        assert_eq!((owner.uid(), owner.gid()), (65_534, 65_534), "{entry:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_there_or_in_use_is_not_restored_over() {
    let place = Place::new();
    let (data, backup) = (place.path("data"), place.text("backup"));
    let server = serve(&data).await;
    server.api().await.increment("t", None).await;
    succeeds(pausewatch("backup", &data, &[&backup]));
    for command in ["restore", "check"] {
        let arguments: &[&str] = if command == "restore" { &[&backup, "--force"] } else { &[] };
        fails(pausewatch(command, &data, arguments), "another pausewatch has this data directory open");
    }
    // People do this when they think that the file is left over from a dead process.
    std::fs::remove_file(data.join("lock")).unwrap();
    for command in ["restore", "check", "serve"] {
        let arguments: &[&str] = match command {
            "restore" => &[&backup, "--force"],
            "serve" => &["--listen", "127.0.0.1:0"],
            _ => &[],
        };
        fails(pausewatch(command, &data, arguments), "another pausewatch has this data directory open");
    }
    server.kill();
    let before = files(&data);
    fails(pausewatch("restore", &data, &[&backup]), "there is a store already");
    fails(ended(program().arg("check").arg(&data)), "is a directory; name a data directory with --data-dir");
    let elsewhere =
        ended(program().arg("check").env("PAUSEWATCH_SERVE_STORE", "etcd").env("PAUSEWATCH_DATA_DIR", &data));
    assert!(elsewhere.code == Some(2) && elsewhere.err.contains("the store of `serve` is `etcd`"), "{elsewhere:?}");
    let mut damaged = std::fs::read(&backup).unwrap();
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    std::fs::write(place.path("damaged"), &damaged).unwrap();
    fails(
        pausewatch("restore", &data, &[&place.text("damaged"), "--force"]),
        &format!("pausewatch restore: {}: the backup is damaged. Nothing was changed", place.text("damaged")),
    );
    fails(ended(program().arg("check").arg(place.path("damaged"))), "the backup is damaged");
    let piped = |path: &str| ended(program().args(["check", "-"]).stdin(std::fs::File::open(path).unwrap()));
    assert!(succeeds(piped(&backup)).starts_with("-: sound. Backup of "));
    fails(piped(&place.text("damaged")), "-: the backup is damaged");
    assert_eq!(files(&data), before, "nothing was changed");
    // The old store is moved aside.
    let told = succeeds(pausewatch("restore", &data, &[&backup, "--force"]));
    let (_, aside) = told.trim().rsplit_once("what was there before is in ").unwrap();
    succeeds(pausewatch("check", Path::new(aside), &[]));
    let is_journal = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("journal-");
    for (path, contents) in files(Path::new(aside)) {
        assert_eq!(before[&data.join(path.file_name().unwrap())], contents, "{}", path.display());
    }
    assert!(files(&data).keys().any(|path| is_journal(path)));
}

#[tokio::test]
async fn a_restore_that_was_not_finished_is_not_served() {
    let place = Place::new();
    let data = place.path("data");
    std::fs::create_dir_all(data.join("restoring")).unwrap();
    let started = pausewatch("serve", &data, &["--listen", "127.0.0.1:0"]);
    fails(started, "a restore was not finished. Run `pausewatch restore --force` again");
    let server = serve(&place.path("other")).await;
    server.api().await.increment("t", None).await;
    let backup = place.text("backup");
    succeeds(pausewatch("backup", &place.path("other"), &[&backup]));
    succeeds(pausewatch("restore", &data, &[&backup]));
    assert_eq!(serve(&data).await.api().await.get("t").await.count, 1);
}

#[tokio::test]
async fn a_check_changes_nothing_and_says_what_is_wrong() {
    let place = Place::new();
    let data = place.path("data");
    fails(pausewatch("check", &data, &[]), "there is no such directory");
    std::fs::create_dir(&data).unwrap();
    fails(pausewatch("check", &data, &[]), "there is no store in it");
    assert_eq!(files(&data), BTreeMap::new());
    let server = serve(&data).await;
    let mut api = server.api().await;
    for _ in 0..3 {
        api.increment("t", None).await;
    }
    // All of it is in the journal, and the database was not closed.
    server.kill();
    let before = files(&data);
    let told = succeeds(pausewatch("check", &data, &[]));
    for part in ["sound. Format 1", "1 thread, 1 paused", "3 open elicitations", "revisions up to 3"] {
        assert!(told.contains(part), "{told:?} does not say {part:?}");
    }
    let backup = place.text("backup");
    assert!(succeeds(pausewatch("backup", &data, &[&backup])).contains("1 thread, 3 open elicitations"));
    assert_eq!(files(&data), before);
    let whole = std::fs::read(data.join("journal-1")).unwrap();
    std::fs::write(data.join("journal-1"), vec![0xff; whole.len()]).unwrap();
    fails(pausewatch("check", &data, &[]), "file journal-1 was overwritten. The store is damaged");
    std::fs::write(data.join("journal-1"), &whole[..whole.len() / 2]).unwrap();
    let before = files(&data);
    fails(pausewatch("check", &data, &[]), "file journal-1 was cut. The store is damaged");
    std::fs::remove_file(data.join("pausewatch.redb")).unwrap();
    fails(pausewatch("check", &data, &[]), "there is a journal, and the database is gone");
    assert_eq!(files(&data).len(), before.len() - 1);
}
