//! Random command lines that may run `rm`, in every way in which the shell can run a program; some of them are slightly
//! invalid.
//!
//! Nothing here harms the machine: programs are named without a path, and no builtin affects other processes.
use super::phrases::{pick, runner, shell, variable};
use fastrand::Rng;

/// A line of any kind.
pub(super) fn line(rng: &mut Rng) -> String {
    let depth = rng.u32(1..=3);
    let mut line = match rng.u8(..10) {
        0 => variable(rng),
        1 => shell(rng),
        2 => runner(rng),
        3 => timed(rng, depth),
        _ => list(rng, depth),
    };
    if rng.u8(..3) == 0 {
        for _ in 0..rng.usize(1..=3) {
            mutate(&mut line, rng);
        }
    }
    if rng.u8(..3) == 0 {
        // The shell removes these before it reads words: they may stand within an operator.
        for _ in 0..rng.usize(1..=4) {
            line.insert_str(rng.usize(..=line.len()), "\\\n");
        }
    }
    line
}

/// Characters that are special to a shell, and a few that are not.
const MARKS: &[u8] = b" \t\n'\"`$(){}[]<>|&;#\\!*?~=:-ax";

fn mutate(line: &mut String, rng: &mut Rng) {
    let mut bytes = std::mem::take(line).into_bytes();
    let at = rng.usize(..=bytes.len());
    let mark = *rng.choice(MARKS).expect("there are some");
    match (rng.u8(..4), at < bytes.len()) {
        (0, true) => bytes[at] = mark,
        (1, true) => _ = bytes.remove(at),
        (2, true) => {
            let end = rng.usize(at..=bytes.len().min(at + 12));
            let part = bytes[at..end].to_vec();
            let to = rng.usize(..=bytes.len());
            bytes.splice(to..to, part).for_each(drop);
        }
        _ => bytes.insert(at, mark),
    }
    *line = String::from_utf8(bytes).expect("all of it is ASCII");
}

fn list(rng: &mut Rng, depth: u32) -> String {
    let mut list = command(rng, depth);
    for _ in 0..rng.usize(..3) {
        list += pick(
            rng,
            &[" && ", " || ", "; ", " | ", " & ", "\n", " |& ", "&&", ";", " # rm\n", " && \\\n ", " \\\n; "],
        );
        list += &command(rng, depth);
    }
    list
}

fn command(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 {
        return simple(rng, 0);
    }
    let d = depth - 1;
    match rng.u8(..30) {
        0 => format!("({})", list(rng, d)),
        1 => format!("{{ {}; }}", list(rng, d)),
        2 => format!("if {}; then {}; else {}; fi", list(rng, d), list(rng, d), list(rng, d)),
        3 => format!("while {}; do {}; break; done", list(rng, d), list(rng, d)),
        4 => format!("for i in {} {}; do {}; done", word(rng, d), word(rng, d), list(rng, d)),
        5 => format!("case {} in a|b) {};; (*) {};; esac", word(rng, d), list(rng, d), list(rng, d)),
        6 => format!("! {}", simple(rng, d)),
        7 => format!("time {}", simple(rng, d)),
        8 => format!("[[ -n {} && {} == x* ]]", word(rng, d), word(rng, d)),
        9 => format!("[ {} = {} ]", word(rng, d), word(rng, d)),
        10 => format!("f() {{ {}; }}; f", list(rng, d)),
        11 => heredoc(rng, d),
        12 => format!("bash -c {}", quoted(rng, d)),
        13 => format!("eval {}", quoted(rng, d)),
        14 => format!("trap {} EXIT", quoted(rng, d)),
        15 => format!(
            "{} {}",
            pick(
                rng,
                &[
                    "env",
                    "env X=1",
                    "nice",
                    "nice -n 1",
                    "nohup",
                    "timeout 1",
                    "command",
                    "exec",
                    "xargs",
                    "xargs -n 1",
                    "xargs -I {}",
                    "builtin",
                    "builtin eval",
                    "stdbuf -oL",
                    "setsid",
                    "env -i PATH=$PATH"
                ]
            ),
            simple(rng, d)
        ),
        16 => format!("find . -maxdepth 0 -exec {} {}", simple(rng, 0), pick(rng, &["\\;", "';'", "{} +"])),
        17 => format!("(( {} ))", pick(rng, &["1 + 2", "x = 1", "x", "a[0]"])),
        18 => format!("x={}; {}", word(rng, d), simple(rng, d)),
        19 => variable(rng),
        20 => shell(rng),
        21 => runner(rng),
        22..=23 => timed(rng, d),
        _ => simple(rng, depth),
    }
}

