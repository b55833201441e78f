# frozen_string_literal: true

# Generates the stubs of the proto into a temporary folder and loads them; nothing generated is kept.
require "tmpdir"

proto = File.expand_path("../../../proto", __dir__)
Dir.mktmpdir("pausewatch-stubs") do |folder|
  command = ["grpc_tools_ruby_protoc", "-I", proto, "--ruby_out", folder, "--grpc_out", folder, "pausewatch/v1/elicitation_service.proto"]
  system(*command, out: :err) or abort("stubs: grpc_tools_ruby_protoc failed: install ruby-grpc-tools and libprotobuf-dev (or the gem grpc-tools)")
  $LOAD_PATH.unshift(folder)
  require "pausewatch/v1/elicitation_service_services_pb"
  $LOAD_PATH.delete(folder)
end
