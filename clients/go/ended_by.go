package pausewatch

import (
	"context"
	"time"
)

// EndedBy is which limit of a stopwatch or a pausable timeout ended it.
type EndedBy int

const (
	notEnded EndedBy = iota
	// EndedByLimit: its limit on unpaused time was used up.
	EndedByLimit
	// EndedByMaxWall: its limit on wall time was over, see [WithMaxWall].
	EndedByMaxWall
)

// String is "limit", "max_wall", or empty if neither limit ended it.
func (e EndedBy) String() string {
	if e < notEnded || e > EndedByMaxWall {
		return "invalid"
	}
	return [...]string{"", "limit", "max_wall"}[e]
}

// ErrMaxWall is the cause of a context that its limit on wall time ended. It is a [context.DeadlineExceeded].
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

// WithTimeoutCause gives the context that the limit on unpaused time ends this cause, as [context.WithTimeoutCause] does; its
// Err is [context.DeadlineExceeded] all the same. A stopwatch has no cause.
func WithTimeoutCause(cause error) TimeoutOption {
	return func(o *timeoutOptions) { o.cause = cause }
}

// WithMaxWall is an upper bound on wall time: it ends the timeout after d, whatever is paused and without asking the
// coordinator. The cause is then [ErrMaxWall], and [Reading.EndedBy] is [EndedByMaxWall].
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
