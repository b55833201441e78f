# frozen_string_literal: true

# The paused time of one thread since it is followed ("The paused time of a thread" in docs/client-spec.md).
class PausedTime
  # How long the delivery of a state may take. What grows beyond the time awake is a sleep of this machine.
  AWAKE_SLACK = 15

  def self.seconds(duration) = duration.seconds + (duration.nanos / 1e9)

  attr_reader :disconnected_at

  def initialize(begun, grace)
    @begun, @grace, @paused, @disconnected_at, @last, @last_time = begun, grace, 0.0, begun, nil, nil
  end

  def apply(state, time)
    paused = @last ? paused_after(state, time) : total(state)
    @paused = [paused, time - @begun].min
    @last, @last_time, @disconnected_at = state, time, nil
  end

  def disconnect(time)
    @disconnected_at ||= [time, @last_time].compact.max
  end

  # The paused time at `time`.
  def at(time) = @paused + (@last&.paused ? [time, assumed_until].min - @last_time : 0)

  def paused?(time) = @last&.paused && time < assumed_until
  def linked? = @disconnected_at.nil?

  # Until when an unconfirmed pause goes on.
  def assumed_until = @disconnected_at ? @disconnected_at + @grace : Float::INFINITY

  # How much of the grace is left after what a pause was assumed for between `from` and `time`.
  def grace_left(from, time)
    return @grace unless @last&.paused && @disconnected_at

    @grace - ([time, assumed_until].min - [@disconnected_at, from].max).clamp(0, @grace)
  end

  private

  def paused_after(state, time)
    return @paused + [total(state) - total(@last), time - @last_time + AWAKE_SLACK].min if comparable?(state)

    seen = @last.paused ? (@disconnected_at || time) : @last_time
    [at(time), at(seen) + [total(state), time - seen].min].max
  end

  def total(state) = PausedTime.seconds(state.paused_total || Google::Protobuf::Duration.new)

  def comparable?(state)
    epochs = [state.store_epoch, @last.store_epoch]
    (epochs.include?(0) || epochs.uniq.one?) && state.revision >= @last.revision && total(state) >= total(@last)
  end
end
