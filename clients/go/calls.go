package pausewatch

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// IncrementOptions are the options of an increment. The zero value is valid.
type IncrementOptions struct {
	// RequestID identifies the call, so that it counts once however often it is sent: up to 128 bytes. Empty: a
	// random id, so that the retries within this call count once.
	RequestID string
	// Reason is the question to the person, shown in lists and logs: up to 1,024 bytes.
	Reason string
	// Holder names the program that asks: up to 256 bytes.
	Holder string
	// TTL is the length of the lease: 1 s to 24 h. 0: the server's default.
	TTL time.Duration
}

// Increment is the result of an increment.
type Increment struct {
	// Count of open elicitations right after the call: 1 to 1,000.
	Count uint32
	// Paused is always true.
	Paused bool
	// Revision of the thread that the call made.
	Revision uint64
	// Elicitation is the one that was opened. Keep its ID to renew and close exactly this one.
	Elicitation Elicitation
	// Watchers is the number of streams on this server that watch the thread now. 0 suggests that no exec server will
	// notice the pause.
	Watchers uint32
}

// IncrementElicitation opens one elicitation. The caller must renew and close it; [Client.Hold] does both.
//
// Errors: [*InvalidFieldError], [*RequestIDReusedError], [*TooManyElicitationsError], [*LimitExceededError]: nothing
// changed. [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError]: call again with the same request
// id. If the call is cancelled after it was sent, the elicitation may be open; its lease bounds it.
func (c *Client) IncrementElicitation(ctx context.Context, threadID string, opts IncrementOptions) (Increment, error) {
	request := &pausewatchv1.IncrementElicitationRequest{
		ThreadId:  threadID,
		RequestId: requestIDOrRandom(opts.RequestID),
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

// DecrementOptions are the options of a decrement. The zero value is valid.
type DecrementOptions struct {
	// ElicitationID is the elicitation to close. nil: the oldest open one whose increment set no TTL, else the
	// oldest. It is a pointer so that an id that was lost and is empty is refused, instead of closing another
	// caller's elicitation.
	ElicitationID *string
	// RequestID: as in [IncrementOptions]. The two calls do not share request ids.
	RequestID string
}

// Decrement is the result of a decrement.
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
// [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError]: call again with the same request id. If the
// call is cancelled after it was sent, the elicitation may be closed.
func (c *Client) DecrementElicitation(ctx context.Context, threadID string, opts DecrementOptions) (Decrement, error) {
	request := &pausewatchv1.DecrementElicitationRequest{
		ThreadId:      threadID,
		ElicitationId: opts.ElicitationID,
		RequestId:     requestIDOrRandom(opts.RequestID),
	}
	answer, err := call(ctx, c, c.stub.DecrementElicitation, request)
	if err != nil {
		return Decrement{}, err
	}
	return Decrement{Count: answer.GetCount(), Paused: answer.GetPaused(), Revision: answer.GetRevision()}, nil
}

// RenewElicitation renews one lease: it then ends ttl from now, which may be earlier than before. With ttl 0, the
// lease gets its previous length again. Calling it again is harmless.
//
// Errors: [*InvalidFieldError], [*ElicitationUnknownError], [*ElicitationReleasedError], [*ElicitationExpiredError],
// [*LimitExceededError]: nothing changed. [*UnavailableError], [*DeadlineExceededError]: the lease may have been
// renewed.
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

// GetPauseState reads the state of one thread, with its open elicitations. A thread that was never used has count 0.
//
// Errors: [*InvalidFieldError], [*LimitExceededError]; [*UnavailableError], [*DeadlineExceededError].
func (c *Client) GetPauseState(ctx context.Context, threadID string) (PauseState, error) {
	answer, err := call(ctx, c, c.stub.GetPauseState, &pausewatchv1.GetPauseStateRequest{ThreadId: threadID})
	if err != nil {
		return PauseState{}, err
	}
	return stateFromWire(answer.GetPauseState()), nil
}

// ListOptions select a page of a list. The zero value selects the first page of the paused threads.
type ListOptions struct {
	// PageSize is the maximum number of threads: 0 means 100, above 1,000 means 1,000. A page may have fewer.
	PageSize int32
	// PageToken is the NextPageToken of the previous page.
	PageToken string
	// IncludeRunning adds threads that are known but not paused.
	IncludeRunning bool
}

// Page is one page of threads.
type Page struct {
	// States are ordered by thread id, in byte order, and include their elicitations.
	States []PauseState
	// NextPageToken requests the next page; empty: this was the last page.
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

// requestIDOrRandom returns requestID, or a random id if it is empty.
func requestIDOrRandom(requestID string) string {
	if requestID != "" {
		return requestID
	}
	var uuid [16]byte
	rand.Read(uuid[:]) // Never fails: see its documentation.
	uuid[6] = uuid[6]&0x0f | 0x40
	uuid[8] = uuid[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
}

// ttlToWire returns nil for a ttl that is not set.
func ttlToWire(ttl time.Duration) *durationpb.Duration {
	if ttl == 0 {
		return nil
	}
	return durationpb.New(ttl)
}
