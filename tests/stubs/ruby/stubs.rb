# frozen_string_literal: true

# Calls, a watch and a decrement over every transport, with the stubs of grpc_tools_ruby_protoc.
require "pausewatch/v1/elicitation_service_services_pb"
API = Pausewatch::V1

def expect(actual, expected)
  actual == expected or abort("#{actual.inspect}, not #{expected.inspect}")
end

def use(address, credentials)
  service = API::ElicitationService::Stub.new(address, credentials, timeout: 60)
  watch = service.watch_pause_state(API::WatchPauseStateRequest.new(thread_ids: ["ruby"]), return_op: true)
  states = watch.execute.lazy.map(&:pause_state).reject(&:nil?).each_entry
  expect(states.next.count, 0)
  opened = service.increment_elicitation(API::IncrementElicitationRequest.new(thread_id: "ruby"))
  expect([opened.count, opened.paused], [1, true])
  expect(states.next.paused, true)
  closed = service.decrement_elicitation(API::DecrementElicitationRequest.new(thread_id: "ruby"))
  expect([closed.count, closed.paused], [0, false])
  expect(states.next.paused, false)
  watch.cancel
end

authorities = GRPC::Core::ChannelCredentials.new(File.read(ENV.fetch("STUBS_CA")))
{
  "tcp" => [ENV.fetch("STUBS_TCP"), :this_channel_is_insecure],
  "tls" => [ENV.fetch("STUBS_TLS"), authorities],
  "unix" => ["unix:#{ENV.fetch('STUBS_UNIX')}", :this_channel_is_insecure]
}.each do |transport, arguments|
  use(*arguments)
  puts "ok #{transport}"
end