/// `time`, `!` and `coproc` in any order, before commands of all kinds; and words in braces at the start of a command.
fn timed(rng: &mut Rng, depth: u32) -> String {
    let mut line = String::new();
    for _ in 0..rng.usize(..=3) {
        line += pick(
            rng,
            &[
                "time ",
                "time -p ",
                "time -- ",
                "time -p -- ",
                "! ",
                "time ! ",
                "time\n",
                "time; ",
                "! time ",
                "coproc ",
            ],
        );
    }
    line += pick(rng, &["", "", "", "x=1 ", ">out ", "2>/dev/null ", "-p ", "-- "]);
    let braces = pick(rng, &["{rm,x}", "{rm,x}", "{rm,}", "{ls,rm}", "{,rm}", "r{m,x}", "{r,}m", "rm", "ls"]);
    let first = simple(rng, 0);
    let more = list(rng, depth.saturating_sub(1));
    line += &match rng.u8(..14) {
        0..=2 => braces.to_owned(),
        3 => format!("{{ {braces}; }}"),
        4 => format!("{{ {first}; {braces}; }}"),
        5 => format!("{{ {first}\n{braces}\n}}"),
        6 => format!("({first}; {braces})"),
        7 => format!("if {first}; then {braces}; fi"),
        8 => format!("while {braces}; do {first}; break; done"),
        9 => format!("for i in a; do {first}; {braces}; done"),
        10 => format!("case x in x) {first}; {braces};; esac"),
        11 => format!("{braces} x; {more}"),
        12 => format!("{{ {more}; }}"),
        _ => more,
    };
    match rng.u8(..6) {
        0 => format!("{}{}", pick(rng, &["bash -c ", "sh -c ", "eval "]), quote(&line, rng)),
        1 => format!("f() {{ {line}; }}; f"),
        _ => line,
    }
}

/// A script in quotes of some kind.
fn quoted(rng: &mut Rng, depth: u32) -> String {
    let script = list(rng, depth);
    quote(&script, rng)
}

