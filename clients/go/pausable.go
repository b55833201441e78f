package pausewatch

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// WithPausableTimeout is [context.WithTimeout] with a clock that stops while the thread is paused:
//
//	ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, "thread-1")
//	defer cancel()
//	err := exec.CommandContext(ctx, "make", "test").Run()
//
// When d of unpaused time is used up, and the coordinator has confirmed that the thread runs, the context is done
// with [context.DeadlineExceeded] as its Err and as its cause ([WithTimeoutCause] sets another cause). With
// [WithMaxWall] it is done at that limit at the latest, with [ErrMaxWall] as its cause. It is also done when parent
// is done or cancel is called. Call cancel when the work is done.
//
// Deadline returns the parent's deadline, or none: the time of expiry is not known in advance, because a pause may
// start at any time. Code that reads the deadline in advance and passes it on, as gRPC does, therefore passes none.
//
// [StopwatchOf] returns its [Stopwatch], to read it, or to pause it separately.
//
// An invalid thread id returns a context that is already cancelled, with [*InvalidFieldError] as its cause; a closed
// client returns one with [ErrClosed].
func (c *Client) WithPausableTimeout(parent context.Context, d time.Duration, threadID string, opts ...TimeoutOption) (context.Context, context.CancelFunc) {
	if parent.Err() != nil {
		return context.WithCancel(withEndedStopwatch(parent, threadID))
	}
	inner, cancelInner := context.WithCancelCause(parent)
	p := &pausable{Context: inner, end: cancelInner, done: make(chan struct{}), after: make(map[*func()]struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	ofLimit := cmp.Or[error](timeoutOptionsOf(opts).cause, context.DeadlineExceeded)
	stopwatch, err := c.startStopwatch(d, threadID, opts, func(by EndedBy) {
		cause := ofLimit
		if by == EndedByMaxWall {
			cause = ErrMaxWall
		}
		p.finish(context.DeadlineExceeded, cause)
	})
	if err != nil {
		cancelInner(err)
		return withEndedStopwatch(inner, threadID), func() {}
	}
	p.stopwatch = stopwatch
	p.unlink = context.AfterFunc(parent, func() { p.finish(parent.Err(), context.Cause(parent)) })
	return p, func() { p.finish(context.Canceled, context.Canceled) }
}

// WithPausableTimeout is [Client.WithPausableTimeout] of the [DefaultClient]. If that client cannot be created, the
// context is already cancelled, with the error as its cause.
func WithPausableTimeout(parent context.Context, d time.Duration, threadID string, opts ...TimeoutOption) (context.Context, context.CancelFunc) {
	client, err := DefaultClient()
	if err != nil {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(err)
		return withEndedStopwatch(ctx, threadID), func() {}
	}
	return client.WithPausableTimeout(parent, d, threadID, opts...)
}

// StopwatchOf returns the stopwatch of the innermost pausable timeout around ctx; nil if there is none.
func StopwatchOf(ctx context.Context) *Stopwatch {
	stopwatch, _ := ctx.Value(stopwatchKey{}).(*Stopwatch)
	return stopwatch
}

type stopwatchKey struct{}

// withEndedStopwatch adds the stopwatch of a timeout that has ended before it began, so that [StopwatchOf] finds one.
func withEndedStopwatch(ctx context.Context, threadID string) context.Context {
	ended := &Stopwatch{threadID: threadID, expired: make(chan struct{}), final: new(Reading)}
	return context.WithValue(ctx, stopwatchKey{}, ended)
}

// pausable is a context that ends with its stopwatch.
//
// No context of the standard library can end with DeadlineExceeded at a time that is not known in advance. This one
// has its own Done channel and Err; the inner context has the values, and the cause for [context.Cause]. The two Done
// channels differ, so that contexts derived from this one read the error of this one. They do so by AfterFunc, which
// saves each of them a goroutine.
type pausable struct {
	context.Context
	end       context.CancelCauseFunc
	stopwatch *Stopwatch
	unlink    func() bool
	done      chan struct{}

	mu    sync.Mutex
	err   error
	after map[*func()]struct{}
}

func (p *pausable) Done() <-chan struct{} {
	_ = p.Err()
	return p.done
}

func (p *pausable) Err() error {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err != nil {
		return err
	}
	// It ends together with its parent, not a little later: the caller may have just cancelled the parent.
	if err = p.Context.Err(); err != nil {
		p.finish(err, context.Cause(p.Context))
	}
	return err
}

func (p *pausable) Value(key any) any {
	if key == (stopwatchKey{}) {
		return p.stopwatch
	}
	return p.Context.Value(key)
}

// AfterFunc is the method that the context package looks for in contexts of other packages.
func (p *pausable) AfterFunc(f func()) (stop func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		// Not on this goroutine: the caller may hold a lock that f needs.
		go f()
		return func() bool { return false }
	}
	p.after[&f] = struct{}{}
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, waits := p.after[&f]
		delete(p.after, &f)
		return waits
	}
}

func (p *pausable) finish(err, cause error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	p.err = err
	// The cause is set first: a reader that sees the closed channel can read the cause.
	p.end(cause)
	close(p.done)
	after := p.after
	p.after = nil
	p.mu.Unlock()
	p.unlink()
	p.stopwatch.Stop()
	for f := range after {
		(*f)()
	}
}
