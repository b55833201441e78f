use super::*;

/// The examples of RFC 8037, A.4, and of RFC 7515, A.3, and one for RSA made by `openssl`: the key, the signed data,
/// the signature.
const EXAMPLES: [(&str, &str, &str); 3] = [
    (
        r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    ),
    (
        r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    ),
    (
        r#"{"kty":"RSA","n":"2VU1p6yUkkss69s4_NIkWTK2kQpPToGi0Cn1BfOi0CzTooG-hQ4oJW56Byx9GsPHO1roqI6XmVcOyQQNkTrnve5bB36744QyJWeOiv9Fu34K5z6YEHluNGh6dMJAqIb9TnXeKx7erc1wTi_cJY9Ue1XaYhvHa-P21C73zXQ5pc8k_nPC9o-nPqeVSwg14OYGQLwzXYxFYFAc8TcHpImdJmucIDHWqTddvmAu-Doa7XgrAKdkEr2UmOZojI7IBbSmwicLvsBe9JC2o_2kQw0OyM2fHj9BSghB8MWcjRITQ4HlkTuJ_x6u6YFG0xKIVDc7p6eJz7MDgjt67dQldMXgXQ","e":"AQAB"}"#,
        "eyJhbGciOiJSUzI1NiIsImtpZCI6ImFueSJ9.eyJzdWIiOiJyIiwiYXVkIjpbIngiLCJwYXVzZXdhdGNoIl0sImV4cCI6MjAwMDAwMDAwMCwicGF1c2V3YXRjaCI6eyJyb2xlIjoid2F0Y2hlciIsInByZWZpeGVzIjpbImEvIl19fQ",
        "dXkXHCQA_otGLRVGrZTexA3M4Gva-DzOlLijbObVXqa_AYUxnSypPxmINySGWHKN3ZYJTXckBdIDEd0CXLeB8WE--8Myvewpv-PutsE3H-I6Dy_7ASXOeQFcLdMIhpGLS4nN3bjwFMaDA-Zmj7pJAKCgCJozzGVzk4_xYHN4AUbceeWkiVaHFIMo7tnmd--zacbnOYSvK2dNgypPWZa2T8nVywHBR55ccjXHhredacDB2QcntbbKxhLcZjEgGsBDEi_tp8u-QYX9mbZHYnKhuqSO75aqhV85HZ4VintomVda7MGwtbgUuZaK87PqbuyhDP05SYP3-ZgAUArv-TigLA",
    ),
];

/// Made by `openssl`.
const ED25519_PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEASjACJmaQk8gs3pRTwErnoPkzX+cCPUblcZDVDDFWkq8=\n-----END PUBLIC KEY-----\n";
const P384_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
    MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEwXRX3GZmCYCwE/0IIIPSMcqRTa7RsXng\n\
    k6CpQ4DcOcOd0USAWbpFu60zPB79cBAPLSofTLw+JUBAl08YkaTn1Y0d6o4UwSpJ\n\
    VE01GkVke+U/SwFQHmDNhH18vV5qcGLO\n-----END PUBLIC KEY-----\n";
const RSA_1024_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
    MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDUbfd2rRFjBx0ndKPVuVchCfRP\n\
    4AGEKvkFej1MT8vjYCk4MhIvrNbdyXF5IV76HVr74swjb0ALST9ODSBzEr2mNpF2\n\
    y32dysqdvrme/K4omRJUsU6Fon7t+twNFBR9tBzeL0gQV+sVTstTmITZm/kejqcB\n\
    TKbtNLjuK1nSW1YtwwIDAQAB\n-----END PUBLIC KEY-----\n";

#[test]
fn the_examples_of_others_verify_and_by_no_other_key() {
    let keys: Vec<_> = EXAMPLES.iter().flat_map(|(jwk, ..)| parse(jwk).unwrap()).collect();
    assert_eq!(keys.iter().map(Key::algorithm).collect::<Vec<_>>(), ["EdDSA", "ES256", "RS256"]);
    for (i, (_, message, signature)) in EXAMPLES.iter().enumerate() {
        let mut signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        for (j, key) in keys.iter().enumerate() {
            assert_eq!(key.verifies(message.as_bytes(), &signature), i == j, "{i} by {j}");
        }
        assert!(!keys[i].verifies(&message.as_bytes()[1..], &signature));
        signature[9] ^= 1;
        assert!(!keys[i].verifies(message.as_bytes(), &signature));
        assert!(!keys[i].verifies(message.as_bytes(), &[]));
    }
}

#[test]
fn a_set_has_the_keys_that_are_for_us_and_leaves_others_out() {
    let [(ed, ..), (ec, ..), _] = EXAMPLES;
    let with = |more: &str| ed.replacen('{', &format!("{{{more},"), 1);
    let set = [
        with(r#""kid":"one","use":"sig","alg":"EdDSA""#),
        with(r#""kid":"two","use":"enc""#),
        with(r#""kid":"three","alg":"Ed25519""#),
        with(r#""kid":"four","alg":"HS256""#),
        ec.replacen('{', r#"{"kid":"five","alg":"ES384","#, 1),
        r#"{"kty":"EC","crv":"P-384","x":"","y":""}"#.to_owned(),
        r#"{"kty":"OKP","crv":"X25519","x":""}"#.to_owned(),
    ];
    let keys = parse(&format!(r#"{{"keys":[{}],"more":1}}"#, set.join(","))).unwrap();
    let ids: Vec<_> = keys.iter().map(|key| key.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["one", "three"]);
    assert!(keys[0].may_be(Some("one")) && keys[0].may_be(None) && !keys[0].may_be(Some("three")));
}

#[test]
fn pem_may_have_several_keys() {
    let keys = parse(&format!("a comment\n{ED25519_PEM}{ED25519_PEM}")).unwrap();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].may_be(Some("whatever")), "a key in PEM has no name");
}

#[test]
fn an_invalid_key_is_refused_with_the_reason() {
    let [(ed, ..), (ec, ..), (rsa, ..)] = EXAMPLES;
    let many = format!(r#"{{"keys":[{}]}}"#, vec![ed; MOST + 1].join(","));
    let cases = [
        (String::new(), "no public key for EdDSA"),
        (r#"{"keys":[]}"#.into(), "no public key for EdDSA"),
        (r#"{"keys":7}"#.into(), "it is not a JWKS"),
        ("{".into(), "it is not a JWKS"),
        (many, "65 keys; at most 64"),
        (ed.replace("aPcHURo", "aPcHUR"), "key 0: "),
        (ed.replace(r#""x""#, r#""z""#), "key 0: x is missing"),
        (ec.replace("f83OJ3", "f83O"), "key 0: "),
        (rsa.replace("2VU1p6yUkkss69s4", ""), "key 0: an RSA key must have 2048 to 8192 bits"),
        (ed.replacen('{', r#"{"d":"secret","#, 1), "key 0 has a private part"),
        (r#"{"kty":"oct","k":"c2VjcmV0"}"#.into(), "key 0 has a private part"),
        (r#"{"kty":"oct"}"#.into(), "no public key for EdDSA"),
        (ED25519_PEM.replace("PUBLIC", "PRIVATE"), "there is a private key in it"),
        (ED25519_PEM.replace("MCow", "MCov"), "no public key: "),
        (P384_PEM.into(), "curve is P-256"),
        (RSA_1024_PEM.into(), "this one has 1024"),
    ];
    for (text, why) in cases {
        let error = parse(&text).map(|keys| keys.len()).unwrap_err();
        assert!(error.contains(why), "{error}: expected {why}");
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
}
