//! Whoever can type into the terminal of an allowed program decides what it does: `!sh` in a pager.
use super::{GREET, Place, until};
use serde_json::json;

#[test]
fn nothing_leaves_unasked_from_a_command_with_a_terminal() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(GREET);
    for tty in [true, false] {
        let mut arguments = place.arguments("greet; echo end");
        arguments["tty"] = json!(tty);
        let answer = client.call("exec_command", arguments);
        client.output_until(&answer, "end");
        if !tty {
            until("it runs outside", || place.made());
        } else {
            assert_eq!(place.made(), None, "{answer}");
        }
    }
    // A terminal that the command has made itself.
    place.program("project/sourced", "greet < /dev/ptmx\n");
    place.assert_stays(&mut client, "greet < /dev/ptmx", "others can type into its terminal");
}
