//! The versions of etcd whose data can be trusted.

/// Why a fleet must not use this version of etcd; `None`: it may be used.
pub(super) fn refusal(version: &str) -> Option<&'static str> {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten()) {
        (Some(3), Some(5), Some(0..=5)) => {
            Some("3.5.0 to 3.5.5 can corrupt data and let members disagree: upgrade etcd to 3.5.6 or later")
        }
        (Some(3), Some(4..), _) | (Some(4..), _, _) => None,
        _ => Some("a fleet needs etcd 3.4 or later"),
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn versions_that_lose_data_are_refused() {
        for bad in ["3.5.0", "3.5.5", "3.5.4-rc.1", "3.3.27", "2.3.8", "", "x"] {
            assert!(refusal(bad).is_some(), "{bad:?}");
        }
        for good in ["3.4.23", "3.5.6", "3.5.21", "3.6.0-rc.1", "3.7.3", "4.0.0"] {
            assert_eq!(refusal(good), None, "{good:?}");
        }
    }
}
