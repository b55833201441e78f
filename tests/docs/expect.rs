//! Compares the output of a command with what its page shows.
//!
//! `...` stands for any text, or on its own line for any lines. Values that differ in every run are compared only by
//! their form: a page may show `3.9s` where another duration was printed. Several spaces between words count as one, so
//! that a column may be wider on another machine. Log lines of a server at level INFO may be left out.

/// Whether `printed` agrees with `shown`.
pub(crate) fn matches(shown: &[String], printed: &str) -> bool {
    let shown: Vec<_> = shown.iter().map(String::as_str).collect();
    let log_is_shown = shown.iter().any(|line| is_logged(line));
    let printed: Vec<_> = printed.lines().filter(|line| log_is_shown || !is_logged(line)).collect();
    lines(trimmed(&shown), trimmed(&printed))
}

/// Whether it is a log line: a time, INFO, and its module.
fn is_logged(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|time| form_of_word(time) == "TIME") && words.next() == Some("INFO")
}

/// The lines without blank lines at the end.
fn trimmed<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    &lines[..end]
}

fn lines(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim() == "..." => (0..=printed.len()).any(|cut| lines(rest, &printed[cut..])),
        Some((first, rest)) => printed.split_first().is_some_and(|(line, left)| same(first, line) && lines(rest, left)),
    }
}

/// Compares two lines, both as the forms of their words.
fn same(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (form(shown), form(printed));
    let mut parts = shown.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut left) = printed.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            let Some(at) = left.find(middle) else { return false };
            left = &left[at + middle.len()..];
        }
    }
    last.map_or(left.is_empty(), |end| left.ends_with(end))
}

fn form(line: &str) -> String {
    line.split_whitespace().map(form_of_word).collect::<Vec<_>>().join(" ")
}

fn form_of_word(word: &str) -> String {
    let is_edge = |c: char| "\"'(),;:".contains(c);
    let core = word.trim_matches(is_edge);
    let Some(at) = word.find(core).filter(|_| !core.is_empty()) else { return word.to_owned() };
    let (before, after) = (&word[..at], &word[at + core.len()..]);
    let form = if core.len() == 32 && core.chars().all(|c| c.is_ascii_hexdigit()) {
        "ID".to_owned()
    } else if core.len() > 8 && core.chars().all(|c| c.is_ascii_digit()) {
        "NUMBER".to_owned()
    } else if core.len() > 18 && core.as_bytes()[10] == b'T' && core.starts_with("20") {
        "TIME".to_owned()
    } else if is_length(core) {
        "LENGTH".to_owned()
    } else if let Some((name, place)) = core.split_once(']').filter(|(_, place)| place.starts_with('@')) {
        let (name, pid) = name.split_once('[').unwrap_or((name, ""));
        let known = pid.chars().all(|c| c.is_ascii_digit()) && place.len() > 1;
        if known { format!("{name}[PID]@HOST") } else { core.to_owned() }
    } else {
        core.to_owned()
    };
    format!("{before}{form}{after}")
}

/// Whether the word is a duration as the program prints it: `3.9s`, `2m10s`, `23h59m`.
fn is_length(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if number.len() == rest.len() || rest.starts_with('.') {
            return false;
        }
        let unit = ["ms", "us", "ns", "s", "m", "h", "d"].iter().find_map(|unit| number.strip_prefix(unit));
        let Some(left) = unit else { return false };
        rest = left;
    }
    !word.is_empty()
}

#[cfg(test)]
mod tests {
    use super::matches;

    fn yes(shown: &str, printed: &str) -> bool {
        matches(&shown.lines().map(str::to_owned).collect::<Vec<_>>(), printed)
    }

    #[test]
    fn text_is_compared_word_by_word() {
        assert!(yes("THREAD  COUNT\nt  1", "THREAD COUNT\nt      1\n"));
        assert!(!yes("t  1", "t  2\n") && !yes("t", "t\nmore\n") && !yes("t\nmore", "t\n") && !yes("", "noise\n"));
    }

    #[test]
    fn dots_stand_for_any_text_and_any_lines() {
        assert!(
            yes("a\n...\nd", "a\nb\nc\nd\n")
                && yes("a\n...\nd", "a\nd\n")
                && yes("error: ... (X)", "error: so it is (X)\n")
        );
        assert!(
            !yes("a\n...\nd", "a\nb\n") && !yes("error: ... (X)", "error: so it is (Y)\n") && !yes("a...b", "ab c")
        );
    }

    #[test]
    fn news_of_the_log_may_be_left_out_and_warnings_may_not() {
        let log =
            |level: &str| format!("2026-11-22T08:22:25.128119Z  {level} pausewatch::server: draining\nlistening 1\n");
        assert!(
            yes("listening 1", &log("INFO")) && yes(&log("INFO"), &log("INFO")) && !yes("listening 1", &log("WARN"))
        );
        assert!(!yes(&log("INFO"), "listening 1\n"));
    }

    #[test]
    fn variable_output_is_compared_by_its_form() {
        assert!(yes("t  1  3.9s  ask[29620]@laptop", "t  1  12ms  ask[7]@x1\n"));
        assert!(yes("\"591be99a7e3bd406c473d85f894e7eae\",", "\"00000000000000000000000000000000\","));
        assert!(yes("2026-11-22T07:45:25.884+00:00  23h59m", "2027-01-01T00:00:00.000+00:00 2m10s"));
        assert!(
            !yes("3.9s", "soon")
                && !yes("ask[1]@a", "push[1]@a")
                && !yes("exit 124", "exit 0")
                && !yes("3.9s,", "3.9s")
        );
    }
}