fn quote(script: &str, rng: &mut Rng) -> String {
    match rng.u8(..3) {
        0 => format!("'{}'", script.replace('\'', r"'\''")),
        1 => {
            format!("\"{}\"", script.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`"))
        }
        _ => format!("$'{}'", script.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")),
    }
}

fn heredoc(rng: &mut Rng, depth: u32) -> String {
    let body = match rng.u8(..4) {
        0 => format!("a $({}) b", list(rng, depth)),
        1 => "it's (a) \"text\" # no comment".to_owned(),
        2 => format!("`{}`", simple(rng, 0)),
        _ => "$((1 + 2)) ${x:-y} \\$(rm x) $".to_owned(),
    };
    let after = pick(rng, &["", "; ls", " && rm x", " | cat", " > out", " 2>&1 | rm x"]);
    let (mark, end) = match rng.u8(..5) {
        0 => ("<<'EOF'", "EOF"),
        1 => ("<<\"EOF\"", "EOF"),
        2 => ("<<-EOF", "\tEOF"),
        3 => ("<<\\EOF", "EOF"),
        _ => ("<<EOF", "EOF"),
    };
    format!("cat {mark}{after}\n{body}\n{end}\n{}", simple(rng, 0))
}

fn simple(rng: &mut Rng, depth: u32) -> String {
    let mut command =
        pick(rng, &["", "", "", "", "x=1 ", "LANG=C ", "''LANG=/rm ", ">out ", "2>/dev/null ", "x=$(true) "])
            .to_owned();
    command += &program(rng);
    for _ in 0..rng.usize(..3) {
        command.push(' ');
        command += &word(rng, depth);
    }
    command + pick(rng, &["", "", "", " >out", " 2>&1", " </dev/null", " >out x", " <<< x", " &>out", " 3>&-"])
}

fn program(rng: &mut Rng) -> String {
    if rng.u8(..3) > 0 {
        return pick(rng, &["ls", "git", "echo", "cat", "true", "test"]).to_owned();
    }
    let ways = [
        "rm",
        "rm",
        "rm",
        "'rm'",
        "\"rm\"",
        "r\"m\"",
        "r''m",
        "\\rm",
        "r\\m",
        "$'rm'",
        "$'\\x72m'",
        "$'\\162m'",
        "$(echo rm)",
        "{rm,x}",
        "`echo rm`",
        "$\"rm\"",
        "r\\\nm",
        "./rm",
    ];
    pick(rng, &ways).to_owned()
}

fn word(rng: &mut Rng, depth: u32) -> String {
    let texts = [
        "x",
        "-n",
        "rm",
        "a#b",
        "#x",
        "\\#",
        "'a b'",
        "'it)'",
        "'#'",
        "\"a b\"",
        "\"a'b\"",
        "'a\"b'",
        "\"\\\"\"",
        "$'a\\'b'",
        "$'\\\\'",
        "\\'",
        "\\\"",
        "\\;",
        "\\(",
        "~",
        "*",
        "{a,b}",
        "$x",
        "\"$x\"",
        "${x}",
        "${x:-y}",
        "\"${x:-y}\"",
        "\"${x:-'y'}\"",
        "${x#a}",
        "${x//a/b}",
        "${x:0:1}",
        "${ rm; }",
        "\"${ rm; }\"",
        "${| rm; }",
        "@(rm)",
        "!(rm)",
        "a=~",
        "${#x}",
        "$((1+2))",
        "$((x))",
        "$[1+1]",
        "$#",
        "$$",
        "$",
        "a$",
        "\"a$\"",
        "\"`echo x`\"",
        "=",
        "a=b",
        "[a]",
        "!",
        "\\\n",
        "\"a\nb\"",
        "'a\nb'",
        "--",
        "if",
        "done",
        "\"#\"",
        "${x:-#}",
        "\"$(echo '#')\"",
        "{}",
        "then",
        "\"${x}#\"",
        "''",
        "\\\\",
    ];
    if rng.bool() {
        return pick(rng, &["x", "a", "-n", "'a b'", "\"$x\"", "\"a b\""]).to_owned();
    }
    if depth == 0 || rng.u8(..3) > 0 {
        let mut word = pick(rng, &texts).to_owned();
        if rng.u8(..6) == 0 {
            word += pick(rng, &texts);
        }
        return word;
    }
    let d = depth - 1;
    match rng.u8(..9) {
        0 => format!("$({})", list(rng, d)),
        1 => format!("\"$({})\"", list(rng, d)),
        2 => format!("`{}`", simple(rng, 0)),
        3 => format!("\"a `{}` b\"", simple(rng, 0)),
        4 => format!("<({})", list(rng, d)),
        5 => format!("${{y:-$({})}}", list(rng, d)),
        6 => format!("\"${{y:-$({})}}\"", list(rng, d)),
        7 => format!("\"$(\n# it's a comment )\n{}\n)\"", list(rng, d)),
        _ => format!("$((1 + $({})))", list(rng, d)),
    }
}
