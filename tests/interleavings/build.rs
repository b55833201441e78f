//! The messages of the proto: no client, no server, no network.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = "pausewatch/v1/elicitation_service.proto";
    println!("cargo:rerun-if-changed=../../proto/{file}");
    prost_build::Config::new().compile_fds(protox::compile([file], ["../../proto"])?)?;
    Ok(())
}
