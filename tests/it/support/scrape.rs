//! Metrics, parsed as a collector parses them, and checked against the rules of the format.
use super::timed;
use std::collections::{BTreeMap, BTreeSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The parsed metrics: each sample with its labels, as written, and its value.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) values: BTreeMap<String, f64>,
    /// The kind of each family.
    pub(crate) families: BTreeMap<String, String>,
}

impl Samples {
    /// The value of a sample, such as `x_total{code="OK"}`.
    pub(crate) fn get(&self, sample: &str) -> f64 {
        *self.values.get(sample).unwrap_or_else(|| panic!("no {sample} in {:#?}", self.values))
    }

    fn read(text: &str) -> Self {
        let (mut values, mut families) = (BTreeMap::new(), BTreeMap::new());
        let (mut family, mut kind) = (String::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect("a family has a help");
                assert!(help.ends_with('.'), "{line}");
                family = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, is) = rest.split_once(' ').expect("a family has a type");
                assert_eq!(name, family, "HELP must follow TYPE");
                assert_eq!(is == "counter", name.ends_with("_total"), "{name} is a {is}");
                kind = is.to_owned();
                assert!(families.insert(family.clone(), kind.clone()).is_none(), "{name} occurs twice");
            } else {
                let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
                let name = sample.split('{').next().expect("a sample has a name");
                let of_family = match kind.as_str() {
                    "histogram" => {
                        ["_bucket", "_sum", "_count"].map(|end| format!("{family}{end}")).contains(&name.to_owned())
                    }
                    _ => name == family,
                };
                assert!(of_family, "{sample} is listed under {family}");
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line} has no number"));
                assert!(values.insert(sample.to_owned(), value).is_none(), "{sample} occurs twice");
            }
        }
        let samples = Samples { values, families };
        samples.check_histograms();
        samples
    }

    /// The values of buckets do not fall, and the last one equals the count.
    fn check_histograms(&self) {
        let infinite = self.values.iter().filter(|(sample, _)| sample.contains("le=\"+Inf\""));
        let mut seen = BTreeSet::new();
        for (sample, all) in infinite {
            let (name, labels) = sample.split_once("_bucket{").expect("only buckets have a bound");
            let labels = labels.trim_end_matches('}').trim_end_matches("le=\"+Inf\"").trim_end_matches(',');
            let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            assert_eq!(self.get(&format!("{name}_count{braced}")), *all);
            self.get(&format!("{name}_sum{braced}"));
            let comma = if labels.is_empty() { "" } else { "," };
            let prefix = format!("{name}_bucket{{{labels}{comma}le=\"");
            let bound = |sample: &str| sample[prefix.len()..].trim_end_matches("\"}").parse::<f64>().expect("a bound");
            let mut buckets: Vec<_> =
                self.values.iter().filter(|(s, _)| s.starts_with(&prefix)).map(|(s, v)| (bound(s), *v)).collect();
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{prefix}: {buckets:?}");
            seen.insert(name);
        }
        let histograms = self.families.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name.as_str());
        assert_eq!(seen, histograms.collect(), "each histogram has a last bucket");
    }
}

/// Makes one request to `http://HOST:PORT/PATH`; returns the head of the answer, and its body.
pub(crate) async fn ask(method: &str, url: &str) -> (String, String) {
    let (host, path) = url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("http://HOST:PORT/PATH");
    let mut stream = TcpStream::connect(host).await.expect("it listens");
    let request = format!("{method} /{path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    timed("an answer", stream.read_to_string(&mut answer)).await.expect("it answers in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.to_owned(), body.to_owned())
}

/// The metrics at `url`.
pub(crate) async fn scrape(url: &str) -> Samples {
    let (head, body) = ask("GET", url).await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    Samples::read(&body)
}
