# frozen_string_literal: true

# Timeouts that stop while their thread is paused, over one `Watch` stream, written from docs/client-spec.md. All times are
# seconds of CLOCK_MONOTONIC. One lock guards everything; the callbacks of timeouts run under it and must not block.
# Load the stubs of the proto first (stubs.rb).
require "grpc"
require "monitor"

# All timeouts of a process that share an address and a disconnect grace.
class PausableTimeouts
  # Raised in a block whose time has run out.
  Expired = Class.new(StandardError)
  MAX_IDS, HEARTBEAT_INTERVAL, SILENCE_TIMEOUT, LINGER, CONFIRMATION_TIMEOUT, CONNECT_TIMEOUT = 500, 15, 30, 30, 0.25, 2
  CHANNEL = { "grpc.keepalive_time_ms" => 10_000, "grpc.keepalive_timeout_ms" => 5_000, "grpc.http2.max_pings_without_data" => 0,
              "grpc.min_reconnect_backoff_ms" => CONNECT_TIMEOUT * 1_000, "grpc.use_local_subchannel_pool" => 1 }.freeze

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  def self.seconds(duration) = duration ? duration.seconds + (duration.nanos / 1e9) : 0.0

  # A thread, its timeouts, and its paused time since it was followed first ("The paused time of a thread").
  class FollowedThread
    attr_reader :timeouts

    def initialize(begun, grace) = (@begun, @grace, @disconnected_at, @paused, @timeouts = begun, grace, begun, 0.0, [])
    def at(time) = @paused + (@last&.paused ? [time, assumed_until].min - @last_at : 0)
    def assumed_until = @disconnected_at ? @disconnected_at + @grace : Float::INFINITY
    def paused?(time) = !!@last&.paused && time < assumed_until
    def linked? = @disconnected_at.nil?
    def idle?(time) = timeouts.empty? ? time - (@idle_since ||= time) > LINGER : (@idle_since = nil)

    # The rest of the grace after a pause that was assumed since `from`.
    def grace_left(from, time)
      @last&.paused && @disconnected_at ? @grace - ([time, assumed_until].min - [@disconnected_at, from].max).clamp(0, @grace) : @grace
    end

    def disconnect(at, time)
      @disconnected_at ||= [at, @last_at].compact.max
      timeouts.each { |timeout| (timeout.requested_at = nil) || timeout.correct(time) }
    end

    def apply(state, time)
      total = PausableTimeouts.seconds(state.paused_total)
      @paused = [@paused + (@last ? growth(state, total, time) : total), time - @begun].min
      @last, @last_total, @last_at, @disconnected_at = state, total, time, nil
      timeouts.each { |timeout| timeout.correct(time, PausableTimeouts.seconds(state.paused_for)) }
    end

    def growth(state, total, time)
      epochs = [state.store_epoch, @last.store_epoch]
      is_comparable = (epochs.include?(0) || epochs.uniq.one?) && state.revision >= @last.revision && total >= @last_total
      return [total - @last_total, time - @last_at + HEARTBEAT_INTERVAL].min if is_comparable

      seen = @last.paused ? (@disconnected_at || time) : @last_at
      [at(time), at(seen) + [total, time - seen].min].max - @paused
    end
  end

  # One timeout ("A timeout"). `ran_out`: when its time ran out (or nil); `requested_at`: when its confirmation was requested.
  class Timeout
    attr_accessor :begun, :ended, :expired, :thread, :ran_out, :requested_at

    def initialize(owner, thread, limit, callback)
      @owner, @thread, @limit, @callback, @own, @shown = owner, thread, limit, callback, [], 0.0
      @base = thread.at(@begun = @start = PausableTimeouts.now)
    end

    def paused?(time) = !@own.empty? || @thread.paused?(time)
    # The elapsed time to report; it never decreases.
    def shown(time) = @shown = [@shown, charged(time)].max
    # Waits until it has expired or was stopped.
    def wait = @owner.synchronize { @owner.wait until @ended }
    # Ends it early.
    def stop = @owner.synchronize { finish(false) || self }

    # Begins and ends a pause of this timeout only. Pauses may overlap with each other and with those of the thread.
    def pause(name) = @owner.synchronize { @frozen = (now = PausableTimeouts.now), @thread.at(now) if (@own << name).one? }

    def resume(name)
      @owner.synchronize do
        next unless @own.delete(name) && @own.empty?

        now = PausableTimeouts.now
        @start, @base = @start + now - @frozen[0], @base + @thread.at(now) - @frozen[1]
        @owner.changed
      end
    end

    # A wrong assumption about the time before the start is not charged; a pause before the start is not credited. `paused_for`: how
    # long the open pause of the state has lasted. That of the first state is credited: the time before it may be older than the start.
    def correct(time, paused_for = 0)
      paused, most, least = @thread.at(time), [time - @start, 0].max, @has_state ? 0 : paused_for
      @base, @has_state = paused - (paused - @base).clamp([least, most].min, most), @has_state || @thread.linked? if @own.empty?
    end

    # Returns the time of the next check. Ends it if its time ran out and there was no confirmation for the grace.
    def check(time, has_stream)
      return settle([@thread.assumed_until, time + 3_600].min) if paused?(time)

      left = @limit - charged(time)
      return settle(time + left) if left.positive?

      # Found late, after the process was stopped, it has the time for a new stream to answer.
      @ran_out ||= (@least = left < -1 ? time + CONNECT_TIMEOUT : time) && time
      final = [@least, @ran_out + @thread.grace_left(@begun, time), has_stream ? (@requested_at || @ran_out) + CONFIRMATION_TIMEOUT : 0].max
      finish(true) if time >= final
      [final, time + CONFIRMATION_TIMEOUT].min
    end

    # Applies a confirmation that was requested after the time ran out.
    def confirm(time) = @requested_at && (paused?(time) || charged(time) < @limit ? settle(time) : finish(true))

    # Its time has not run out, or it has ended.
    def settle(next_check) = (@ran_out = @requested_at = nil) || next_check

    def charged(time)
      time, paused = @own.empty? ? [time, @thread.at(time)] : @frozen
      @final || [time - @start - (paused - @base), 0.0].max
    end

    def finish(expired)
      return if @ended

      @final, @ended, @expired = charged(now = PausableTimeouts.now), now, expired
      @thread.timeouts.delete(self)
      (@callback&.call rescue warn("pausewatch: a callback failed: #{$!.full_message}")) if expired
      @owner.changed
    end
  end

  def initialize(address, grace: 30)
    raise ArgumentError, "#{address}: no TLS here; use HOST:PORT, http://HOST:PORT or unix:PATH" if address.start_with?("https:")

    @address, @grace = address.delete_prefix("http://"), grace
    @channel = address.start_with?("unix:") ? CHANNEL.merge("grpc.default_authority" => "localhost") : CHANNEL
    @changed, @threads, @confirmation_timeout, @last_message = (@lock = Monitor.new).new_cond, {}, CONFIRMATION_TIMEOUT, now
    @workers = [Thread.new { follow }, Thread.new { check }]
  end

  # Starts a timeout of `limit` seconds. The block is called when it expires.
  def start(thread_id, limit, &expired)
    # An invalid id would end the stream, for all threads.
    is_short = thread_id.encode(Encoding::UTF_8).bytesize.between?(1, 256)
    raise ArgumentError, "thread_id: 1 to 256 bytes without control characters" if !is_short || thread_id.match?(/[[:cntrl:]]/)

    synchronize do
      thread = @threads[thread_id] ||= FollowedThread.new(now, @grace)
      Timeout.new(self, thread, limit, expired).tap { |timeout| (thread.timeouts << timeout) && changed }
    end
  end

  # Runs the block, and raises Expired in it when the timeout expires.
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
    synchronize { (@closed = true) && timeouts.each(&:stop) && (@call&.cancel || changed) }
    @workers.each(&:join)
  end

  def synchronize(&block) = @lock.synchronize(&block)
  def changed = @changed.broadcast
  def wait(seconds = nil) = @changed.wait(seconds)

  private

  def now = self.class.now
  def timeouts = @threads.values.flat_map(&:timeouts)

  # Keeps a stream open while threads are followed.
  def follow
    delay = 0.05
    until @closed
      synchronize { wait until @closed || !@threads.empty? }
      watch unless @closed
      delay, ended, factor = @answered ? 0.05 : delay, now, 1 + rand
      sleep(0.01) until @closed || now - ended >= factor * (synchronize { timeouts.any?(&:ran_out) } ? [delay, 0.1].min : delay)
      delay = [delay * 2, 3].min
    end
  end

  # Reads one stream to its end. It has a connection of its own: gRPC would wait before it reconnects the old one.
  def watch
    queue, channel = Queue.new, GRPC::Core::Channel.new(@address, @channel, :this_channel_is_insecure)
    stub = Pausewatch::V1::ElicitationService::Stub.new(@address, nil, channel_override: channel)
    requests = Enumerator.new { |sent| while (request = queue.pop) do sent << request end }
    call = stub.watch(requests, return_op: true) { |message| (time = now) && synchronize { receive(message, @last_message = time) } }
    synchronize do
      @call, @requests, @watched, @unanswered, @answered, @last_message, @add_not_before, @interval = call, queue, {}, nil, false, now, 0, nil
      @closed ? call.cancel : send_request
    end
    call.execute
  rescue StandardError => e
    # `follow` opens the next stream. Other errors are those of gRPC itself, for example in a forked child.
    warn "pausewatch: no stream: #{e.message}" unless e.is_a?(GRPC::BadStatus) || e.is_a?(GRPC::Core::CallError)
  ensure
    synchronize { on_disconnected }
    [queue, channel].compact.each(&:close)
  end

  def on_disconnected
    @call, time = nil, now
    @threads.each_value { |thread| thread.disconnect(time - @last_message > (@interval || HEARTBEAT_INTERVAL) ? @last_message : time, time) } && changed
  end

  # Sends the changes since the last request, if that was answered. Confirmations are sent alone: no limit delays them.
  def send_request
    return if @call.nil? || @unanswered

    confirm = @threads.select { |_, thread| thread.timeouts.any? { |timeout| timeout.ran_out && !timeout.requested_at } }.first(MAX_IDS).to_h
    confirm.each_value { |thread| thread.timeouts.each { |timeout| timeout.requested_at = now if timeout.ran_out } }
    remove = confirm.empty? ? (@watched.keys - @threads.keys).first(MAX_IDS) : []
    add = confirm.empty? && now >= @add_not_before ? (@threads.keys - @watched.keys).first(MAX_IDS - remove.size) : []
    return if confirm.empty? && (remove + add).empty?

    @watched = @watched.except(*remove).merge(add.to_h { |id| [id, true] })
    @requests << (@unanswered = Pausewatch::V1::WatchRequest.new(add: add, remove: remove, confirm: confirm.keys))
  end

  def receive(message, time)
    case message.event
    when :pause_state then @threads[message.pause_state.thread_id]&.apply(message.pause_state, time)
    when :confirmation then message.confirmation.pause_states.each { |state| confirm(state, time) }
    when :refusal then refused(message.refusal, time)
    when :heartbeat then @interval = message.heartbeat.interval&.then { |said| self.class.seconds(said).clamp(0.1, 3_600) }
    when :snapshot_complete then @answered, @unanswered, @confirmation_timeout = true, nil, CONFIRMATION_TIMEOUT
    end
    send_request
    changed
  end

  def confirm(state, time)
    return unless (thread = @threads[state.thread_id])

    thread.apply(state, time)
    thread.timeouts.dup.each { |timeout| timeout.confirm(time) }
    thread.disconnect(time, time) unless @watched[state.thread_id] # No changes of it will follow.
  end

  # Without tokens, only limits refuse a request: its threads are added later.
  def refused(refusal, time)
    warn "pausewatch: #{refusal.reason}: #{refusal.message}"
    @add_not_before = time + (refusal.retry_after ? PausableTimeouts.seconds(refusal.retry_after) : 1)
    @watched = @watched.except(*@unanswered.add).merge(@unanswered.remove.to_h { |id| [id, true] })
    @unanswered.add.each { |id| @threads[id]&.disconnect(time, time) } && (@unanswered = nil)
  end

  # Checks every timeout when one of them may have run out, and after every change.
  def check
    synchronize do
      until @closed
        time = now
        next_check = timeouts.map { |timeout| timeout.check(time, !@call.nil?) }.min || (time + 1)
        @threads.delete_if { |_, thread| thread.idle?(time) }
        @call.cancel if @call && dead?(time)
        send_request
        wait(next_check.clamp(time + 0.001, time + 1) - time) unless @closed
      end
    end
  end

  # A stream is dead after a long silence (two and a half heartbeats, if the server says their interval), and sooner while a confirmation is awaited.
  def dead?(time)
    silence, longest = time - @last_message, @answered ? @confirmation_timeout : [@confirmation_timeout, CONNECT_TIMEOUT].max
    is_late = silence > longest && timeouts.any? { |timeout| timeout.requested_at && time - timeout.requested_at > longest }
    @confirmation_timeout = [@confirmation_timeout * 2, SILENCE_TIMEOUT].min if is_late
    is_late || silence > (@interval ? 2.5 * @interval : SILENCE_TIMEOUT)
  end
end
