//! The results, by feature and client, as in the table of clients/README.md.
//!
//! The table is always generated from the results of a run with every client. It stands between two markers, and a run
//! with another result fails.
use crate::{case::FEATURES, clients::Clients};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

const BEGIN: &str = "<!-- table: clients/test --write-table -->\n";
const END: &str = "<!-- end of the table -->\n";

/// The result of a case with one client.
#[derive(Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) client: String,
    pub(crate) feature: String,
    pub(crate) case: String,
    pub(crate) passed: bool,
}

pub(crate) fn save(file: &Path, rows: &[Row]) -> Result<(), String> {
    let text = serde_json::to_string_pretty(rows).map_err(|error| error.to_string())?;
    fs::write(file, text + "\n").map_err(|error| format!("write {}: {error}", file.display()))
}

/// Whether the table in the file agrees with these results.
pub(crate) fn check(file: &Path, clients: &Clients, results: &[String]) -> Result<bool, String> {
    let (text, made) = replaced(file, clients, results)?;
    if text != made {
        println!("{} has another table than these results; see clients/test --write-table:\n", file.display());
        println!("{}", table(clients, &load(results)?));
    }
    Ok(text == made)
}

/// Writes the table of these results into the file.
pub(crate) fn write(file: &Path, clients: &Clients, results: &[String]) -> Result<bool, String> {
    let (_, made) = replaced(file, clients, results)?;
    fs::write(file, made).map_err(|error| format!("write {}: {error}", file.display()))?;
    Ok(true)
}

fn replaced(file: &Path, clients: &Clients, results: &[String]) -> Result<(String, String), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("read {}: {error}", file.display()))?;
    let markers = || format!("{} has not both of {BEGIN:?} and {END:?}", file.display());
    let (before, rest) = text.split_once(BEGIN).ok_or_else(markers)?;
    let (_, after) = rest.split_once(END).ok_or_else(markers)?;
    let made = format!("{before}{BEGIN}{}{END}{after}", table(clients, &load(results)?));
    Ok((text, made))
}

fn load(results: &[String]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for file in results {
        let text = fs::read_to_string(file).map_err(|error| format!("read {file}: {error}"))?;
        rows.extend(serde_json::from_str::<Vec<Row>>(&text).map_err(|error| format!("{file}: {error}"))?);
    }
    Ok(rows)
}

fn table(clients: &Clients, rows: &[Row]) -> String {
    let line = |first: &str, cells: Vec<String>| format!("| {first} | {} |\n", cells.join(" | "));
    let mut text = line("", clients.all().iter().map(|client| client.title.clone()).collect());
    text += &line("---", vec!["---".to_owned(); clients.all().len()]);
    let cell = |feature: Option<&str>, client: &str| {
        let of_it = |row: &&Row| row.client == client && feature.is_none_or(|feature| row.feature == feature);
        let (all, passed) =
            (rows.iter().filter(of_it).count(), rows.iter().filter(of_it).filter(|row| row.passed).count());
        if all == 0 { "-".to_owned() } else { format!("{passed}/{all}") }
    };
    for feature in FEATURES.iter().map(|feature| Some(*feature)).chain([None]) {
        let cells = clients.all().iter().map(|client| cell(feature, &client.name)).collect();
        text += &line(feature.unwrap_or("all cases"), cells);
    }
    text
}
