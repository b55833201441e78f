//! Short lines that hide what they run: in the value of a variable, behind a shell's options, or behind another
//! program.
use fastrand::Rng;

pub(super) fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

/// Sets a variable, in one of many ways, to a value that runs `rm` if bash evaluates it.
pub(super) fn variable(rng: &mut Rng) -> String {
    let names = [
        "x",
        "X",
        "a",
        "b",
        "SECONDS",
        "RANDOM",
        "SRANDOM",
        "OPTIND",
        "HISTCMD",
        "LINENO",
        "EPOCHSECONDS",
        "BASHPID",
        "DIRSTACK",
        "x[0]",
        "PATH",
    ];
    let values = [
        "'a[$(rm)]'",
        "\"a[\\$(rm)]\"",
        "'($(rm))'",
        "'$(rm)'",
        "'-v a[$(rm)]'",
        "a['$(rm)']",
        "x",
        "$x",
        "\"$x\"",
        "b",
        "-v",
        "1",
        "$1",
    ];
    let (name, value) = (pick(rng, &names), pick(rng, &values));
    let declare = pick(rng, &["declare", "declare -a", "declare -i", "declare -n", "export", "readonly", "typeset -A"]);
    let set = match rng.u8(..18) {
        0..=2 => format!("{name}={value}"),
        3 => format!("{name}+={value}"),
        4 => format!("{name}={value} {}", pick(rng, &["ls", "cat", "true"])),
        5 => format!("for {name} in {value}; do ls; done"),
        6 => format!("set -- {value}; for {name}; do ls; done"),
        7 => format!("read {} {name} <<< {value}", pick(rng, &["", "-r", "-a", "-d ''"])),
        8..=9 => format!("{declare} {name}={value}"),
        10 => format!("f() {{ local {name}={value}; ls; }}; f"),
        11 => format!("printf -v {name} %s {value}"),
        12 => format!("mapfile -t {name} <<< {value}"),
        13 => format!("set -- {value}; getopts a {name} -a"),
        14 => format!("select {name} in {value}; do break; done <<< 1"),
        15 => format!(": ${{{name}{}{value}}}", pick(rng, &["=", ":="])),
        16 => format!("{name}=([{value}]=1 {value})"),
        _ => format!("true & wait -n -p {value}"),
    };
    let uses = [
        "ls",
        "$x",
        "echo ${x:x}",
        "echo ${x[@]:x}",
        "echo ${b[x]}",
        "[ $x ]",
        "[ $x -lt 3 ]",
        "test $x",
        "test -v $x",
        "[[ $x -eq 1 ]]",
        "[[ -v $x ]]",
        "(( x ))",
        "echo $((x + 1))",
        "b=([x]=1)",
        "OPTIND=x",
        "for RANDOM in x; do ls; done",
        "declare b=$x",
        "declare -a x=$x",
        "echo ${x@P}",
        "ls $x",
        "x=1",
        "./ls",
    ];
    let mut line = set;
    for _ in 0..rng.usize(..3) {
        line = format!("{line}; {}", pick(rng, &uses));
    }
    line
}

/// A shell, with one of the ways in which it finds a script.
pub(super) fn shell(rng: &mut Rng) -> String {
    let shell = pick(rng, &["bash", "sh"]);
    let options = [
        "",
        "-",
        "-e",
        "-c",
        "-ec",
        "-c -",
        "-ec -",
        "-c --",
        "--",
        "-s",
        "- -c",
        "+e",
        "-c +e",
        "-o errexit -c",
        "-oe errexit -c",
        "-oerrexit pipefail -c",
        "-oo errexit pipefail -c",
        "-euo pipefail -c",
        "-l",
        "-lc",
        "--norc -c",
        "-c -e -",
        "/dev/stdin",
        "/dev/fd/0",
        "/proc/self/fd/0",
    ];
    let scripts = [
        "rm x",
        "ls; rm x",
        "[[ a || rm == x ]]",
        "ls &>/dev/null rm x",
        "ls |& rm x",
        "echo $[1|rm ]",
        "((rm))",
        "echo $((1 + 2))",
        "function f { rm; }; f",
        "x+=/rm x",
        "cat <<< x",
        "echo $\"a\"; rm",
        "cat <(rm)",
    ];
    let (options, script) = (pick(rng, &options), pick(rng, &scripts));
    match rng.u8(..4) {
        0 => format!("{shell} {options} <<< '{script}'"),
        1 => format!("cat <<'EOF' | {shell} {options}\n{script}\nEOF\n"),
        _ => format!("{shell} {options} '{script}'"),
    }
}

/// Options that hide the command which a program runs, and redirections that are words.
pub(super) fn runner(rng: &mut Rng) -> String {
    let command = pick(rng, &["rm x", "ls", "git", "echo rm x"]);
    let run = pick(
        rng,
        &[
            "echo a | xargs --max-lines",
            "echo a | xargs --max-lines=1",
            "echo a | xargs --max-args 1",
            "echo a | xargs --eof",
            "echo a | xargs -l",
            "echo rm | xargs -I {} -n 1 env",
            "echo rm | xargs -n 1 -I {} env {}",
            "echo a | xargs -i",
            "echo a | xargs --replace",
            "echo a | xargs -P 1 --process-slot-var=PATH",
            "jobs -x",
            "true; jobs -x",
            "jobs -l",
            "{PATH}</dev/null",
            "{fd}</dev/null",
            "{a[0]}<<<x",
            ">&-",
            ">&- ",
            "2>&1",
            "x=';'; find . -exec ls \"$x\" -exec",
            "x='; -exec rm x'; find . -exec ls $x",
            "time ./a=b/rm",
            "command [ -v 'a[$(rm)]' ];",
            "env ./a=b",
        ],
    );
    format!("{run} {command}{}", pick(rng, &["", " \\;", " {fd}>out", " >&-rm", " {PATH}</dev/null; ls"]))
}
