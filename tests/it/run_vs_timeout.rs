//! `pausewatch run` and GNU `timeout`: each case is run with both, and both must end and write the same.
//!
//! If a case needs the timeout at a certain moment, its command sends ALRM to its parent: that is the signal of
//! `timeout`'s own clock. So no case depends on the speed of the machine. `parent-waits` first waits until GNU timeout
//! is idle: a signal right after its fork makes it exit without its command.
use crate::beside_timeout::{Case, compare, compare_all, outcome};
use crate::shell::{End, pausewatch};
use std::path::Path;

const STATUS: &[Case] = &[
    &["10", "true"],
    &["10", "false"],
    &["10", "sh", "-c", "exit 3"],
    &["10", "sh", "-c", "exit 124"],
    &["10", "sh", "-c", "exit 255"],
    &[".1", "sleep", "10"],
    &["-p", ".1", "sleep", "10"],
    &["-f", ".1", "sleep", "10"],
    &["-fp", ".1", "sleep", "10"],
    &["-s", "KILL", ".1", "sleep", "10"],
    &["-p", "-s", "9", ".1", "sleep", "10"],
    &["-f", "-s", "KILL", ".1", "sleep", "10"],
    &["-fv", "-sKILL", "-k9", ".1", "sleep", "10"],
    &["10", "sh", "-c", "kill -TERM $$"],
    &["10", "sh", "-c", "kill -KILL $$"],
    &["10", "sh", "-c", "kill -SEGV $$"],
    &["10", "sh", "-c", "kill -ABRT $$"],
    &["10", "sh", "-c", "kill -PIPE $$"],
    &["10", "sh", "-c", "kill -USR1 $$"],
    &["10", "sh", "-c", "kill -ALRM $$"],
    &["10", "bash", "-c", "kill -s RTMIN+2 $$"],
    &["-p", "10", "sh", "-c", "kill -INT $$"],
    &["-f", "10", "sh", "-c", "kill -HUP $$"],
    // A core dump is mentioned if the system writes one.
    &["10", "sh", "-c", "ulimit -c unlimited; kill -QUIT $$"],
    &["-v", "10", "sh", "-c", "ulimit -c 0; kill -QUIT $$"],
];

