// Package charge says what a command has been charged: its wall time, less the time that its thread was paused.
//
// [PausedTimeTracker] is how long one thread has been paused since this process began to follow it, [Since] how long since
// a stopwatch joined it, and [PausedUnion] how long any of the threads of a stopwatch; [Meter] is what that stopwatch has
// been charged. All are pure: no clock is read, the moment is an argument. So their tests move time as they like.
//
// A moment is a [time.Time] with a monotonic reading, a length of time a [time.Duration]. Arithmetic saturates: what a
// server sends can be as large as the wire allows.
package charge

import (
	"math"
	"time"
)

const forever = time.Duration(math.MaxInt64)

// add is a + b, held at the ends of the type.
func add(a, b time.Duration) time.Duration {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return forever
	case a < 0 && b < 0 && sum >= 0:
		return -forever
	default:
		return sum
	}
}

// since is how long before now that was, at least zero.
func since(then, now time.Time) time.Duration {
	return max(0, now.Sub(then))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
