//! Compiles the protos with protox, so that no protoc needs to be installed, and keeps their descriptors for
//! server reflection and for the JSON output of the program.
use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
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
