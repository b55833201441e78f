package pausewatch

import (
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
	"pausewatch.dev/clients/go/internal/charge"
)

// PauseState is the state of one thread when it was sent.
type PauseState struct {
	ThreadID string
	// Count is the number of open elicitations: 0 to 1,000.
	Count uint32
	// Paused: Count is above 0.
	Paused bool
	// Revision increases with every change of the thread and never decreases within one StoreEpoch, also across
	// restarts of the server.
	Revision uint64
	// PausedTotal is the total time that the thread has been paused, the open pause included. Between two states it
	// grows by exactly the paused time between them.
	PausedTotal time.Duration
	// PausedFor is how long the open pause has lasted, by the server's clock; 0 unless Paused.
	PausedFor time.Duration
	// PauseStartTime is the start of the open pause, by the server's wall clock, for display. Zero unless Paused.
	PauseStartTime time.Time
	// Elicitations are the open ones, oldest first. A watch fills them if [WatchOptions] requests it.
	Elicitations []Elicitation
	// StoreEpoch identifies the history of the server's store: Revision and PausedTotal can be compared only within
	// one epoch. A restored or new store and a restarted memory store have another epoch. 0: the server does not know
	// this field yet.
	StoreEpoch uint64
}

// Elicitation is one open question to a person.
type Elicitation struct {
	// ID is assigned by the server, and unique across all threads.
	ID       string
	ThreadID string
	// Reason is the question to the person.
	Reason string
	// Holder names the program that asks.
	Holder string
	// CreateTime is when it was opened, by the server's wall clock.
	CreateTime time.Time
	// ExpireTime is when its lease ends unless it is renewed, by the server's wall clock. Zero: it has no lease.
	ExpireTime time.Time
}

func (s PauseState) version() charge.Version {
	return charge.Version{Epoch: s.StoreEpoch, Revision: s.Revision}
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
