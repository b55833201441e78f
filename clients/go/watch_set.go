package pausewatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/backoff"
)

const (
	// The most thread ids that one stream may name.
	mostIDs = 10_000
	// How many dead ids are too few to care.
	smallStream = 32
	// Between two questions for a thread that was paused before a break; up to twice as long, at random.
	askAgain = 500 * time.Millisecond
)

// watchSet is a watch that heals itself, over a set of threads that may change while it runs.
//
// A stream cannot add threads. Threads added while a stream is being opened wait for
// the next one and share it. The new stream takes over as many streams as fit into one, and keeps them until its own
// snapshot is complete. So up to 10,000 threads share one stream, and adding many at once sends each id a few times at most.
//
//  1. Each thread belongs to one stream at a time, so its states arrive in order.
//  2. Replacing a stream leaves no gap: the old stream serves until the new one has sent its whole snapshot.
//  3. Streams do not wait for a reader: the queue keeps the latest of each thread. Only that of everything does, which has
//     no other to take it over, and no lock while it waits.
//  4. Every disconnection is reported, and the first state after it carries the gap.
//  5. An answer to a question may overtake the stream: what the stream still tells of that thread is told only from
//     there on.
//
// The queue has its own lock, taken with the set's held.
type watchSet struct {
	ctx          context.Context
	client       *Client
	queue        *eventQueue
	elicitations bool
	// Every thread, by one stream without ids; threads are those that are paused.
	all bool

	mu      sync.Mutex
	threads map[string]*watched
	streams map[*watchStream]struct{}
	// The stream whose first snapshot is awaited. One at a time: what is added meanwhile shares the next.
	opening *watchStream
	// Added, and on no stream yet; some may have been removed since.
	waiting      []string
	toldComplete bool
	// With all: the threads that were paused before the break and are not in the snapshot after it are being asked for.
	// Counts the breaks, so that answers from before one are not told.
	asking bool
	breaks int
	// With all: the versions that asking has brought since the last break.
	asked map[string]version
}

// watched is one thread of the set.
type watched struct {
	stream *watchStream
	known  bool
	told   version
	gap    bool
}

// newWatchSet is an empty set, for as long as ctx lasts.
func newWatchSet(ctx context.Context, client *Client, queue *eventQueue, elicitations bool) *watchSet {
	return &watchSet{
		ctx:          ctx,
		client:       client,
		queue:        queue,
		elicitations: elicitations,
		threads:      make(map[string]*watched),
		streams:      make(map[*watchStream]struct{}),
		asked:        make(map[string]version),
	}
}

// watchAll is every thread, for as long as ctx lasts.
func watchAll(ctx context.Context, client *Client, queue *eventQueue, elicitations bool) *watchSet {
	s := newWatchSet(ctx, client, queue, elicitations)
	s.all = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(&watchStream{set: s})
	return s
}

// add watches more threads; those that are watched already stay as they are.
func (s *watchSet) add(threadIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range threadIDs {
		if s.threads[id] == nil {
			s.threads[id] = &watched{gap: true}
			s.waiting = append(s.waiting, id)
			s.toldComplete = false
		}
	}
	// Threads that come and go while there is no connection must not pile up.
	if len(s.waiting) > 2*len(s.threads)+smallStream {
		s.waiting = slices.DeleteFunc(s.waiting, func(id string) bool { return !s.waits(id) })
	}
	s.openNext()
}

// remove watches one thread less.
func (s *watchSet) remove(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	thread := s.threads[threadID]
	if thread == nil {
		return
	}
	delete(s.threads, threadID)
	s.queue.forget(threadID)
	l := thread.stream
	if l == nil {
		return
	}
	l.live--
	s.dropIfEmpty(l)
	s.openNext()
}

// dropIfEmpty drops a stream without threads.
func (s *watchSet) dropIfEmpty(l *watchStream) {
	if l.live == 0 && len(l.replaces) == 0 && !s.all {
		s.drop(l)
	}
}

func (s *watchSet) waits(threadID string) bool {
	thread := s.threads[threadID]
	return thread != nil && thread.stream == nil
}

func (s *watchSet) start(l *watchStream) {
	ctx, stop := context.WithCancel(s.ctx)
	l.stop = stop
	s.streams[l] = struct{}{}
	s.opening = l
	go l.run(ctx)
}

func (s *watchSet) drop(l *watchStream) {
	l.stop()
	delete(s.streams, l)
	if s.opening == l {
		s.opening = nil
	}
}

// openNext opens a stream for what waits, and lets it take over the others as far as they fit.
func (s *watchSet) openNext() {
	if s.opening != nil {
		return
	}
	next := &watchStream{set: s}
	for len(s.waiting) > 0 && len(next.threadIDs) < mostIDs {
		id := s.waiting[len(s.waiting)-1]
		s.waiting = s.waiting[:len(s.waiting)-1]
		if s.waits(id) {
			s.threads[id].stream = next
			next.threadIDs = append(next.threadIDs, id)
		}
	}
	next.live = len(next.threadIDs)
	var others []*watchStream
	worn := false
	for other := range s.streams {
		if other.complete {
			others = append(others, other)
			worn = worn || other.worn()
		}
	}
	if next.live == 0 && !worn {
		return
	}
	slices.SortFunc(others, func(a, b *watchStream) int { return cmp.Compare(a.live, b.live) })
	for _, other := range others {
		if len(next.threadIDs)+other.live > mostIDs {
			break
		}
		next.replaces = append(next.replaces, other)
		next.threadIDs = append(next.threadIDs, s.owned(other)...)
	}
	s.start(next)
}

