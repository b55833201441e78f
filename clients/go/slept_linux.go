package pausewatch

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// An interruption between the readings of two clocks that is this long could be taken for a sleep.
const longestReading = 10 * time.Millisecond

// slept returns how long the machine has slept (suspend, hibernation) since it started: the difference between the
// clock that includes sleep and the one that does not, which is Go's monotonic clock.
func slept() time.Duration {
	return difference(func() time.Duration { return read(unix.CLOCK_MONOTONIC) }, func() time.Duration { return read(unix.CLOCK_BOOTTIME) })
}

// difference returns how far withSleep is ahead of awake. The clocks are read again after an interruption; on a machine that is too busy
// for that, the shortest of 100 readings counts.
func difference(awake, withSleep func() time.Duration) time.Duration {
	shortest, ahead := time.Duration(math.MaxInt64), time.Duration(0)
	for range 100 {
		before, at, after := awake(), withSleep(), awake()
		if after-before < shortest {
			shortest, ahead = after-before, at-after
		}
		if shortest < longestReading {
			break
		}
	}
	return max(0, ahead)
}

func read(clock int32) time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(clock, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
