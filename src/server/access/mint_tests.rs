use super::*;
use crate::server::access::tokens;

fn token() -> Token {
    let threads = vec!["t \"1\" \\".into()];
    Token { subject: "s\"".into(), role: Role::Holder, threads, prefixes: vec!["a/".into()] }
}

#[test]
fn an_entry_is_what_the_file_of_tokens_takes() {
    let secret = secret().unwrap();
    let text = entry(&secret, &token(), Some("2027-01-01T00:00:00Z")).unwrap();
    assert!(!text.contains(&secret), "{text}");
    let file = tokens::parse(&text).unwrap().unwrap();
    let grant = &file[&Digest::of(secret.as_bytes())];
    assert_eq!(grant.clone(), Grant::parse("s\"", &token().rights(), Some(1_798_761_600_000_000_000)).unwrap());
}

#[test]
fn no_two_secrets_are_the_same_and_all_can_be_sent() {
    let (one, two) = (secret().unwrap(), secret().unwrap());
    assert!(one != two && one.len() == 46 && one.bytes().all(|byte| byte.is_ascii_graphic()), "{one}");
}

#[test]
fn tokens_that_every_server_would_refuse_are_not_signed() {
    let signer = Signer::from_pem(&Pair::generate().unwrap().private).unwrap();
    for wrong in [
        Token { threads: vec![], prefixes: vec![], ..token() },
        Token { role: Role::Admin, ..token() },
        Token { subject: String::new(), ..token() },
        Token { threads: vec!["a\nb".into()], ..token() },
    ] {
        assert!(signer.sign(&wrong, Duration::ZERO, Duration::ZERO).is_err(), "{wrong:?}");
        assert!(entry("secret", &wrong, None).is_err(), "{wrong:?}");
    }
}

#[test]
fn an_invalid_signing_key_is_refused_with_the_expected_kind() {
    let pair = Pair::generate().unwrap();
    let cut = pair.private.replace("MC4C", "MC4D");
    for (text, why) in [("", "no private key in it"), (&pair.public, "no private key in it"), (&cut, "of another kind")]
    {
        let error = Signer::from_pem(text).map(|_| ()).unwrap_err();
        assert!(error.contains(why) && error.contains("PKCS #8"), "{error}");
    }
}
