//! Compiles the protos with protox, so that no protoc needs to be installed, and keeps their descriptors for
//! server reflection and for the JSON output of the program.
use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    link_at_fixed_address();
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["pausewatch/v1/elicitation_service.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("pausewatch.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(false)
        .compile_fds(descriptors.clone())?;
    if env::var_os("CARGO_FEATURE_SERVER").is_some() {
        // By itself: it reads requests by a codec of its own.
        fs::create_dir_all(out.join("server"))?;
        tonic_prost_build::configure()
            .build_client(false)
            .codec_path("crate::server::grpc::RequestCodec")
            .extern_path(".pausewatch.v1", "crate::proto::v1")
            .out_dir(out.join("server"))
            .compile_fds(descriptors)?;
    }
    Ok(())
}

/// Links the program at a fixed address: 0.8 MB less memory in each of its processes, of which there is one for each command of an exec
/// server, half a millisecond less to start it, and 1 MB less of file ("Memory and start" in
/// docs/decisions/0004-execs-judged-by-seccomp-notification.md). Libraries, stacks and heaps keep their random addresses.
fn link_at_fixed_address() {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found.split(',').any(|part| part == value));
    // A static program of musl is linked in another way.
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && !is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
