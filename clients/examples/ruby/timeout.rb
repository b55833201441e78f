# frozen_string_literal: true

# A thread with its timeouts. It is followed for a while after its last timeout.
FollowedThread = Struct.new(:time, :timeouts, :idle_since) do
  def apply(state, now)
    time.apply(state, now)
    timeouts.each_key { |timeout| timeout.correct(now) }
  end

  def disconnect(at, now)
    time.disconnect(at)
    timeouts.each_key { |timeout| timeout.correct(now) }
  end

  def idle_for(now)
    self.idle_since = timeouts.empty? ? (idle_since || now) : nil
    idle_since ? now - idle_since : 0
  end
end

# One timeout ("A timeout" in docs/client-spec.md). All of it runs under the lock of its owner.
class PausableTimeouts
  class Timeout
    # `over`: since when its time is over; `asked`: when the confirmation of that was requested; `ask_from`: not before.
    attr_accessor :over, :asked
    attr_reader :ask_from

    def initialize(owner, followed, limit, expired)
      @owner, @followed, @thread, @limit, @callback = owner, followed, followed.time, limit, expired
      @begun = @start = PausableTimeouts.now
      @base, @own, @shown, @ask_from = @thread.at(@start), {}, 0.0, 0
    end

    # A consistent snapshot, in seconds. `charged` never goes backwards.
    def read
      @owner.synchronize do
        time = @ended || PausableTimeouts.now
        @shown = [@shown, @final || charged(time)].max
        { wall: time - @begun, charged: @shown, remaining: expired? ? 0.0 : [@limit - @shown, 0.0].max, paused: paused?(time) ? true : false,
          expired: expired?, linked: @thread.linked? }
      end
    end

    # Waits until it has expired or was stopped; whether it has expired.
    def wait
      @owner.synchronize do
        @owner.wait until @ended
        expired?
      end
    end

    # Pauses of this timeout only; they nest by name, and overlap with those of its thread.
    def pause(name)
      @owner.synchronize do
        time = PausableTimeouts.now
        @frozen = [time, @thread.at(time)] if @own.empty?
        @own[name] = true
      end
    end

    def resume(name)
      @owner.synchronize do
        next unless @own.delete(name) && @own.empty?

        time = PausableTimeouts.now
        @start += time - @frozen[0]
        @base += @thread.at(time) - @frozen[1]
        @owner.changed
      end
    end

    # Ends it early.
    def stop
      @owner.synchronize { finish(false) }
      nil
    end

    def expired? = @expired == true

    # The growth of the paused time since the start is at least nothing and at most the time since: what was assumed before
    # the start, and turned out wrong, is not charged to it, and what was paused before is not credited.
    def correct(time)
      return if @ended || !@own.empty?

      paused = @thread.at(time)
      @base = paused - (paused - @base).clamp(0, [time - @start, 0].max)
    end

    # When to look again.
    def look(time, link)
      return if @ended
      return forget_question([@thread.assumed_until, time + 3_600].min) if paused?(time)

      left = @limit - charged(time)
      return forget_question(time + left) if left.positive?

      @over ||= time
      finish(true) if time >= (final = give_up_at(time, link))
      [final, time + ANSWER].min
    end

    # The request for the confirmation was refused.
    def ask_again(from) = (@asked, @ask_from = nil, from)

    # An answer has come to a request that was sent after the time was over.
    def confirm(time)
      return if @ended || !@asked

      @asked = nil
      paused?(time) || charged(time) < @limit ? forget_question(time) : finish(true)
    end

    private

    # When it expires without an answer.
    def give_up_at(time, link)
      given_up = @over + @thread.grace_left(@begun, time)
      link ? [given_up, (@asked || @over) + ANSWER].max : given_up
    end

    def paused?(time) = !@own.empty? || @thread.paused?(time)

    def charged(time)
      time, paused = @own.empty? ? [time, @thread.at(time)] : @frozen
      [time - @start - (paused - @base), 0.0].max
    end

    def forget_question(look_again)
      @over = @asked = nil
      look_again
    end

    def finish(expired)
      return if @ended

      @ended, @expired = PausableTimeouts.now, expired
      @final = charged(@ended)
      @followed.timeouts.delete(self)
      @callback&.call if expired
      @owner.changed
    end
  end
end
