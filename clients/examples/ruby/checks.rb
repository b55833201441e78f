#!/usr/bin/env ruby
# frozen_string_literal: true

# What the cases do not play: faults of the program that uses the timeouts, and of gRPC. Needs no server.
require "stringio"
require "timeout"
require_relative "stubs"
require_relative "pausable_timeout"

# Fails at first, as gRPC does in a child that was forked from a process with a stream.
module FailingAtFirst
  CALLS = Queue.new

  def new(...) = (CALLS << true) && CALLS.size == 1 ? raise("no gRPC after a fork") : super
end

NOWHERE = "127.0.0.1:1"

# Runs the block, and returns what it warned of.
def warnings
  $stderr, before = StringIO.new, $stderr
  Timeout.timeout(30) { yield }
  $stderr.string
ensure
  $stderr = before
end

def check(name, holds) = holds ? puts("checks: #{name}: ok") : abort("checks: #{name}: failed")

timeouts = PausableTimeouts.new(NOWHERE, grace: 0)
refused = ["", "x" * 257, "a\nb", "\u0085", "\xff", "\xff".b].select do |id|
  !timeouts.start(id, 60)
rescue ArgumentError, EncodingError
  true
end
check("an id that would end the stream of all threads is refused", refused.length == 6 && timeouts.start("é" * 128, 60).stop)

warned = warnings do
  timeouts.start("t", 0.01) { raise "oops" }.wait
  timeouts.start("t", 0.01) { warn "the next one" }.wait
end
check("a callback that fails ends no other timeout", warned.include?("oops") && warned.include?("the next one"))
timeouts.close

timeouts = PausableTimeouts.new(NOWHERE, grace: 0)
# The thread of the checks waits for the lock: as if the process were stopped.
late, resumed = timeouts.synchronize { [timeouts.start("t", 0.01), sleep(1.5) && PausableTimeouts.now] }
late.wait
check("a timeout whose end is found late has two seconds to ask", late.ended - resumed > 1.9)
timeouts.close

GRPC::Core::Channel.singleton_class.prepend(FailingAtFirst)
warned = warnings do
  timeouts = PausableTimeouts.new(NOWHERE, grace: 0)
  timeouts.start("t", 60)
  sleep(0.01) until FailingAtFirst::CALLS.size > 1
  timeouts.close
end
check("a stream that cannot be opened is followed by another", warned.include?("no gRPC after a fork"))

# Says its heartbeat interval once, and nothing more.
class SilentServer < Pausewatch::V1::ElicitationService::Service
  STREAMS = Queue.new

  def watch(requests, _call)
    STREAMS << true
    interval = Google::Protobuf::Duration.new(nanos: 100_000_000)
    Enumerator.new do |answers|
      answers << Pausewatch::V1::WatchResponse.new(heartbeat: Pausewatch::V1::Heartbeat.new(interval: interval))
      requests.each { |_| nil }
    end
  end
end

server = GRPC::RpcServer.new(pool_size: 4)
port = server.add_http2_port("127.0.0.1:0", :this_port_is_insecure)
server.handle(SilentServer)
serving = Thread.new { server.run }
timeouts = PausableTimeouts.new("127.0.0.1:#{port}")
timeouts.start("t", 60)
# Without the interval, the first stream would be dead after 30 s.
Timeout.timeout(15) { 2.times { SilentServer::STREAMS.pop } }
check("a stream is dead after two and a half of the server's heartbeats", true)
timeouts.close
server.stop
serving.join
