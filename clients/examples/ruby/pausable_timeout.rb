# frozen_string_literal: true

# Timeouts that stop while their thread is paused, over one `Watch` stream, as docs/client-spec.md specifies them. All times
# are seconds of CLOCK_MONOTONIC. Load the stubs of the proto first (stubs.rb).
require "grpc"
require "monitor"
require_relative "paused_time"
require_relative "timeout"

# All timeouts of a process that share an address and a disconnect grace.
#
# I1: one request of the stream is unanswered at a time; `unanswered` is it.
# I2: only an answer to a request that was sent after a timeout was over confirms its end (`asked`).
# One lock; the callbacks of timeouts run under it and must not block.
class PausableTimeouts
  # Raised in a block whose time is over.
  class Expired < StandardError; end

  IDS, SILENCE, DEAD, LINGER, ANSWER, CONNECT = 500, 15, 30, 30, 0.25, 2
  CHANNEL = { "grpc.keepalive_time_ms" => 10_000, "grpc.keepalive_timeout_ms" => 5_000, "grpc.http2.max_pings_without_data" => 0,
              "grpc.min_reconnect_backoff_ms" => CONNECT * 1_000, "grpc.use_local_subchannel_pool" => 1 }.freeze
  Stream = Struct.new(:requests, :call, :known, :unanswered, :answered, :last_message, :add_from)

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def initialize(address, grace: 30)
    raise ArgumentError, "#{address}: no TLS here; use HOST:PORT, http://HOST:PORT or unix:PATH" if address.start_with?("https:")

    @address, @grace = address.delete_prefix("http://"), grace
    @channel = address.start_with?("unix:") ? CHANNEL.merge("grpc.default_authority" => "localhost") : CHANNEL
    @changed = (@lock = Monitor.new).new_cond
    @threads, @forbidden, @patience = {}, {}, ANSWER
    @workers = [Thread.new { follow }, Thread.new { look }]
  end

  # Starts a timeout of `limit` seconds. The block runs when it expires.
  def start(thread_id, limit, &expired)
    synchronize do
      thread = (@threads[thread_id] ||= FollowedThread.new(PausedTime.new(now, @grace), {}))
      changed
      Timeout.new(self, thread, limit, expired).tap { |timeout| thread.timeouts[timeout] = true }
    end
  end

  # Runs the block, and raises Expired in it when the limit is over.
  def run(thread_id, limit)
    caller = Thread.current
    Thread.handle_interrupt(Expired => :never) do
      timeout = start(thread_id, limit) { caller.raise(Expired, "#{thread_id}: the limit of #{limit} s is over") }
      Thread.handle_interrupt(Expired => :immediate) { yield timeout }
    ensure
      timeout&.stop
    end
  end

  # Stops all timeouts and the stream.
  def close
    synchronize do
      @closed = true
      @threads.each_value { |thread| thread.timeouts.keys.each(&:stop) }
      @stream&.call&.cancel
      changed
    end
    @workers.each(&:join)
  end

  def synchronize(&block) = @lock.synchronize(&block)
  def changed = @changed.broadcast
  def wait(seconds = nil) = @changed.wait(seconds)

  private

  def now = self.class.now

  # Pairs of a timeout and its thread's id.
  def timeouts = @threads.flat_map { |id, thread| thread.timeouts.keys.map { |timeout| [timeout, id] } }

  # Keeps a stream open while there are threads.
  def follow
    delay = 0.05
    until @closed
      synchronize { wait until @closed || !@threads.empty? }
      delay = 0.05 if !@closed && watch
      synchronize do
        ended, factor, left = now, 1 + rand, 0
        wait(left) until @closed || (left = ended + ((confirming? ? [delay, 0.1].min : delay) * factor) - now) <= 0
      end
      delay = [delay * 2, 3].min
    end
  end

  def confirming? = timeouts.any? { |timeout, _| timeout.over }

  # One stream, to its end; whether its first request was answered. Each has its own connection: gRPC would wait before it
  # connects the old one again.
  def watch
    channel = GRPC::Core::Channel.new(@address, @channel, :this_channel_is_insecure)
    stub = Pausewatch::V1::ElicitationService::Stub.new(@address, nil, channel_override: channel)
    stream = Stream.new(Queue.new, nil, {}, nil, 0, now, 0)
    requests = Enumerator.new { |sent| while (request = stream.requests.pop) do sent << request end }
    stream.call = stub.watch(requests, return_op: true) { |message| (time = now) && synchronize { receive(stream, message, time) } }
    synchronize { @closed ? stream.call.cancel : (@stream = stream) && send_changes }
    stream.call.execute
    stream.answered.positive?
  rescue GRPC::BadStatus, GRPC::Core::CallError
    stream.answered.positive?
  ensure
    synchronize { cut_off(stream) }
    stream.requests.close
    channel.close
  end

  def cut_off(stream)
    @stream, time = nil, now
    @threads.each_value { |thread| thread.disconnect(time - stream.last_message > SILENCE ? stream.last_message : time, time) }
    timeouts.each { |timeout, _| timeout.asked = nil }
    changed
  end

  # Sends what has changed since the last request, if that is answered. Confirmations go alone: a limit on watched threads
  # does not refuse them.
  def send_changes
    return if @stream.nil? || @stream.unanswered

    over = timeouts.select { |timeout, id| timeout.over && !timeout.asked && timeout.ask_from <= now && !@forbidden[id] }
    return ask(over.group_by(&:last).first(IDS)) unless over.empty?

    remove = (@stream.known.keys - @threads.keys).first(IDS)
    add = now < @stream.add_from ? [] : (@threads.keys - @stream.known.keys - @forbidden.keys).first(IDS - remove.size)
    return if (remove + add).empty?

    remove.each { |id| @stream.known.delete(id) }
    add.each { |id| @stream.known[id] = true }
    @stream.requests << (@stream.unanswered = Pausewatch::V1::WatchRequest.new(add: add, remove: remove))
  end

  def ask(over)
    over.each { |_, pairs| pairs.each { |timeout, _| timeout.asked = now } }
    @stream.requests << (@stream.unanswered = Pausewatch::V1::WatchRequest.new(confirm: over.map(&:first)))
  end

  def receive(stream, message, time)
    stream.last_message = time
    case message.event
    when :pause_state then apply(message.pause_state, time)
    when :confirmation then message.confirmation.pause_states.each { |state| confirm(state, time) }
    when :refusal then refused(stream, message.refusal, time)
    when :snapshot_complete then stream.answered, stream.unanswered, @patience = stream.answered + 1, nil, ANSWER
    end
    send_changes
    changed
  end

  def apply(state, time) = @threads[state.thread_id]&.apply(state, time)

  def confirm(state, time)
    return unless apply(state, time)

    thread = @threads[state.thread_id]
    thread.timeouts.keys.each { |timeout| timeout.confirm(time) }
    thread.disconnect(time, time) unless @stream&.known&.key?(state.thread_id) # No change of it will come.
  end

  def refused(stream, refusal, time)
    request, stream.unanswered = stream.unanswered, nil
    again = time + (refusal.retry_after ? PausedTime.seconds(refusal.retry_after) : 1)
    stream.add_from = again if request.add.any? && refusal.thread_ids.empty?
    request.remove.each { |id| stream.known[id] = true }
    request.add.each { |id| stream.known.delete(id) && @threads[id]&.disconnect(time, time) }
    request.confirm.each { |id| @threads[id]&.timeouts&.each_key { |timeout| timeout.ask_again(again) } }
    refusal.thread_ids.each { |id| @forbidden[id] = true }
    warn "pausewatch: #{refusal.reason}: #{refusal.message}"
  end

  # Looks at every timeout when one of them may be over, and when something has changed.
  def look
    synchronize do
      until @closed
        time = now
        next_look = timeouts.filter_map { |timeout, _| timeout.look(time, !@stream.nil?) }.min
        @threads.delete_if { |_, thread| thread.idle_for(time) > LINGER }
        replace_dead_stream(time)
        send_changes
        wait((next_look || time + 1).clamp(time + 0.001, time + 1) - time) unless @closed
      end
    end
  end

  # A stream is dead after a long silence, and sooner if it owes the answer to a confirmation.
  def replace_dead_stream(time)
    return unless @stream

    silence = time - @stream.last_message
    waits = timeouts.any? { |timeout, _| timeout.asked && time - timeout.asked > @patience }
    return unless silence > DEAD || (waits && silence > (@stream.answered.zero? ? CONNECT : @patience))

    @patience = [@patience * 2, DEAD].min
    @stream.call.cancel
  end
end
