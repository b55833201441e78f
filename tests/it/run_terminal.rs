//! `pausewatch run` in a script at a terminal: the script's process group has the terminal, and the command is in another one.
use crate::pty::Terminal;
use crate::shell::{plain, signal};

/// The path of the program, for the scripts.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

/// Asks under `hold`, and shows the answer.
const ASKS: &str = "$P hold -- sh -c 'echo name?; read name; echo got $name'";

/// A script in bash, which runs this tool as `sh "$TOOL"`.
fn script(text: &str, tool: &str) -> (std::process::Command, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let [script, file] = ["script", "tool"].map(|name| directory.path().join(name));
    std::fs::write(&script, text).unwrap();
    std::fs::write(&file, tool).unwrap();
    let mut command = plain("bash");
    command.arg(script).env("P", PROGRAM).env("TOOL", file);
    (command, directory)
}

#[test]
fn a_command_of_a_script_reads_the_answer_from_the_terminal_while_its_thread_is_paused() {
    // Also without an echo, which changes the terminal, and without a limit.
    let hidden = "$P hold -- sh -c 'stty -echo; echo word?; read word; stty echo; echo got $word'";
    for limit in ["60", "0"] {
        let text = format!("$P run {limit} sh \"$TOOL\"; echo code $?; read line; echo script $line");
        let (script, _directory) = script(&text, &format!("{ASKS}\n{hidden}\nexit 3"));
        let mut terminal = Terminal::start_without_jobs(&script, 100, 30);
        terminal.wait_for_text("name?");
        terminal.write("me\n");
        terminal.wait_for_text("got me");
        terminal.wait_for_text("word?");
        terminal.write("secret\n");
        terminal.wait_for_text("got secret");
        terminal.wait_for_text("code 3");
        // The terminal is the script's again.
        terminal.write("mine\n");
        terminal.wait_for_text("script mine");
        terminal.wait_for_end(0);
        assert!(!terminal.screen.text().contains("is stopped"), "{}", terminal.screen.text());
    }
}

/// Each use of the terminal stops it first, and it asks again when it continues.
#[test]
fn askpass_in_a_script_asks_once() {
    let ask = |prompt: &str| format!("echo \"got $($P askpass '{prompt}: ')\"\n");
    let (mut script, _directory) =
        script("$P run 60 sh \"$TOOL\"; echo code $?", &[ask("Word"), ask("Username")].concat());
    script.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::start_without_jobs(&script, 100, 30);
    for (prompt, answer) in [("Word:", "secret"), ("Username:", "me")] {
        terminal.wait_for_text(prompt);
        terminal.write(format!("{answer}\n"));
        terminal.wait_for_text(&format!("got {answer}"));
        assert_eq!(terminal.screen.text().matches(prompt).count(), 1, "{}", terminal.screen.text());
    }
    terminal.wait_for_text("code 0");
}

/// As with GNU `timeout`, but it says so at once.
#[test]
fn a_command_that_is_stopped_because_it_reads_without_a_pause_is_reported() {
    for (option, end) in [("-p", "code 143"), ("-v", "code 124")] {
        // The command may not even write (tostop); our own message must not stop us.
        let text = format!("stty tostop; sh -c 'echo pid $$.; exec $P run {option} 60 sh \"$TOOL\"'; echo code $?");
        let (script, _directory) = script(&text, "read name");
        let mut terminal = Terminal::start_without_jobs(&script, 240, 30);
        terminal.wait_for_text("command ‘sh’ is stopped because it uses the terminal; use --foreground, or");
        let shown = terminal.screen.text();
        let run = shown.split_once("pid ").unwrap().1.split_once('.').unwrap().0.to_owned();
        signal(&run, "ALRM");
        terminal.wait_for_text(end);
        assert_eq!(terminal.screen.text().matches("is stopped").count(), 1);
    }
}

/// As from a tool of the script's own process group.
#[test]
fn an_interrupt_during_the_question_ends_the_command_and_reaches_the_script() {
    let text = "trap 'echo script interrupted' INT; $P run 60 sh \"$TOOL\"; echo code $?";
    let (script, _directory) = script(text, ASKS);
    let mut terminal = Terminal::start_without_jobs(&script, 100, 30);
    terminal.wait_for_text("name?");
    terminal.wait_for_foreground("pausewatch");
    terminal.write("\u{3}");
    terminal.wait_for_text("script interrupted");
    terminal.wait_for_text("code 130");
    assert_eq!(terminal.screen.text().matches("script interrupted").count(), 1);
}

#[test]
fn ctrl_z_during_the_question_stops_the_script_and_fg_continues_both() {
    let (script, _directory) = script("$P run 60 sh \"$TOOL\"; echo code $?", ASKS);
    let mut terminal = Terminal::start(&script, 100, 30);
    terminal.wait_for_text("name?");
    terminal.wait_for_foreground("pausewatch");
    terminal.write("\u{1a}");
    terminal.wait_for_end(148);
    terminal.write("echo between\n");
    terminal.wait_for_text("between\nended 0");
    terminal.write("fg\n");
    terminal.write("me\n");
    terminal.wait_for_text("got me");
    terminal.wait_for_text("code 0");
}

/// Nobody could continue it.
#[test]
fn ctrl_z_has_no_effect_on_a_script_without_a_shell_that_controls_jobs() {
    let (script, _directory) = script("$P run 60 sh \"$TOOL\"; echo code $?", ASKS);
    let mut terminal = Terminal::start_without_jobs(&script, 100, 30);
    terminal.wait_for_text("name?");
    terminal.wait_for_foreground("pausewatch");
    terminal.write("\u{1a}");
    terminal.write("me\n");
    terminal.wait_for_text("got me");
    terminal.wait_for_text("code 0");
}