const TIME_IS_UP: &[Case] = &[
    // The command catches the signal and ends in its own way.
    &[
        "60",
        "sh",
        "-c",
        "trap 'echo caught; exit 7' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done",
    ],
    &[
        "-p",
        "60",
        "sh",
        "-c",
        "trap 'echo caught; exit 7' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done",
    ],
    &[
        "-fp",
        "60",
        "sh",
        "-c",
        "trap 'echo caught; exit 7' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done",
    ],
    // It ignores the signal.
    &["-k", ".1", "60", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-vk.1", "60", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-f", "-vk.1", "60", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-fp", "-k.1", "60", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-k", "0", "60", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-v", "-s", "0", "60", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-vs", "EXIT", "60", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    // Other signals, by all their names.
    &["-vs", "INT", ".1", "sleep", "10"],
    &["-vs", "sigint", ".1", "sleep", "10"],
    &["-vs", "2", ".1", "sleep", "10"],
    &["-vs", "130", ".1", "sleep", "10"],
    &["-p", "-vs", "HUP", ".1", "sleep", "10"],
    &["-vs", "QUIT", ".1", "sleep", "10"],
    &["-vs", "IOT", ".1", "sleep", "10"],
    &["-vs", "ILL", ".1", "sleep", "10"],
    &["-vs", "FPE", ".1", "sleep", "10"],
    &["-vs", "SEGV", ".1", "sleep", "10"],
    &["-vs", "USR1", ".1", "sleep", "10"],
    &["-vs", "PIPE", ".1", "sleep", "10"],
    &["-vs", "ALRM", ".1", "sleep", "10"],
    &["-vs", "IO", ".1", "sleep", "10"],
    &["-vs", "RTMIN", ".1", "sleep", "10"],
    &["-vs", "rtmin+3", ".1", "sleep", "10"],
    &["-vs", "RTMAX-3", ".1", "sleep", "10"],
    &["-vs", "64", ".1", "sleep", "10"],
    &["-p", "-s", "RTMIN+3", ".1", "sleep", "10"],
    // Signals that do not end a command.
    &["-vs", "CONT", "60", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-vs", "URG", "60", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-vs", "TSTP", "60", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-s", "CONT", "-k.1", ".1", "sleep", "10"],
    // It has stopped itself.
    &[".1", "sh", "-c", "kill -STOP $$; echo continued"],
    &[
        "-k30",
        "60",
        "sh",
        "-c",
        "trap 'echo caught; exit 7' TERM; . ./parent-waits; (. ./stopped; kill -ALRM $PPID) & kill -STOP $$; exit 8",
    ],
    &["-f", "-vk.1", "60", "sh", "-c", ". ./parent-waits; (. ./stopped; kill -ALRM $PPID) & kill -STOP $$"],
    &["-vs", "TSTP", "-k.1", ".1", "sleep", "10"],
    // Processes that it left in the background.
    &[".1", "sh", "-c", "sleep 10 & sleep 10"],
    &["10", "sh", "-c", "sleep .1 & exit 3"],
];

const PASSED_ON: &[Case] = &[
    &["60", "sh", "-c", ". ./parent-waits; kill -TERM $PPID; exec sleep 10"],
    &["60", "sh", "-c", ". ./parent-waits; kill -INT $PPID; exec sleep 10"],
    &["60", "sh", "-c", ". ./parent-waits; kill -HUP $PPID; exec sleep 10"],
    &["60", "sh", "-c", ". ./parent-waits; kill -QUIT $PPID; exec sleep 10"],
    &["-p", "60", "sh", "-c", ". ./parent-waits; kill -TERM $PPID; exec sleep 10"],
    &["-f", "60", "sh", "-c", ". ./parent-waits; kill -TERM $PPID; exec sleep 10"],
    &["-v", "60", "sh", "-c", "trap 'exit 7' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
    &[
        "-s",
        "USR2",
        "60",
        "sh",
        "-c",
        "trap 'exit 7' USR2; . ./parent-waits; kill -USR2 $PPID; while :; do sleep .1; done",
    ],
    // Passing a signal on starts the kill-after clock. The first clock continues, and at its end KILL is sent too: long
    // before the kill-after clock would send it.
    &["-vk.1", "60", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
    &["-f", "-k.1", "60", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
    &["-f", "-k600", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
];

const DURATIONS: &[Case] = &[
    &["0", "true"],
    &["-k", "0", "0", "sh", "-c", "exit 3"],
    &["0.1s", "sleep", "10"],
    &["1e-1", "sleep", "10"],
    &["0x.2", "sleep", "10"],
    &["0x1p-4s", "sleep", "10"],
    &[".001m", "sleep", "10"],
    &["1e-6d", "sleep", "10"],
    &[" .1", "sleep", "10"],
    &["+.1", "sleep", "10"],
    &["1e-9", "sleep", "10"],
    &["0.000001", "sleep", "10"],
    &["0.000000000000000000001", "sleep", "10"],
    &[".0001h", "sleep", "10"],
    &["-k", ".0001h", "10", "sh", "-c", "trap '' TERM; while :; do sleep .1; done"],
    &["2.34e+5d", "true"],
    &["2147483648", "true"],
    &["4294967296", "true"],
    &["9223372036854775808", "true"],
    &["365000d", "true"],
    &["0d", "sh", "-c", "exit 3"],
    &["5 s", "true"],
    &["s", "true"],
    &["5sm", "true"],
    &["inf", "true"],
    &["infinityd", "true"],
    &["1e400", "true"],
    &["99999999999999999999d", "true"],
    &["-k", "inf", "inf", "true"],
    &["-k", "inf", ".1", "sleep", "10"],
    &["--", "-0", "true"],
    &["--", "-1", "true"],
    &["-1", "true"],
    &["", "true"],
    &["x", "true"],
    &["nan", "true"],
    &["1S", "true"],
    &["1ms", "true"],
    &["1 ", "true"],
    &["1,5", "true"],
    &["0x", "true"],
    &["1e", "true"],
    &["-k", "x", "1", "true"],
    &["-k", "-1", "1", "true"],
];

const COMMAND_LINES: &[Case] = &[
    &[],
    &["5"],
    &["-k", "5"],
    &["-s"],
    &["-x", "5", "true"],
    &["--nonsense", "5", "true"],
    &["--verbose=x", "5", "true"],
    &["-s", "TERMX", "5", "true"],
    &["-s", "", "5", "true"],
    &["-s", "65", "5", "true"],
    &["-s", "32", "5", "true"],
    &["-s", "-1", "5", "true"],
    &["-s", "RTMIN+99", "5", "true"],
    &["--", "5", "true"],
    &["-vv", "5", "true"],
    &["-k1", "-k2", "5", "true"],
    &["--kill-after=1", "--signal=INT", "--verbose", "--foreground", "--preserve-status", "5", "true"],
    &["--kill", "1", "--sig", "INT", "--fore", "--pres", "5", "true"],
    // Arguments after the command belong to the command.
    &["5", "echo", "-k", "1", "--help", "--", "-x"],
    &["5", "sh", "-c", "exit 4", "--help"],
    &["5", "env", "--", "sh", "-c", "exit 4"],
    &["5", "--help"],
    &["5", "-v", "true"],
    // Commands that cannot be run.
    &["5", "no-such-command"],
    &["5", "./no-such-file"],
    &["5", ""],
    &["5", "."],
    &["5", "./directory"],
    &["5", "./not-executable"],
    &["5", "./not-executable/beneath"],
    &["5", "./no-interpreter"],
    // A script without `#!` is run by the shell.
    &["5", "./no-shebang", "a b", "--", "-c"],
    &["5", "./empty"],
];

#[test]
fn status_is_that_of_timeout() {
    compare(STATUS);
}

#[test]
fn a_timed_out_command_ends_as_under_timeout() {
    compare(TIME_IS_UP);
}

#[test]
fn signals_are_passed_on_as_by_timeout() {
    compare(PASSED_ON);
}

#[test]
fn durations_mean_what_they_mean_to_timeout() {
    compare(DURATIONS);
}

#[test]
fn command_lines_mean_what_they_mean_to_timeout() {
    compare(COMMAND_LINES);
}

/// A signal that is ignored or blocked at the start, as a shell or a service manager may leave it.
#[test]
fn signals_ignored_or_blocked_at_the_start_matter_as_to_timeout() {
    let mut cases = Vec::new();
    for how in ["ignore", "block"] {
        for signal in ["CHLD", "ALRM", "TERM", "INT", "QUIT", "HUP", "PIPE", "TTIN", "TTOU", "TSTP", "CONT", "USR1"] {
            cases.push(format!("--{how}-signal={signal}"));
        }
    }
    compare_all(cases.iter().flat_map(|option| {
        [&[".1", "sleep", "10"][..], &["10", "sh", "-c", "exit 3"], &["-v", "-k9", "-s", "INT", ".1", "sleep", "40"]]
            .map(|case| (["env", option].map(str::to_owned).to_vec(), case))
    }));
}

/// Rust's runtime opens /dev/null in their place.
#[test]
fn streams_closed_at_the_start_stay_closed_as_under_timeout() {
    let cases: [(&str, Case); 4] = [
        (">&-", &["5", "echo", "x"]),
        ("<&-", &["5", "cat"]),
        ("2>&-", &["5", "sh", "-c", "echo x >&2 || exit 3"]),
        ("<&- >&- 2>&-", &["5", "sh", "-c", "for n in 0 1 2; do [ ! -e /proc/self/fd/$n ] || exit 4; done; exit 5"]),
    ];
    compare_all(cases.iter().map(|(closed, case)| {
        (["sh", "-c", &format!("exec \"$@\" {closed}"), "sh"].map(str::to_owned).to_vec(), *case)
    }));
}

/// Each has its own process group, unless it is in the foreground.
#[test]
fn nested_limits_end_as_under_timeout() {
    let ends_inner: &[&[&str]] = &[&["@.1"], &["@-f", "@.1"], &["@-s", "@INT", "@.1"], &["@-s", "@KILL", "@.1"]];
    let hangs: &[Case] = &[&["10", "sleep", "10"], &["-f", "10", "sleep", "10"]];
    let ends: &[Case] = &[&[".1", "sleep", "10"], &["10", "sh", "-c", "exit 3"], &["10", "sh", "-c", "kill -KILL $$"]];
    let pair = |outer: &[&str], inner: Case| (outer.iter().map(|word| (*word).to_owned()).collect(), inner);
    let outer_ends = ends_inner.iter().flat_map(|outer| hangs.iter().map(|inner| pair(outer, inner)));
    compare_all(outer_ends.chain(ends.iter().map(|inner| pair(&["@10"], inner))));
}

/// `timeout` treats a `--` after DURATION as the command.
#[test]
fn dashes_may_stand_before_the_command() {
    for args in [&["5", "--", "sh", "-c", "exit 6"][..], &["--", "5", "--", "sh", "-c", "exit 6"]] {
        assert_eq!(outcome(pausewatch().arg("run").args(args), Path::new(".")).end, End::Code(6), "{args:?}");
    }
    assert_eq!(outcome(pausewatch().args(["run", "5", "--", "--", "true"]), Path::new(".")).end, End::Code(127));
}
