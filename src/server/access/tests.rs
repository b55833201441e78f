use super::mint::{Pair, Signer, Token};
use super::*;
use crate::clock::Manual;
use crate::core::Timestamp;
use std::task::Poll;

const SECOND: i64 = 1_000_000_000;
const START: Timestamp = Timestamp { boot: 0, wall: 1_000 * SECOND };

struct Site {
    directory: tempfile::TempDir,
    clock: Arc<Manual>,
    signer: Signer,
    access: Arc<Access>,
}

/// One static token until 1,010 s, one for ever, and JSON web tokens.
fn site() -> Site {
    let directory = tempfile::tempdir().unwrap();
    let pair = Pair::generate().unwrap();
    let (tokens, keys) = (directory.path().join("tokens"), directory.path().join("keys"));
    std::fs::write(&keys, &pair.public).unwrap();
    std::fs::write(&tokens, ["short", "long"].map(entry).concat()).unwrap();
    let clock = Arc::new(Manual::new(START, 1));
    let config = AccessConfig { tokens: Some(tokens), jwt: Some(JwtConfig::new(keys)), given: Vec::new() };
    let access = Access::load(config, clock.clone()).unwrap();
    Site { directory, clock, signer: Signer::from_pem(&pair.private).unwrap(), access }
}

fn entry(name: &str) -> String {
    let expires = if name == "short" { "expires = 1970-01-01T00:16:50Z\n" } else { "" };
    format!(
        "[[token]]\nsubject = \"{name}\"\nrole = \"holder\"\nthreads = [\"t\"]\nsecret = \"a-secret-that-is-{name}\"\n{expires}"
    )
}

impl Site {
    fn ask(&self, token: &str) -> Result<Arc<Caller>, Denial> {
        self.access.authenticate([format!("Bearer {token}").as_bytes()])
    }

    fn jwt(&self) -> String {
        let token = Token { subject: "jwt".into(), role: Role::Watcher, threads: vec![], prefixes: vec!["a".into()] };
        self.signer.sign(&token, Duration::from_secs(1_000), Duration::from_secs(10)).unwrap()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.directory.path().join(name), text).unwrap();
        self.access.reload()
    }
}

/// An editor empties a file before it writes the new content.
#[test]
fn an_empty_file_revokes_nothing_unless_it_says_so() {
    let site = site();
    for empty in ["", "# later\n"] {
        assert!(site.write("tokens", empty).is_err_and(|why| why.contains("token = []")));
        assert!(site.ask("a-secret-that-is-long").is_ok());
    }
    assert_eq!(site.write("tokens", "token = []\n"), Ok(()));
    assert!(site.ask("a-secret-that-is-long").is_err());
    assert_eq!(site.write("tokens", ""), Ok(()), "the file was empty before");
}

#[test]
fn a_caller_is_who_its_token_says_until_it_ends() {
    let site = site();
    let jwt = site.jwt();
    for (token, subject) in [("a-secret-that-is-short", "short"), (jwt.as_str(), "jwt")] {
        // The second attempt uses the cache.
        for _ in 0..2 {
            assert_eq!(site.ask(token).unwrap().subject(), subject);
        }
    }
    site.clock.advance(Duration::from_secs(10) - Duration::from_nanos(1));
    assert!(site.ask(&jwt).is_ok() && site.ask("a-secret-that-is-short").is_ok());
    site.clock.advance(Duration::from_nanos(1));
    for token in ["a-secret-that-is-short", &jwt] {
        assert_eq!(site.ask(token), Err(Denial::Expired), "{token}");
    }
    assert!(site.ask("a-secret-that-is-long").is_ok());
}

#[test]
fn a_header_is_bearer_and_a_token_and_there_is_one() {
    let site = site();
    let ask = |headers: &[&str]| site.access.authenticate(headers.iter().map(|header| header.as_bytes()));
    for header in ["Bearer a-secret-that-is-long", "bearer a-secret-that-is-long", "BEARER  a-secret-that-is-long "] {
        assert!(ask(&[header]).is_ok(), "{header}");
    }
    assert_eq!(ask(&[]), Err(Denial::Missing));
    let wrong = [
        "",
        "Bearer",
        "Bearer ",
        "Basic a-secret-that-is-long",
        "a-secret-that-is-long",
        "Bearera-secret-that-is-long",
    ];
    for header in wrong.iter().chain(&["Bearer a-secret-that-is-lonG", "Bearer a-secret-that-is-long,x"]) {
        assert!(matches!(ask(&[header]), Err(Denial::Invalid(_))), "{header}");
    }
    assert!(
        matches!(ask(&["Bearer a-secret-that-is-long"; 2]), Err(Denial::Invalid(_))),
        "two headers must be refused"
    );
}

