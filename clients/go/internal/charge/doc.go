// Package charge computes the time charged to a command: its wall time, minus the paused time of its threads.
//
// [PausedTimeTracker] computes the paused time of one thread since this process began to follow it, [SinceJoin] the
// paused time since a stopwatch joined the thread, [PausedUnion] the time in which any thread of a stopwatch was
// paused, and [Meter] the time charged to the stopwatch. All are pure: they read no clock; the time is an argument,
// so that tests can move time.
//
// A point in time is a [time.Time] with a monotonic reading. Arithmetic saturates: a server can send any value that
// the wire format allows.
package charge

import (
	"math"
	"time"
)

const maxDuration = time.Duration(math.MaxInt64)

// add returns a + b, saturated at the limits of the type.
func add(a, b time.Duration) time.Duration {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return maxDuration
	case a < 0 && b < 0 && sum >= 0:
		return -maxDuration
	default:
		return sum
	}
}

// since returns the time from then to now, at least zero.
func since(then, now time.Time) time.Duration {
	return max(0, now.Sub(then))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
