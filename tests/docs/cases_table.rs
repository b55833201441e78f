//! The table of clients/README.md counts all existing cases. Only `clients/test`, which runs them with every client,
//! can check whether they pass; this test finds within a second that the table was not updated.
use crate::links::root;
use std::collections::BTreeMap;
use std::fs;

/// The number of cases of each feature, and of all together.
fn counted() -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for file in fs::read_dir(root().join("clients/scenarios/cases")).unwrap().flatten() {
        let case: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
        *counts.entry(case["feature"].as_str().unwrap().to_owned()).or_default() += 1;
        *counts.entry("all cases".to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn the_table_of_the_clients_counts_the_cases() {
    let page = fs::read_to_string(root().join("clients/README.md")).unwrap();
    let table = page.split("<!-- table: clients/test --write-table -->\n").nth(1).unwrap();
    let table = table.split("<!-- end of the table -->").next().unwrap();
    let mut shown = BTreeMap::new();
    // After the clients' names and the line under them.
    for line in table.lines().skip(2) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let all_of = |cell: &&str| cell.split_once('/').expect("PASSED/ALL").1.parse::<usize>().unwrap();
        for count in cells[1..].iter().map(all_of) {
            let before = shown.insert(cells[0].to_owned(), count);
            assert!(before.is_none_or(|before| before == count), "every client plays every case: {line}");
        }
    }
    assert_eq!(shown, counted(), "clients/README.md is out of date: clients/test --write-table");
}
