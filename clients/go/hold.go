package pausewatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Long enough to survive two lost renewals and a restart of the server; short enough that a crashed holder's
// elicitation ends soon.
const defaultTTL = 30 * time.Second

// HoldOptions are the options of a hold. The zero value is valid.
type HoldOptions struct {
	// Reason is the question to the person, shown in lists and logs: up to 1,024 bytes.
	Reason string
	// Holder names the program that asks: up to 256 bytes. Empty: this program's name and process id, "name[1234]".
	Holder string
	// TTL is how long the elicitation stays open after its holder died: 1 s to 24 h. 0: 30 s. It is renewed every
	// TTL/3.
	TTL time.Duration
	// BestEffort: if the thread cannot be paused (no thread is set, no coordinator runs, …), a warning is logged and
	// the program continues without a pause, as pausewatch hold does without --require: see [Hold.Failure]. A field
	// out of its limits and the end of the context are still errors.
	BestEffort bool
}

// Hold is an elicitation that this program keeps open, which pauses its thread. It is renewed in the background until
// it is released. It is safe for concurrent use.
//
//  1. The increment does not depend on its caller: if [Client.Hold] is cancelled, the elicitation that it opened is
//     closed.
//  2. Renewals continue until the hold is released or the server reports that the elicitation is closed: after a
//     downtime, a server gives every lease one full TTL again.
//  3. All decrements of one hold have the same request id: however often a release is attempted, it counts once and
//     always returns the first result (G4).
//  4. The lease bounds the effect of every failure here (G2): whatever [Hold.Release] returns, nothing is renewed after
//     it.
type Hold struct {
	client      *Client
	opened      Increment
	ttl         time.Duration
	decrementID string
	status      *leaseStatus
	stopRenewal context.CancelFunc
	failure     error

	// Guards the result of the release, once it is known.
	mu     sync.Mutex
	ended  bool
	ending error
	closed Decrement
	// Starts the attempts in the background after a Release that failed.
	background sync.Once
}

// Hold opens an elicitation on a thread and renews it in the background:
//
//	hold, err := client.Hold(ctx, "thread-1", pausewatch.HoldOptions{Reason: "Delete the branch?"})
//	if err != nil {
//		return err
//	}
//	defer hold.Release(ctx)
//
// If ctx ends, Hold returns at once, and an elicitation that was opened by then is closed in the background:
// [Client.Close] waits for that.
//
// Errors: [*InvalidFieldError], [*TooManyElicitationsError], [*LimitExceededError]: nothing is open.
// [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError], or the end of ctx: it may be open; its lease
// bounds it. With [HoldOptions.BestEffort], only [*InvalidFieldError], [ErrClosed] and the end of ctx are returned.
func (c *Client) Hold(ctx context.Context, threadID string, opts HoldOptions) (*Hold, error) {
	if !opts.BestEffort {
		return c.hold(ctx, threadID, opts)
	}
	var hold *Hold
	err := errNoThread
	if threadID != "" {
		hold, err = c.hold(ctx, threadID, opts)
	}
	if err == nil || ctx.Err() != nil || is[*InvalidFieldError](err) || errors.Is(err, ErrClosed) {
		return hold, err
	}
	c.log().WarnContext(ctx, "pausewatch: the thread is not paused, going on without a hold", "thread", threadID, "error", err)
	hold = &Hold{client: c, failure: err, status: newLeaseStatus(defaultTTL)}
	hold.status.end(NotOpen)
	return hold, nil
}

var errNoThread = errors.New("pausewatch: no thread is named: set PAUSEWATCH_THREAD_ID")

func (c *Client) hold(ctx context.Context, threadID string, opts HoldOptions) (*Hold, error) {
	type result struct {
		hold *Hold
		err  error
	}
	if err := ctx.Err(); err != nil {
		return nil, callEnded(err, 0)
	}
	began := time.Now()
	opened := make(chan result, 1)
	done := c.releasing()
	go func() {
		defer done()
		if err := c.checkOpening(); err != nil {
			opened <- result{nil, err}
			return
		}
		hold, err := c.open(context.WithoutCancel(ctx), threadID, opts)
		if closing := c.checkOpening(); err == nil && closing != nil {
			hold.abandon()
			hold, err = nil, closing
		}
		opened <- result{hold, err}
	}()
	select {
	case r := <-opened:
		return r.hold, r.err
	case <-ctx.Done():
		c.releaseInBackground(func() {
			if r := <-opened; r.err == nil {
				r.hold.abandon()
			}
		})
		return nil, callEnded(ctx.Err(), time.Since(began))
	}
}

