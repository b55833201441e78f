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
	ctx context.Context

	mu sync.Mutex
	// Of *StateEvent, SnapshotComplete and Disconnected.
	order *list.List
	// The states after the break; nil where none waits.
	states           map[string]*list.Element
	broken, snapshot *list.Element
	// The version of each thread that was told last.
	told map[string]version
	// Has a token when there may be something new.
	ready chan struct{}
	// Has a token when there may be room again.
	freed chan struct{}
}

func newEventQueue(ctx context.Context, all bool) *eventQueue {
	return &eventQueue{
		all:    all,
		ctx:    ctx,
		order:  list.New(),
		states: make(map[string]*list.Element),
		told:   make(map[string]version),
		ready:  make(chan struct{}, 1),
		freed:  make(chan struct{}, 1),
	}
}

// state is told in the place of one that waits, or last. It waits until there is room.
func (q *eventQueue) state(state PauseState, gap bool) {
	for q.full() {
		select {
		case <-q.freed:
		case <-q.ctx.Done():
			return
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(q.states, q.order.PushBack(&StateEvent{State: state, Gap: gap}))
	signal(q.ready)
}

// put moves a state to the place of an earlier one of its thread, if one waits.
func (q *eventQueue) put(states map[string]*list.Element, at *list.Element) {
	event := at.Value.(*StateEvent)
	id := event.State.ThreadID
	earlier := states[id]
	if earlier == nil {
		states[id] = at
		return
	}
	event.Gap = event.Gap || earlier.Value.(*StateEvent).Gap
	earlier.Value = event
	q.order.Remove(at)
}

// complete is told after all that waits now.
func (q *eventQueue) complete() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropSnapshot()
	q.snapshot = q.order.PushBack(SnapshotComplete{})
	signal(q.ready)
}

func (q *eventQueue) dropSnapshot() {
	if q.snapshot != nil {
		q.order.Remove(q.snapshot)
		q.snapshot = nil
	}
}

// disconnected voids the snapshot whose completeness is not told yet.
func (q *eventQueue) disconnected(threadIDs []string, err error, silentFor time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropSnapshot()
	clear(q.states)
	if q.broken != nil {
		threadIDs = union(q.order.Remove(q.broken).(Disconnected).ThreadIDs, threadIDs)
		q.conflate()
	}
	q.broken = q.order.PushBack(Disconnected{ThreadIDs: threadIDs, Err: err, SilentFor: silentFor})
	signal(q.ready)
}

// conflate leaves the latest state of each thread. Nothing else waits.
func (q *eventQueue) conflate() {
	states := make(map[string]*list.Element)
	for at := q.order.Front(); at != nil; {
		next := at.Next()
		q.put(states, at)
		at = next
	}
}

// confirmed: a reader of events asks for nothing.
func (q *eventQueue) confirmed([]confirmation, time.Time) {}

// full says whether nothing more should come for now.
func (q *eventQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all && q.order.Len() >= backlog
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
	first := q.order.Front()
	if first == nil {
		return nil
	}
	switch event := q.order.Remove(first).(type) {
	case *StateEvent:
		if id := event.State.ThreadID; q.states[id] == first {
			delete(q.states, id)
		}
		q.note(event)
		return *event
	case Disconnected:
		q.broken = nil
		return event
	default:
		q.snapshot = nil
		return SnapshotComplete{}
	}
}

// forget drops what waits of a thread that is watched no more.
func (q *eventQueue) forget(threadID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := q.states[threadID]; at != nil {
		q.order.Remove(at)
		delete(q.states, threadID)
	}
	delete(q.told, threadID)
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

// signal leaves a token, if there is none.
func signal(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

// union of two lists without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
