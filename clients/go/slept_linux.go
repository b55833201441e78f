package pausewatch

import (
	"time"

	"golang.org/x/sys/unix"
)

// slept returns how long the machine has slept (suspend, hibernation) since it started: the difference between the
// clock that includes sleep and the one that does not, which is Go's monotonic clock.
func slept() time.Duration {
	// In this order, an interruption between the two reads makes the difference too small, never too large.
	withSleep := read(unix.CLOCK_BOOTTIME)
	return max(0, withSleep-read(unix.CLOCK_MONOTONIC))
}

func read(clock int32) time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(clock, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
