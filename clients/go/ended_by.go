package pausewatch

import (
	"context"
	"time"
)

// EndedBy is the limit that ended a stopwatch or a pausable timeout.
type EndedBy int

const (
	notEnded EndedBy = iota
	// EndedByLimit: the limit on unpaused time was used up.
	EndedByLimit
	// EndedByMaxWall: the limit on wall time was reached, see [WithMaxWall].
	EndedByMaxWall
)

// String returns "limit", "max_wall", or an empty string if neither limit ended it.
func (e EndedBy) String() string {
	if e < notEnded || e > EndedByMaxWall {
		return "invalid"
	}
	return [...]string{"", "limit", "max_wall"}[e]
}

// ErrMaxWall is the cause of a context that ended at its limit on wall time. It wraps [context.DeadlineExceeded].
var ErrMaxWall error = maxWallError{}

type maxWallError struct{}

func (maxWallError) Error() string   { return "pausewatch: the limit on wall time is over" }
func (maxWallError) Timeout() bool   { return true }
func (maxWallError) Temporary() bool { return true }
func (maxWallError) Unwrap() error   { return context.DeadlineExceeded }

// TimeoutOption is one setting of a pausable timeout or a stopwatch.
type TimeoutOption func(*timeoutOptions)

type timeoutOptions struct {
	maxWall *time.Duration
	cause   error
}

// WithTimeoutCause sets the cause of the context when the limit on unpaused time ends it, as
// [context.WithTimeoutCause] does. Err still returns [context.DeadlineExceeded]. A stopwatch has no cause.
func WithTimeoutCause(cause error) TimeoutOption {
	return func(o *timeoutOptions) { o.cause = cause }
}

// WithMaxWall sets an upper bound on wall time: the timeout ends after d, even if a thread is paused, and without a
// confirmation by the coordinator. The cause is then [ErrMaxWall], and [Reading.EndedBy] is [EndedByMaxWall].
func WithMaxWall(d time.Duration) TimeoutOption {
	return func(o *timeoutOptions) { o.maxWall = &d }
}

func timeoutOptionsOf(opts []TimeoutOption) timeoutOptions {
	var o timeoutOptions
	for _, set := range opts {
		set(&o)
	}
	return o
}
