package pausewatch

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// IncrementOptions are what an increment may say. The zero value is fine.
type IncrementOptions struct {
	// RequestID names the call, so that it counts once however often it is sent: up to 128 bytes. Empty: a random one,
	// so that the retries within this call count once.
	RequestID string
	// Reason is what the person is asked, shown in lists and logs: up to 1,024 bytes.
	Reason string
	// Holder is who asks: up to 256 bytes.
	Holder string
	// TTL is the length of the lease: 1 s to 24 h. 0: the server's default.
	TTL time.Duration
}

// Increment is what an increment made of the thread.
type Increment struct {
	// Count of open elicitations right after the call: 1 to 1,000.
	Count uint32
	// Paused is always true.
	Paused bool
	// Revision of the thread that the call made.
	Revision uint64
	// Elicitation that was opened. Keep its ID to renew and to close exactly this one.
	Elicitation Elicitation
	// Watchers is how many streams of this server watch the thread now. 0 hints that no exec server will notice.
	Watchers uint32
}

// IncrementElicitation opens one elicitation, and leaves it to you to renew and close it. [Client.Hold] does both.
//
// Errors: [*InvalidFieldError], [*RequestIDReusedError], [*TooManyElicitationsError], [*LimitExceededError]: nothing
// changed. [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError]: call again with the same request id.
// Cancelled after it was sent, the elicitation may be open; its lease bounds it.
func (c *Client) IncrementElicitation(ctx context.Context, threadID string, opts IncrementOptions) (Increment, error) {
	request := &pausewatchv1.IncrementElicitationRequest{
		ThreadId:  threadID,
		RequestId: nameCall(opts.RequestID),
		Reason:    opts.Reason,
		Holder:    opts.Holder,
		Ttl:       ttlToWire(opts.TTL),
	}
	answer, err := call(ctx, c, c.stub.IncrementElicitation, request)
	if err != nil {
		return Increment{}, err
	}
	return Increment{
		Count:       answer.GetCount(),
		Paused:      answer.GetPaused(),
		Revision:    answer.GetRevision(),
		Elicitation: elicitationFromWire(answer.GetElicitation()),
		Watchers:    answer.GetWatchers(),
	}, nil
}

// DecrementOptions are what a decrement may say. The zero value is fine.
type DecrementOptions struct {
	// ElicitationID is the elicitation to close. nil: the oldest open one whose increment asked for no TTL, else the
	// oldest. A pointer, so that an id that got lost on its way, and is empty, is refused and closes nobody else's.
	ElicitationID *string
	// RequestID: as in [IncrementOptions]. The two calls do not share request ids.
	RequestID string
}

// Decrement is what a decrement made of the thread.
type Decrement struct {
	// Count of open elicitations right after the call: 0 to 999.
	Count uint32
	// Paused: Count is above 0.
	Paused bool
	// Revision of the thread that the call made.
	Revision uint64
}

// DecrementElicitation closes one elicitation.
//
// Errors: [*InvalidFieldError], [*RequestIDReusedError], [*NoOutstandingElicitationError], [*ElicitationUnknownError],
// [*ElicitationReleasedError], [*ElicitationExpiredError], [*LimitExceededError]: nothing changed.
// [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError]: call again with the same request id. Cancelled
// after it was sent, the elicitation may be closed.
func (c *Client) DecrementElicitation(ctx context.Context, threadID string, opts DecrementOptions) (Decrement, error) {
	request := &pausewatchv1.DecrementElicitationRequest{
		ThreadId:      threadID,
		ElicitationId: opts.ElicitationID,
		RequestId:     nameCall(opts.RequestID),
	}
	answer, err := call(ctx, c, c.stub.DecrementElicitation, request)
	if err != nil {
		return Decrement{}, err
	}
	return Decrement{Count: answer.GetCount(), Paused: answer.GetPaused(), Revision: answer.GetRevision()}, nil
}

// RenewElicitation extends one lease: it ends ttl from now, which may be sooner than before; with ttl 0 it has its old
// length again. Calling it again is harmless.
//
// Errors: [*InvalidFieldError], [*ElicitationUnknownError], [*ElicitationReleasedError], [*ElicitationExpiredError],
// [*LimitExceededError]: nothing changed. [*UnavailableError], [*DeadlineExceededError]: the lease may be extended.
func (c *Client) RenewElicitation(ctx context.Context, threadID, elicitationID string, ttl time.Duration) (Elicitation, error) {
	request := &pausewatchv1.RenewElicitationRequest{
		ThreadId:      threadID,
		ElicitationId: elicitationID,
		Ttl:           ttlToWire(ttl),
	}
	answer, err := call(ctx, c, c.stub.RenewElicitation, request)
	if err != nil {
		return Elicitation{}, err
	}
	return elicitationFromWire(answer.GetElicitation()), nil
}

// GetPauseState reads one thread, with its open elicitations. A thread that nobody ever named has count 0.
//
// Errors: [*InvalidFieldError], [*LimitExceededError]; [*UnavailableError], [*DeadlineExceededError].
func (c *Client) GetPauseState(ctx context.Context, threadID string) (PauseState, error) {
	answer, err := call(ctx, c, c.stub.GetPauseState, &pausewatchv1.GetPauseStateRequest{ThreadId: threadID})
	if err != nil {
		return PauseState{}, err
	}
	return stateFromWire(answer.GetPauseState()), nil
}

// ListOptions say which page of which list. The zero value is the first page of the paused threads.
type ListOptions struct {
	// PageSize is how many threads: 0 means 100, above 1,000 means 1,000. A page may have fewer.
	PageSize int32
	// PageToken is the NextPageToken of the page before.
	PageToken string
	// IncludeRunning adds threads that are known and not paused.
	IncludeRunning bool
}

// Page is one page of threads.
type Page struct {
	// States by thread id in byte order, with their elicitations.
	States []PauseState
	// NextPageToken is for the next page; empty: this was the last.
	NextPageToken string
}

// ListPauseStates lists one page of threads.
//
// Errors: [*InvalidFieldError], [*LimitExceededError]; [*UnavailableError], [*DeadlineExceededError].
func (c *Client) ListPauseStates(ctx context.Context, opts ListOptions) (Page, error) {
	request := &pausewatchv1.ListPauseStatesRequest{
		PageSize:       opts.PageSize,
		PageToken:      opts.PageToken,
		IncludeRunning: opts.IncludeRunning,
	}
	answer, err := call(ctx, c, c.stub.ListPauseStates, request)
	if err != nil {
		return Page{}, err
	}
	page := Page{NextPageToken: answer.GetNextPageToken()}
	for _, state := range answer.GetPauseStates() {
		page.States = append(page.States, stateFromWire(state))
	}
	return page, nil
}

// nameCall gives a call that has no name a random one.
func nameCall(requestID string) string {
	if requestID != "" {
		return requestID
	}
	var uuid [16]byte
	rand.Read(uuid[:]) // Never fails: see its documentation.
	uuid[6] = uuid[6]&0x0f | 0x40
	uuid[8] = uuid[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
}

// ttlToWire leaves out a ttl that is not given.
func ttlToWire(ttl time.Duration) *durationpb.Duration {
	if ttl == 0 {
		return nil
	}
	return durationpb.New(ttl)
}
