# frozen_string_literal: true

# Timeouts that stop while their thread is paused, over one `Watch` stream, written from docs/client-spec.md. All times are
# seconds of CLOCK_MONOTONIC. One lock guards everything; the callbacks of timeouts run under it and must not block.
# Load the stubs of the proto first (stubs.rb).
require "grpc"
require "monitor"

# All timeouts of a process that share an address and a disconnect grace.
class PausableTimeouts
  # Raised in a block whose time is over.
  Expired = Class.new(StandardError)
  IDS, HEARTBEAT, DEAD, LINGER, ANSWER, CONNECT = 500, 15, 30, 30, 0.25, 2
  CHANNEL = { "grpc.keepalive_time_ms" => 10_000, "grpc.keepalive_timeout_ms" => 5_000, "grpc.http2.max_pings_without_data" => 0,
              "grpc.min_reconnect_backoff_ms" => CONNECT * 1_000, "grpc.use_local_subchannel_pool" => 1 }.freeze

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  def self.seconds(duration) = duration ? duration.seconds + (duration.nanos / 1e9) : 0.0

  # A thread with its timeouts, and how long it has been paused since it is followed ("The paused time of a thread").
  class FollowedThread
    attr_reader :timeouts

    def initialize(begun, grace) = (@begun, @grace, @cut_off_at, @paused, @timeouts = begun, grace, begun, 0.0, [])
    def at(time) = @paused + (@last&.paused ? [time, assumed_until].min - @last_at : 0)
    def assumed_until = @cut_off_at ? @cut_off_at + @grace : Float::INFINITY
    def paused?(time) = !!@last&.paused && time < assumed_until
    def linked? = @cut_off_at.nil?
    def idle?(time) = timeouts.empty? ? time - (@idle_since ||= time) > LINGER : (@idle_since = nil)

    # What is left of the grace after a pause that was assumed since `from`.
    def grace_left(from, time)
      @last&.paused && @cut_off_at ? @grace - ([time, assumed_until].min - [@cut_off_at, from].max).clamp(0, @grace) : @grace
    end

    def disconnect(at, time)
      @cut_off_at ||= [at, @last_at].compact.max
      timeouts.each { |timeout| (timeout.asked = nil) || timeout.correct(time) }
    end

    def apply(state, time)
      total = PausableTimeouts.seconds(state.paused_total)
      @paused = [@paused + (@last ? growth(state, total, time) : total), time - @begun].min
      @last, @last_total, @last_at, @cut_off_at = state, total, time, nil
      timeouts.each { |timeout| timeout.correct(time) }
    end

    def growth(state, total, time)
      epochs = [state.store_epoch, @last.store_epoch]
      is_comparable = (epochs.include?(0) || epochs.uniq.one?) && state.revision >= @last.revision && total >= @last_total
      return [total - @last_total, time - @last_at + HEARTBEAT].min if is_comparable

      seen = @last.paused ? (@cut_off_at || time) : @last_at
      [at(time), at(seen) + [total, time - seen].min].max - @paused
    end
  end

  # One timeout ("A timeout"). `over`: since when its time is over; `asked`: when the confirmation of that was requested.
  class Timeout
    attr_accessor :begun, :ended, :expired, :thread, :over, :asked

    def initialize(owner, thread, limit, callback)
      @owner, @thread, @limit, @callback, @own, @shown = owner, thread, limit, callback, [], 0.0
      @base = thread.at(@begun = @start = PausableTimeouts.now)
    end

    def paused?(time) = !@own.empty? || @thread.paused?(time)
    # What a program shows: it never goes backwards.
    def shown(time) = @shown = [@shown, charged(time)].max
    # Waits until it has expired or was stopped.
    def wait = @owner.synchronize { @owner.wait until @ended }
    # Ends it early.
    def stop = @owner.synchronize { finish(false) || self }

    # Begins a pause of this timeout alone, and ends it. Pauses overlap with each other and with those of the thread.
    def pause(name) = @owner.synchronize { @frozen = (now = PausableTimeouts.now), @thread.at(now) if (@own << name).one? }

    def resume(name)
      @owner.synchronize do
        next unless @own.delete(name) && @own.empty?

        now = PausableTimeouts.now
        @start, @base = @start + now - @frozen[0], @base + @thread.at(now) - @frozen[1]
        @owner.changed
      end
    end

    # What was assumed before the start and turned out wrong is not charged; what was paused before is not credited.
    def correct(time)
      paused = @thread.at(time)
      @base = paused - (paused - @base).clamp(0, [time - @start, 0].max) if @own.empty?
    end

    # When to look again. Ends it when its time is over and there was no answer for the grace.
    def look(time, has_stream)
      return settle([@thread.assumed_until, time + 3_600].min) if paused?(time)

      left = @limit - charged(time)
      return settle(time + left) if left.positive?

      @over ||= time
      final = [@over + @thread.grace_left(@begun, time), has_stream ? (@asked || @over) + ANSWER : 0].max
      finish(true) if time >= final
      [final, time + ANSWER].min
    end

    # An answer has come to a request that was sent after the time was over.
    def confirm(time) = @asked && (paused?(time) || charged(time) < @limit ? settle(time) : finish(true))

    # Its time is not over, or it has ended.
    def settle(look_again) = (@over = @asked = nil) || look_again

    def charged(time)
      time, paused = @own.empty? ? [time, @thread.at(time)] : @frozen
      @final || [time - @start - (paused - @base), 0.0].max
    end

    def finish(expired)
      return if @ended

      @final, @ended, @expired = charged(now = PausableTimeouts.now), now, expired
      @thread.timeouts.delete(self)
      @callback&.call if expired
      @owner.changed
    end
  end

  def initialize(address, grace: 30)
    raise ArgumentError, "#{address}: no TLS here; use HOST:PORT, http://HOST:PORT or unix:PATH" if address.start_with?("https:")

    @address, @grace = address.delete_prefix("http://"), grace
    @channel = address.start_with?("unix:") ? CHANNEL.merge("grpc.default_authority" => "localhost") : CHANNEL
    @changed, @threads, @patience = (@lock = Monitor.new).new_cond, {}, ANSWER
    @workers = [Thread.new { follow }, Thread.new { look }]
  end

  # Starts a timeout of `limit` seconds. The block runs when it expires.
  def start(thread_id, limit, &expired)
    synchronize do
      thread = @threads[thread_id] ||= FollowedThread.new(now, @grace)
      Timeout.new(self, thread, limit, expired).tap { |timeout| (thread.timeouts << timeout) && changed }
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
    synchronize { (@closed = true) && timeouts.each(&:stop) && (@call&.cancel || changed) }
    @workers.each(&:join)
  end

  def synchronize(&block) = @lock.synchronize(&block)
  def changed = @changed.broadcast
  def wait(seconds = nil) = @changed.wait(seconds)

  private

  def now = self.class.now
  def timeouts = @threads.values.flat_map(&:timeouts)

  # Keeps a stream open while there are threads.
  def follow
    delay = 0.05
    until @closed
      synchronize { wait until @closed || !@threads.empty? }
      watch unless @closed
      delay = 0.05 if @answered
      ended, factor = now, 1 + rand
      sleep(0.01) until @closed || now - ended >= factor * (synchronize { timeouts.any?(&:over) } ? [delay, 0.1].min : delay)
      delay = [delay * 2, 3].min
    end
  end

  # One stream, to its end, on a connection of its own: gRPC would wait before it connects the old one again.
  def watch
    queue, channel = Queue.new, GRPC::Core::Channel.new(@address, @channel, :this_channel_is_insecure)
    stub = Pausewatch::V1::ElicitationService::Stub.new(@address, nil, channel_override: channel)
    requests = Enumerator.new { |sent| while (request = queue.pop) do sent << request end }
    call = stub.watch(requests, return_op: true) { |message| (time = now) && synchronize { receive(message, time) } }
    synchronize do
      @call, @requests, @watched, @unanswered, @answered, @last_message, @add_from = call, queue, {}, nil, false, now, 0
      @closed ? call.cancel : send_request
    end
    call.execute
  rescue GRPC::BadStatus, GRPC::Core::CallError
    # The next stream follows.
  ensure
    synchronize { cut_off }
    [queue, channel].each(&:close)
  end

  def cut_off
    @call, time = nil, now
    @threads.each_value { |thread| thread.disconnect(time - @last_message > HEARTBEAT ? @last_message : time, time) }
    changed
  end

  # Sends what has changed since the last request, if that is answered; questions alone, so that no limit delays them.
  def send_request
    return if @call.nil? || @unanswered

    ask = @threads.select { |_, thread| thread.timeouts.any? { |timeout| timeout.over && !timeout.asked } }.first(IDS).to_h
    ask.each_value { |thread| thread.timeouts.each { |timeout| timeout.asked = now if timeout.over } }
    remove = ask.empty? ? (@watched.keys - @threads.keys).first(IDS) : []
    add = ask.empty? && now >= @add_from ? (@threads.keys - @watched.keys).first(IDS - remove.size) : []
    return if ask.empty? && (remove + add).empty?

    @watched = @watched.except(*remove).merge(add.to_h { |id| [id, true] })
    @requests << (@unanswered = Pausewatch::V1::WatchRequest.new(add: add, remove: remove, confirm: ask.keys))
  end

  def receive(message, time)
    @last_message = time
    case message.event
    when :pause_state then @threads[message.pause_state.thread_id]&.apply(message.pause_state, time)
    when :confirmation then message.confirmation.pause_states.each { |state| confirm(state, time) }
    when :refusal then refused(message.refusal, time)
    when :snapshot_complete then @answered, @unanswered, @patience = true, nil, ANSWER
    end
    send_request
    changed
  end

  def confirm(state, time)
    return unless (thread = @threads[state.thread_id])

    thread.apply(state, time)
    thread.timeouts.dup.each { |timeout| timeout.confirm(time) }
    thread.disconnect(time, time) unless @watched[state.thread_id] # No change of it will come.
  end

  # Without tokens, only limits refuse a request: what it would have added is added later.
  def refused(refusal, time)
    warn "pausewatch: #{refusal.reason}: #{refusal.message}"
    @add_from = time + (refusal.retry_after ? PausableTimeouts.seconds(refusal.retry_after) : 1)
    @watched = @watched.except(*@unanswered.add).merge(@unanswered.remove.to_h { |id| [id, true] })
    @unanswered.add.each { |id| @threads[id]&.disconnect(time, time) }
    @unanswered = nil
  end

  # Looks at every timeout when one of them may be over, and when something has changed.
  def look
    synchronize do
      until @closed
        time = now
        next_look = timeouts.map { |timeout| timeout.look(time, !@call.nil?) }.min || (time + 1)
        @threads.delete_if { |_, thread| thread.idle?(time) }
        @call.cancel if @call && dead?(time)
        send_request
        wait(next_look.clamp(time + 0.001, time + 1) - time) unless @closed
      end
    end
  end

  # A stream is dead after a long silence, and sooner if it owes the answer to a confirmation.
  def dead?(time)
    silence, patience = time - @last_message, @answered ? @patience : [@patience, CONNECT].max
    owes = silence > patience && timeouts.any? { |timeout| timeout.asked && time - timeout.asked > patience }
    @patience = [@patience * 2, DEAD].min if owes
    owes || silence > DEAD
  end
end