// owned are the threads of a stream that are still its own.
func (s *watchSet) owned(l *watchStream) []string {
	var ids []string
	for _, id := range l.threadIDs {
		if thread := s.threads[id]; thread != nil && thread.stream == l {
			ids = append(ids, id)
		}
	}
	return ids
}

// state is what a stream heard of a thread.
func (s *watchSet) state(l *watchStream, state PauseState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, running := s.streams[l]; !running {
		return
	}
	l.broken = false
	if s.all {
		s.tellAny(state, !l.complete)
		return
	}
	switch thread := s.threads[state.ThreadID]; {
	case thread == nil:
	case thread.stream == l:
		s.tell(thread, state)
	case slices.Contains(l.replaces, thread.stream):
		l.holdBack(state)
	}
}

// tell queues a state, unless it is no news.
func (s *watchSet) tell(thread *watched, state PauseState) {
	// A new stream may be behind the old one that it takes over.
	if !thread.gap && thread.known && state.version().isNoNews(thread.told) {
		return
	}
	s.queue.state(state, thread.gap)
	thread.known, thread.told, thread.gap = true, state.version(), false
}

// tellAny queues a state of any thread, and remembers the thread only while it is paused.
func (s *watchSet) tellAny(state PauseState, snapshot bool) {
	if asked, was := s.asked[state.ThreadID]; was && state.version().isNoNews(asked) {
		return
	}
	thread := s.threads[state.ThreadID]
	if thread == nil {
		thread = &watched{gap: snapshot}
		s.threads[state.ThreadID] = thread
	}
	s.tell(thread, state)
	if !state.Paused {
		delete(s.threads, state.ThreadID)
	}
}

// complete: the stream has told each of its threads once since it was opened.
func (s *watchSet) complete(l *watchStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, running := s.streams[l]; !running {
		return
	}
	l.complete, l.broken = true, false
	if s.opening == l {
		s.opening = nil
	}
	for _, old := range l.replaces {
		for _, id := range s.owned(old) {
			s.threads[id].stream = l
			l.live++
		}
		s.drop(old)
	}
	l.replaces = nil
	for id, state := range l.heldBack {
		if thread := s.threads[id]; thread != nil {
			s.tell(thread, state)
		}
	}
	l.heldBack = nil
	s.dropIfEmpty(l)
	if s.all {
		s.askMissing()
	}
	s.tellComplete()
	s.openNext()
}

// tellComplete queues the end of the snapshot, if every thread has been told and that is news.
func (s *watchSet) tellComplete() {
	if s.toldComplete || s.asking || slices.ContainsFunc(s.waiting, s.waits) {
		return
	}
	for l := range s.streams {
		if !l.complete && (l.live > 0 || s.all) {
			return
		}
	}
	s.toldComplete = true
	s.queue.complete()
}

// broken handles a stream that broke or could not be opened. It reopens by itself.
func (s *watchSet) broken(l *watchStream, err error, silentFor time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, running := s.streams[l]; !running {
		return
	}
	first := !l.broken
	l.complete, l.broken, l.heldBack = false, true, nil
	affected := s.owned(l)
	if s.all {
		for _, thread := range s.threads {
			thread.gap = true
		}
		s.asking = false
		s.breaks++
		clear(s.asked)
	}
	for _, id := range affected {
		s.threads[id].gap = true
	}
	if s.opening == l && !IsTransient(err) {
		// Refused. It keeps retrying for its own threads, but no other thread waits for it.
		s.opening, l.replaces = nil, nil
		if len(affected) == 0 && !s.all {
			s.drop(l)
		}
		defer s.openNext()
	}
	if first && (s.all || len(affected) > 0) {
		s.toldComplete = false
		s.queue.disconnected(affected, err, silentFor)
	}
}

// askMissing: a snapshot of everything names the paused threads only; what it does not name was resumed in the gap.
func (s *watchSet) askMissing() {
	var missing []string
	for id, thread := range s.threads {
		if thread.gap {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		s.asking = true
		go s.ask(missing, s.breaks)
	}
}

// ask tells the states of threads, unless there was another break.
func (s *watchSet) ask(threadIDs []string, breaks int) {
	for _, id := range threadIDs {
		state, err := s.client.GetPauseState(s.ctx, id)
		for ; IsTransient(err); state, err = s.client.GetPauseState(s.ctx, id) {
			select {
			case <-time.After(backoff.Jitter(askAgain)):
			case <-s.ctx.Done():
				return
			}
		}
		if err == nil && !s.answered(state, breaks) {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.breaks == breaks {
		s.asking = false
		s.tellComplete()
	}
}

func (s *watchSet) answered(state PauseState, breaks int) (current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.breaks != breaks {
		return false
	}
	// Without a gap, or removed: the stream has delivered a newer state and continues.
	if thread := s.threads[state.ThreadID]; thread != nil && thread.gap {
		if !s.elicitations {
			state.Elicitations = nil
		}
		s.tellAny(state, true)
		s.asked[state.ThreadID] = state.version()
	}
	return true
}
