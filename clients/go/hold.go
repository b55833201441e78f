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

// Long enough to outlast two lost renewals and a restart of the server, short enough that a crash is forgotten soon.
const defaultTTL = 30 * time.Second

// HoldOptions are what a hold may say of itself. The zero value is fine.
type HoldOptions struct {
	// Reason is what the person is asked, shown in lists and logs: up to 1,024 bytes.
	Reason string
	// Holder is who asks: up to 256 bytes. Empty: this program's name and process id, "name[1234]".
	Holder string
	// TTL is how long the elicitation outlives a holder that died: 1 s to 24 h. 0: 30 s. It is renewed every third of it.
	TTL time.Duration
	// BestEffort: if the thread cannot be paused (none is named, no coordinator runs, …), a warning is logged and the program
	// goes on without a pause, as pausewatch hold does without --require: see [Hold.Failure]. What is out of its limits is an
	// error all the same, as is the end of the context.
	BestEffort bool
}

// Hold is an elicitation that this program keeps open, which pauses its thread: renewed in the background until it is
// released. It is safe for any number of goroutines.
//
//  1. The increment does not depend on who waits for it: a [Client.Hold] that is cancelled closes what it opened.
//  2. Renewals go on until the hold is released or the server says that the elicitation is closed: a server that was
//     away gives every lease one full TTL again.
//  3. All decrements of one hold carry one request id: however often a release is tried, it counts once and its answer
//     is the first one (G4).
//  4. What fails here is bounded by the lease (G2): whatever [Hold.Release] answers, nothing is renewed after it.
type Hold struct {
	client      *Client
	opened      Increment
	ttl         time.Duration
	decrementID string
	board       *leaseBoard
	stopRenewal context.CancelFunc
	failure     error

	// Guards how it ended, once that is known.
	mu     sync.Mutex
	ended  bool
	ending error
	closed Decrement
	// Tries in the background go on after a Release that failed.
	background sync.Once
}

// Hold opens an elicitation on a thread and begins to renew it:
//
//	hold, err := client.Hold(ctx, "thread-1", pausewatch.HoldOptions{Reason: "Delete the branch?"})
//	if err != nil {
//		return err
//	}
//	defer hold.Release(ctx)
//
// The end of ctx ends only the wait for it to open; what was opened by then is closed in the background.
//
// Errors: [*InvalidFieldError], [*TooManyElicitationsError], [*LimitExceededError]: nothing is open.
// [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError], or the end of ctx: it may be open; its lease
// bounds it. With [HoldOptions.BestEffort], only [*InvalidFieldError], [ErrClosed] and the end of ctx.
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
	hold = &Hold{client: c, failure: err, board: newLeaseBoard(defaultTTL)}
	hold.board.ended(NotOpen)
	return hold, nil
}

var errNoThread = errors.New("pausewatch: no thread is named: set PAUSEWATCH_THREAD_ID")

func (c *Client) hold(ctx context.Context, threadID string, opts HoldOptions) (*Hold, error) {
	type result struct {
		hold *Hold
		err  error
	}
	if err := ctx.Err(); err != nil {
		return nil, ended(err, 0)
	}
	began := time.Now()
	opened := make(chan result, 1)
	go func() {
		hold, err := c.open(context.WithoutCancel(ctx), threadID, opts)
		opened <- result{hold, err}
	}()
	select {
	case r := <-opened:
		return r.hold, r.err
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				r.hold.abandon()
			}
		}()
		return nil, ended(ctx.Err(), time.Since(began))
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
		decrementID: nameCall(""),
		board:       newLeaseBoard(opts.TTL),
		stopRenewal: stop,
	}
	renewing := c.WithCallTimeout(min(c.callTimeout, opts.TTL/3))
	go renewLease(renewal, hold.board, opts.TTL, sent, func() error {
		_, err := renewing.RenewElicitation(renewal, threadID, opened.Elicitation.ID, opts.TTL)
		return err
	})
	return hold, nil
}

// WithHold runs fn while a hold is open, and releases it however fn ends, by a panic too.
//
// Errors: those of [Client.Hold], and fn did not run; fn's own; those of [Hold.Release], which say that the answer that
// fn brought may have come too late. If both fn and the release fail, the error is fn's, joined with the other.
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

// Failure is why a best-effort hold could not be opened, so that nothing is paused; nil: it was opened.
func (h *Hold) Failure() error { return h.failure }

// Opened is what the increment made of the thread, with the elicitation as it was opened; the zero value of a hold that could
// not be opened.
func (h *Hold) Opened() Increment { return h.opened }

// Lease is what is known of the lease now.
func (h *Hold) Lease() Lease {
	lease, _ := h.board.read()
	return lease
}

// Lost is closed when the lease is not [Held] any more; [Hold.Lease] says what it is. While it is only [Overdue] it may
// come back: ask for the channel again to wait for the next loss.
func (h *Hold) Lost() <-chan struct{} {
	_, lost := h.board.read()
	return lost
}

// Release closes the elicitation. It returns nil if it was open until then: see [Hold.Closed]. Calling it again is
// harmless and returns the same.
//
// It ends with ctx, or after the client's call timeout. A ctx that has ended already does not keep it from trying: a
// deferred release runs just when something was cancelled.
//
// Errors: [*ElicitationExpiredError]: the lease had ended before; what was asked of the person was answered late, and
// commands of the thread may have timed out meanwhile. [*ElicitationReleasedError]: another caller's decrement had closed
// it before. [*ElicitationUnknownError]: the server does not know it: it lost its state, or has long forgotten it.
// Any other: it may still be open; nothing renews it any more, and closing it is tried in the background for one TTL.
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
	ended, err := h.tryRelease(ctx, h.client)
	if !ended {
		h.abandon()
	}
	return err
}

// Closed is what the release made of the thread; false unless [Hold.Release] has closed the elicitation.
func (h *Hold) Closed() (Decrement, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed, h.ended && h.ending == nil
}

// abandon goes on trying to close it in the background. After one TTL without a renewal there is nothing left to close.
func (h *Hold) abandon() {
	h.stopRenewal()
	h.background.Do(func() {
		go h.tryRelease(h.client.life, h.client.WithCallTimeout(h.ttl))
	})
}

// tryRelease says whether it is known how the hold ended, and that, or why not.
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
	h.board.ended(lease)
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
		// Well below the 256 bytes that are allowed, on a boundary between characters.
		if name.Len() < 200 && !unicode.IsControl(c) {
			name.WriteRune(c)
		}
	}
	return fmt.Sprintf("%s[%d]", &name, os.Getpid())
}
