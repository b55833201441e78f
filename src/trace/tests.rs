use super::on::{read, written};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_context_is_written_as_it_was_read() {
    let context = read(PARENT, Some("vendor=value")).unwrap();
    assert!(context.is_sampled() && context.is_remote());
    assert_eq!(context.trace_state().get("vendor"), Some("value"));
    assert_eq!(written(&context).as_deref(), Some(PARENT));
    assert!(!read(&PARENT.replace("-01", "-00"), None).unwrap().is_sampled());
    assert!(read(PARENT, Some("=")).is_some(), "an invalid state must not discard the parent");
}

#[test]
fn an_invalid_trace_context_is_ignored() {
    let later = PARENT.replacen("00", "01", 1) + "-more";
    assert!(read(&later, None).is_some(), "a later version must begin in the same way");
    for bad in [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-äaf7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
    ] {
        assert!(read(bad, None).is_none(), "{bad}");
    }
}
