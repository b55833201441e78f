package pausewatch

import (
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
	"pausewatch.dev/clients/go/internal/charge"
)

// PauseState is the state of one thread, at the moment of sending.
type PauseState struct {
	ThreadID string
	// Count of open elicitations: 0 to 1,000.
	Count uint32
	// Paused: Count is above 0.
	Paused bool
	// Revision rises with every change of the thread and never falls within one StoreEpoch, across restarts of the server too.
	Revision uint64
	// PausedTotal is all time that the thread has been paused, the open pause included. Between two states it grows by
	// exactly the time that was paused in between.
	PausedTotal time.Duration
	// PausedFor is how long the open pause has lasted, by the server's clock; 0 unless Paused.
	PausedFor time.Duration
	// PauseStartTime is when the open pause began, by the server's wall clock: for people. Zero unless Paused.
	PauseStartTime time.Time
	// Elicitations that are open, oldest first. A watch has them if it asked for them.
	Elicitations []Elicitation
	// StoreEpoch identifies the history of the server's store: Revision and PausedTotal can be compared only within one epoch.
	// A restored or new store and a restarted memory store have another. 0: the server is older than this field.
	StoreEpoch uint64
}

// Elicitation is one open question to a person.
type Elicitation struct {
	// ID is given by the server, and unique among all threads.
	ID       string
	ThreadID string
	// Reason is what the person is asked.
	Reason string
	// Holder is who asks.
	Holder string
	// CreateTime is when it was opened, by the server's wall clock.
	CreateTime time.Time
	// ExpireTime is when its lease ends unless it is renewed, by the server's wall clock. Zero: it has no lease.
	ExpireTime time.Time
}

// version is the revision of a state, and the epoch in which it counts.
type version charge.Version

func (s PauseState) version() version { return version{Epoch: s.StoreEpoch, Revision: s.Revision} }

// isNoNews: what was told is as new. Another epoch is news: the server lost what it told before.
func (v version) isNoNews(told version) bool {
	return v.Epoch == told.Epoch && v.Revision <= told.Revision
}

func stateFromWire(wire *pausewatchv1.PauseState) PauseState {
	state := PauseState{
		ThreadID:    wire.GetThreadId(),
		Count:       wire.GetCount(),
		Paused:      wire.GetPaused(),
		Revision:    wire.GetRevision(),
		PausedTotal: wire.GetPausedTotal().AsDuration(),
		PausedFor:   wire.GetPausedFor().AsDuration(),
		StoreEpoch:  wire.GetStoreEpoch(),
	}
	if start := wire.GetPauseStartTime(); start != nil {
		state.PauseStartTime = start.AsTime()
	}
	for _, elicitation := range wire.GetElicitations() {
		state.Elicitations = append(state.Elicitations, elicitationFromWire(elicitation))
	}
	return state
}

func elicitationFromWire(wire *pausewatchv1.Elicitation) Elicitation {
	elicitation := Elicitation{
		ID:       wire.GetElicitationId(),
		ThreadID: wire.GetThreadId(),
		Reason:   wire.GetReason(),
		Holder:   wire.GetHolder(),
	}
	if created := wire.GetCreateTime(); created != nil {
		elicitation.CreateTime = created.AsTime()
	}
	if expires := wire.GetExpireTime(); expires != nil {
		elicitation.ExpireTime = expires.AsTime()
	}
	return elicitation
}