func (c *Client) open(ctx context.Context, threadID string, opts HoldOptions) (*Hold, error) {
	if opts.Holder == "" {
		opts.Holder = thisProgram()
	}
	if opts.TTL == 0 {
		opts.TTL = defaultTTL
	}
	sent := time.Now()
	opened, err := c.IncrementElicitation(ctx, threadID, IncrementOptions{Reason: opts.Reason, Holder: opts.Holder, TTL: opts.TTL})
	if err != nil {
		return nil, err
	}
	if opened.Elicitation.ID == "" {
		return nil, fromStatus(status.New(codes.Internal, "the server's answer to the increment has no elicitation"))
	}
	renewal, stop := context.WithCancel(c.life)
	hold := &Hold{
		client:      c,
		opened:      opened,
		ttl:         opts.TTL,
		decrementID: requestIDOrRandom(""),
		status:      newLeaseStatus(opts.TTL),
		stopRenewal: stop,
	}
	renewing := c.WithCallTimeout(min(c.callTimeout, opts.TTL/3))
	go renewLease(renewal, hold.status, opts.TTL, sent, func() error {
		_, err := renewing.RenewElicitation(renewal, threadID, opened.Elicitation.ID, 0)
		return err
	})
	return hold, nil
}

// WithHold runs fn while a hold is open, and releases the hold however fn ends, by a panic too.
//
// Errors: those of [Client.Hold]: fn did not run. The error of fn. Those of [Hold.Release]: the answer that fn
// obtained may have come too late. If both fn and the release fail, the errors are joined.
func (c *Client) WithHold(ctx context.Context, threadID string, opts HoldOptions, fn func(context.Context) error) (err error) {
	hold, err := c.Hold(ctx, threadID, opts)
	if err != nil {
		return err
	}
	defer func() {
		if late := hold.Release(ctx); err == nil {
			err = late
		} else if late != nil {
			err = errors.Join(err, late)
		}
	}()
	return fn(ctx)
}

// Failure returns why a best-effort hold could not be opened; nil: it was opened. If the error [IsTransient], the thread
// may be paused until the lease ends: perhaps only the answer was lost.
func (h *Hold) Failure() error { return h.failure }

// Opened returns the result of the increment, with the elicitation as it was opened; the zero value if the hold could
// not be opened.
func (h *Hold) Opened() Increment { return h.opened }

// Lease returns the current state of the lease, as far as it is known.
func (h *Hold) Lease() Lease {
	lease, _ := h.status.read()
	return lease
}

// Lost returns a channel that is closed when the lease is not [Held] any more; [Hold.Lease] then returns its state. A
// lease that is only [Overdue] may become Held again: call Lost again for a channel for the next loss.
func (h *Hold) Lost() <-chan struct{} {
	_, lost := h.status.read()
	return lost
}

// Release closes the elicitation. It returns nil if the elicitation was open until then: see [Hold.Closed]. Calling
// it again is harmless and returns the same.
//
// It ends with ctx, or after the client's call timeout. If ctx has already ended, it is ignored: a deferred release
// often runs just after a cancellation.
//
// Errors: [*ElicitationExpiredError]: the lease had ended before; the person's answer came too late, and commands of
// the thread may have timed out since. [*ElicitationReleasedError]: another caller's decrement had closed it before.
// [*ElicitationUnknownError]: the server does not know the elicitation: it lost its state, or forgot it long ago. Any
// other error: it may still be open; it is not renewed any more, and attempts to close it continue in the background
// for one TTL, until [Client.Close] has waited for them.
//
// A best-effort hold that could not be opened has nothing to release: nil.
func (h *Hold) Release(ctx context.Context) error {
	if h.failure != nil {
		return nil
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	h.stopRenewal()
	defer h.client.releasing()()
	ended, err := h.tryRelease(ctx, h.client)
	if !ended {
		h.background.Do(func() { h.client.releaseInBackground(h.keepReleasing) })
	}
	return err
}

// Closed returns the result of the release; false unless [Hold.Release] closed the elicitation.
func (h *Hold) Closed() (Decrement, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed, h.ended && h.ending == nil
}

// abandon closes an elicitation that nobody holds.
func (h *Hold) abandon() {
	h.stopRenewal()
	h.keepReleasing()
}

// keepReleasing continues the attempts to close it. After one TTL without a renewal nothing is left to close.
func (h *Hold) keepReleasing() {
	persistent := h.client.WithCallTimeout(h.ttl)
	persistent.retries = -1
	_, _ = h.tryRelease(persistent.life, persistent)
}

// tryRelease returns whether the result of the release is known, and that result; if it is not known, the cause.
func (h *Hold) tryRelease(ctx context.Context, client *Client) (ended bool, err error) {
	if ended, ending := h.outcome(); ended {
		return true, ending
	}
	elicitation := h.opened.Elicitation
	closed, err := client.DecrementElicitation(ctx, elicitation.ThreadID, DecrementOptions{
		ElicitationID: &elicitation.ID,
		RequestID:     h.decrementID,
	})
	lease, known := leaseAfter(err)
	switch {
	case err == nil:
		lease = Released
	case !known:
		return false, err
	}
	h.status.end(lease)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended, h.ending, h.closed = true, err, closed
	}
	return true, h.ending
}

func (h *Hold) outcome() (ended bool, ending error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended, h.ending
}

func thisProgram() string {
	var name strings.Builder
	for _, c := range filepath.Base(append(os.Args, "")[0]) {
		// Well below the limit of 256 bytes, cut between two characters.
		if name.Len() < 200 && !unicode.IsControl(c) {
			name.WriteRune(c)
		}
	}
	return fmt.Sprintf("%s[%d]", &name, os.Getpid())
}
