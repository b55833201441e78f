package pausewatch

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// PauseEnd says how a pause, or an elicitation, ended.
type PauseEnd string

// The ends of a pause.
const (
	// PauseEndUnknown: in a way that this version of the library does not know.
	PauseEndUnknown PauseEnd = "unknown"
	// PauseEndDecremented: by a decrement.
	PauseEndDecremented PauseEnd = "decremented"
	// PauseEndReleased: by a decrement with an admin's token.
	PauseEndReleased PauseEnd = "released"
	// PauseEndExpired: by the end of its lease, which was not renewed in time.
	PauseEndExpired PauseEnd = "expired"
	// PauseEndMaxPause: by the server's --max-pause.
	PauseEndMaxPause PauseEnd = "max_pause"
)

// Pause is one pause of a thread that has ended.
type Pause struct {
	ThreadID string
	// StartTime and EndTime are the start and the end of the pause, by the server's wall clock.
	StartTime, EndTime time.Time
	// Duration is the length of the pause, by the server's monotonic clock.
	Duration time.Duration
	EndedBy  PauseEnd
	// Elicitations are those of the pause, in the order in which they were closed: at most 16.
	Elicitations []ClosedElicitation
	// OmittedElicitations is the number of further elicitations of the pause.
	OmittedElicitations uint32
}

// ClosedElicitation is one question to a person that is no longer open.
type ClosedElicitation struct {
	ID string
	// Reason is the question to the person.
	Reason string
	// Holder names the program that asked.
	Holder string
	// CreateTime and EndTime are when it was opened and closed, by the server's wall clock.
	CreateTime, EndTime time.Time
	EndedBy             PauseEnd
}

// PauseOptions select a page of ended pauses. The zero value selects the first page of all pauses.
type PauseOptions struct {
	// ThreadID selects the pauses of this thread; empty: of every thread that the caller may read.
	ThreadID string
	// StartTime selects pauses that ended at this time or later; zero: no bound.
	StartTime time.Time
	// EndTime selects pauses that ended before this time; zero: no bound.
	EndTime time.Time
	// PageSize is the maximum number of pauses: 0 means 100, above 1,000 means 1,000. A page may have fewer.
	PageSize int32
	// PageToken is the NextPageToken of the previous page.
	PageToken string
}

// PausePage is one page of ended pauses.
type PausePage struct {
	// Pauses are ordered by their end, the latest first.
	Pauses []Pause
	// NextPageToken requests the next page; empty: this was the last page.
	NextPageToken string
	// HistoryStartTime is the start of the kept history: every pause that ended at this time or later is kept, by the
	// server's wall clock.
	HistoryStartTime time.Time
}

// ListPauses lists one page of ended pauses.
//
// Errors: [*InvalidFieldError], also for a page token from before a restart of the server; [*LimitExceededError];
// [*UnavailableError], [*DeadlineExceededError].
func (c *Client) ListPauses(ctx context.Context, opts PauseOptions) (PausePage, error) {
	request := &pausewatchv1.ListPausesRequest{
		ThreadId:  opts.ThreadID,
		StartTime: timeToWire(opts.StartTime),
		EndTime:   timeToWire(opts.EndTime),
		PageSize:  opts.PageSize,
		PageToken: opts.PageToken,
	}
	answer, err := call(ctx, c, c.stub.ListPauses, request)
	if err != nil {
		return PausePage{}, err
	}
	page := PausePage{NextPageToken: answer.GetNextPageToken(), HistoryStartTime: answer.GetHistoryStartTime().AsTime()}
	for _, pause := range answer.GetPauses() {
		page.Pauses = append(page.Pauses, pauseFromWire(pause))
	}
	return page, nil
}

func timeToWire(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func pauseFromWire(wire *pausewatchv1.Pause) Pause {
	pause := Pause{
		ThreadID:            wire.GetThreadId(),
		StartTime:           wire.GetStartTime().AsTime(),
		EndTime:             wire.GetEndTime().AsTime(),
		Duration:            wire.GetDuration().AsDuration(),
		EndedBy:             pauseEndFromWire(wire.GetEndedBy()),
		OmittedElicitations: wire.GetOmittedElicitations(),
	}
	for _, closed := range wire.GetElicitations() {
		pause.Elicitations = append(pause.Elicitations, ClosedElicitation{
			ID:         closed.GetElicitationId(),
			Reason:     closed.GetReason(),
			Holder:     closed.GetHolder(),
			CreateTime: closed.GetCreateTime().AsTime(),
			EndTime:    closed.GetEndTime().AsTime(),
			EndedBy:    pauseEndFromWire(closed.GetEndedBy()),
		})
	}
	return pause
}

func pauseEndFromWire(wire pausewatchv1.PauseEnd) PauseEnd {
	switch wire {
	case pausewatchv1.PauseEnd_PAUSE_END_DECREMENTED:
		return PauseEndDecremented
	case pausewatchv1.PauseEnd_PAUSE_END_RELEASED:
		return PauseEndReleased
	case pausewatchv1.PauseEnd_PAUSE_END_EXPIRED:
		return PauseEndExpired
	case pausewatchv1.PauseEnd_PAUSE_END_MAX_PAUSE:
		return PauseEndMaxPause
	default:
		return PauseEndUnknown
	}
}