#[test]
fn no_caller_shows_its_token() {
    let site = site();
    let shown = format!("{:?} {:?}", site.ask("a-secret-that-is-long"), site.access);
    assert!(shown.contains("long") && !shown.contains("a-secret"), "{shown}");
}

#[test]
fn a_token_removed_from_its_file_is_revoked() {
    let site = site();
    let jwt = site.jwt();
    assert!(site.ask(&jwt).is_ok() && site.ask("a-secret-that-is-long").is_ok());
    assert!(
        site.write("tokens", "nonsense").unwrap_err().contains("/tokens: line 1: "),
        "the error must name the file and the line"
    );
    assert!(site.ask("a-secret-that-is-long").is_ok(), "an invalid file must change nothing");
    site.write("tokens", &entry("short")).unwrap();
    assert!(matches!(site.ask("a-secret-that-is-long"), Err(Denial::Invalid(_))));
    assert!(site.ask(&jwt).is_ok() && site.ask("a-secret-that-is-short").is_ok());
    site.write("keys", &Pair::generate().unwrap().public).unwrap();
    assert!(matches!(site.ask(&jwt), Err(Denial::Invalid(_))), "even if its signature was verified before");
}

/// Polls a future once; returns its result, if it has ended.
fn now<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_ends_when_its_time_does() {
    let site = site();
    let mut end = Box::pin(site.access.clone().end_of(site.ask("a-secret-that-is-short").unwrap()));
    assert_eq!(now(&mut end), None);
    site.clock.advance(Duration::from_secs(9));
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(now(&mut end), None);
    site.clock.advance(Duration::from_secs(1));
    tokio::time::advance(Duration::from_secs(1) + Duration::from_millis(1)).await;
    assert_eq!(now(&mut end), Some(Denial::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_right_that_ends_sooner_than_it_seemed_is_noticed_within_a_minute() {
    let site = site();
    let jwt = Token { subject: "jwt".into(), role: Role::Watcher, threads: vec!["t".into()], prefixes: vec![] };
    let jwt = site.signer.sign(&jwt, Duration::from_secs(1_000), Duration::from_secs(1_000)).unwrap();
    let mut end = Box::pin(site.access.clone().end_of(site.ask(&jwt).unwrap()));
    assert_eq!(now(&mut end), None);
    // The machine sleeps: its timers do not run.
    site.clock.sleep(Duration::from_secs(10_000));
    tokio::time::advance(LOOK_AGAIN_AFTER + Duration::from_millis(1)).await;
    assert_eq!(now(&mut end), Some(Denial::Expired));
}

#[tokio::test]
async fn a_right_ends_when_it_is_taken_back_and_not_when_something_else_is() {
    let site = site();
    let mut token = Box::pin(site.access.clone().end_of(site.ask("a-secret-that-is-long").unwrap()));
    let mut jwt = Box::pin(site.access.clone().end_of(site.ask(&site.jwt()).unwrap()));
    assert_eq!((now(&mut token), now(&mut jwt)), (None, None));
    site.write("tokens", &entry("long")).unwrap();
    assert_eq!((now(&mut token), now(&mut jwt)), (None, None));
    site.write("tokens", &entry("long").replace("holder", "watcher")).unwrap();
    assert!(matches!(now(&mut token), Some(Denial::Invalid(_))), "the token now grants something else");
    assert_eq!(now(&mut jwt), None);
    site.write("keys", &Pair::generate().unwrap().public).unwrap();
    assert!(matches!(now(&mut jwt), Some(Denial::Invalid(_))));
}

#[test]
fn keys_that_are_given_are_of_no_file_and_stay() {
    let Site { clock, signer, directory, .. } = site();
    let keys = std::fs::read_to_string(directory.path().join("keys")).unwrap();
    let jwt = Some(JwtConfig::with_keys(PublicKeys::Text(keys)));
    let access = Access::load(AccessConfig { jwt, ..AccessConfig::default() }, clock.clone()).unwrap();
    assert_eq!(access.files(), [] as [PathBuf; 0]);
    let site = Site { access, clock, signer, directory };
    site.write("keys", &Pair::generate().unwrap().public).unwrap();
    assert_eq!(site.ask(&site.jwt()).unwrap().subject(), "jwt");
    let jwt = Some(JwtConfig::with_keys(PublicKeys::Text("none".into())));
    assert!(Access::load(AccessConfig { jwt, ..AccessConfig::default() }, site.clock.clone()).is_err());
}
