package pausewatch

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

// Unread events after which the stream of a watch of everything is not read any more: the coordinator then keeps the
// latest state of each thread.
const backlog = 10_000

// eventQueue is what a watch has still to tell.
//
//  1. Memory is bounded by the number of threads: of each thread it holds the latest state, before a break and after it,
//     and there is at most one break. A watch of everything, whose threads have no end, waits for room.
//  2. Of one thread the states come in order, and each break comes between what was known before it and after it. What
//     two breaks enclose is told before them, as one.
type eventQueue struct {
	// Threads that run are forgotten as soon as they are told: there is no end of them.
	all bool

	mu     sync.Mutex
	before *section
	// Both are nil, or neither.
	broken *Disconnected
	after  *section
	// The version of each thread that was told last.
	told map[string]version
	// Has a token when there may be something new.
	ready chan struct{}
	// Has a token when there may be room again.
	freed chan struct{}
}

// section is a sequence of events without a break: at most one state of each thread, and one SnapshotComplete.
type section struct {
	// Of *StateEvent and SnapshotComplete.
	order    *list.List
	states   map[string]*list.Element
	complete *list.Element
}

func newEventQueue(all bool) *eventQueue {
	return &eventQueue{
		all:    all,
		before: newSection(),
		told:   make(map[string]version),
		ready:  make(chan struct{}, 1),
		freed:  make(chan struct{}, 1),
	}
}

func newSection() *section {
	return &section{order: list.New(), states: make(map[string]*list.Element)}
}

// state is told in the place of one that waits, or last.
func (q *eventQueue) state(state PauseState, gap bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last().putState(&StateEvent{State: state, Gap: gap})
	q.wake()
}

// complete is told after all that waits now.
func (q *eventQueue) complete() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last().putComplete()
	q.wake()
}

// disconnected voids the snapshots whose completeness is not told yet.
func (q *eventQueue) disconnected(threadIDs []string, err error, silentFor time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken != nil {
		q.before.putStatesOf(q.after)
		threadIDs = union(q.broken.ThreadIDs, threadIDs)
	}
	q.before.dropComplete()
	q.broken, q.after = &Disconnected{ThreadIDs: threadIDs, Err: err, SilentFor: silentFor}, newSection()
	q.wake()
}

// confirmed: a reader of events asks for nothing.
func (q *eventQueue) confirmed([]confirmation, time.Time) {}

// full says whether nothing more should come for now.
func (q *eventQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	unread := q.before.order.Len()
	if q.broken != nil {
		unread += q.after.order.Len()
	}
	return q.all && unread >= backlog
}

// room waits until it is not full; one at a time may wait. false: ctx ended.
func (q *eventQueue) room(ctx context.Context) bool {
	for q.full() {
		select {
		case <-q.freed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// next waits for the next event; false: ctx ended.
func (q *eventQueue) next(ctx context.Context) (Event, bool) {
	for {
		if event := q.pop(); event != nil {
			return event, true
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// pop takes the first event, or nil.
func (q *eventQueue) pop() Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer signal(q.freed)
	switch event := q.before.pop().(type) {
	case *StateEvent:
		q.note(event)
		return *event
	case SnapshotComplete:
		return event
	}
	if q.broken == nil {
		return nil
	}
	event := *q.broken
	q.before, q.broken, q.after = q.after, nil, nil
	return event
}

// note says whether the state is news, and remembers it.
func (q *eventQueue) note(event *StateEvent) {
	id := event.State.ThreadID
	told, known := q.told[id]
	event.Changed = !known || told != event.State.version()
	if q.all && !event.State.Paused {
		delete(q.told, id)
	} else {
		q.told[id] = event.State.version()
	}
}

// last is where the next event goes.
func (q *eventQueue) last() *section {
	if q.broken != nil {
		return q.after
	}
	return q.before
}

func (q *eventQueue) wake() { signal(q.ready) }

// signal leaves a token, if there is none.
func signal(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

func (s *section) putState(event *StateEvent) {
	id := event.State.ThreadID
	if at, waits := s.states[id]; waits {
		event.Gap = event.Gap || at.Value.(*StateEvent).Gap
		at.Value = event
		return
	}
	s.states[id] = s.order.PushBack(event)
}

func (s *section) putStatesOf(other *section) {
	for at := other.order.Front(); at != nil; at = at.Next() {
		if state, ok := at.Value.(*StateEvent); ok {
			s.putState(state)
		}
	}
}

func (s *section) putComplete() {
	s.dropComplete()
	s.complete = s.order.PushBack(SnapshotComplete{})
}

func (s *section) dropComplete() {
	if s.complete != nil {
		s.order.Remove(s.complete)
		s.complete = nil
	}
}

// pop takes the first event, or nil.
func (s *section) pop() any {
	first := s.order.Front()
	if first == nil {
		return nil
	}
	value := s.order.Remove(first)
	switch event := value.(type) {
	case *StateEvent:
		delete(s.states, event.State.ThreadID)
	case SnapshotComplete:
		s.complete = nil
	}
	return value
}

// union of two lists without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
