//! A prompt of another program as the reason of a pause, which is public: lists, logs, the page and the audit trail have it.
//!
//! 1. Nothing that a URL has before the `@` of its authority stays. git asks for the `Password for 'https://TOKEN@host'`.

/// The longest reason of an elicitation, in bytes.
const MAX_REASON: usize = 1_024;

/// One line, without the colon at its end, within the limit of the service.
pub(super) fn reason(prompt: &str) -> String {
    let line: String = prompt.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = without_user_information(line.trim().trim_end_matches(':'));
    let end = (0..=line.len().min(MAX_REASON)).rev().find(|end| line.is_char_boundary(*end));
    line[..end.unwrap_or(0)].to_owned()
}

/// Removes `user:password@` from each URL in the text.
fn without_user_information(text: &str) -> String {
    let (mut public, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        public.push_str(before);
        let is_end = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '<' | '>' | '`');
        let url = &after[..after.find(is_end).unwrap_or(after.len())];
        let authority = &url[..url.find(['/', '?', '#', '\\']).unwrap_or(url.len())];
        rest = match (authority.rfind('@'), url.rfind('@')) {
            (Some(at), _) => &after[at + 1..],
            // A name with a slash, as git before 2.48 shows it, or an `@` in the path.
            (None, Some(at)) => {
                public.push('…');
                &after[at..]
            }
            (None, None) => after,
        };
    }
    public + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_becomes_a_reason_within_the_limit() {
        assert_eq!(reason("Enter passphrase for key '/k':\u{20}"), "Enter passphrase for key '/k'");
        assert_eq!(reason("a\nb\u{1b}c"), "a b c");
        assert_eq!(reason(""), "");
        assert_eq!(reason(&"é".repeat(600)).len(), 1_024);
        assert_eq!(reason(&format!("x{}", "é".repeat(600))).len(), 1_023);
    }

    #[test]
    fn the_credentials_in_a_url_are_left_out() {
        for (prompt, public) in [
            ("Password for 'https://ghp_t0ken@github.com': ", "Password for 'https://github.com'"),
            ("Password for 'https://u:p%40@ss@h:8443/r.git': ", "Password for 'https://h:8443/r.git'"),
            ("Password for 'https://t0ken@h/a@b': ", "Password for 'https://h/a@b'"),
            ("Password for 'https://a/t0ken@h': ", "Password for 'https://…@h'"),
            ("from ssh://t0ken@h to https://t0ken@[::1]/", "from ssh://h to https://[::1]/"),
            ("https://t0ken@", "https://"),
            ("ftp://@h https://h?q=1 ://t0ken@h", "ftp://h https://h?q=1 ://h"),
        ] {
            assert_eq!(reason(prompt), public);
        }
        // Not in a URL: the name of an account, which is what the person is asked about.
        for prompt in ["git@host's password", "Username for 'https://github.com'", "(key of a@b) at https://h", "a://"]
        {
            assert_eq!(reason(prompt), prompt);
        }
        // What is cut off hides no `@`.
        let long = format!("https://{}@h", "t".repeat(2_000));
        assert_eq!(reason(&long), "https://h");
    }
}
