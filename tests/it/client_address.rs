//! What every client takes for an address and for a token, and what none does: the same lines in each language.
use pausewatch::client::{Address, Token};

#[test]
fn addresses_and_tokens_follow_the_rules_of_all_clients() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/scenarios/addresses.txt");
    let cases = std::fs::read_to_string(path).expect(path);
    let cases: Vec<_> = cases.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(cases.len() > 30, "{cases:?}");
    for case in cases {
        let (expected, value) = case.split_once(' ').expect(case);
        let (address, token) = (value.parse::<Address>(), Token::new(value));
        let is_right = match expected {
            "accept" => address.is_ok(),
            "refuse" => address.is_err(),
            "token-accept" => token.is_ok(),
            "token-refuse" => token.is_err(),
            _ => panic!("{case}"),
        };
        assert!(is_right, "{case}: {address:?}, {token:?}");
    }
}
