package pausewatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// told pops all events and writes each down: "id@revision", with "?" after a gap and "=" if it is unchanged; "." for
// the end of a snapshot, "!ids" for a disconnect.
func told(q *eventQueue) string {
	var events []string
	for event := q.pop(); event != nil; event = q.pop() {
		switch event := event.(type) {
		case StateEvent:
			text := fmt.Sprintf("%s@%d", event.State.ThreadID, event.State.Revision)
			if event.Gap {
				text += "?"
			}
			if !event.Changed {
				text += "="
			}
			events = append(events, text)
		case SnapshotComplete:
			events = append(events, ".")
		case Disconnected:
			events = append(events, "!"+strings.Join(event.ThreadIDs, ","))
		}
	}
	return strings.Join(events, " ")
}

func at(id string, revision uint64) PauseState {
	return PauseState{ThreadID: id, Revision: revision, Paused: revision%2 == 1}
}

func TestAQueueConflates(t *testing.T) {
	type step func(q *eventQueue)
	state := func(id string, revision uint64, gap bool) step {
		return func(q *eventQueue) { q.state(at(id, revision), gap) }
	}
	complete := func(q *eventQueue) { q.complete() }
	disconnect := func(ids ...string) step { return func(q *eventQueue) { q.disconnected(ids, ErrClosed, 0) } }
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"events come in order":                              {[]step{state("a", 1, true), state("b", 1, true), complete, state("a", 2, false)}, "a@2? b@1? ."},
		"a gap that was not told stays":                     {[]step{state("a", 1, true), state("a", 2, false)}, "a@2?"},
		"a snapshot is complete once":                       {[]step{state("a", 1, true), complete, state("b", 1, true), complete}, "a@1? b@1? ."},
		"a break is between what it parts":                  {[]step{state("a", 1, true), complete, disconnect("a"), state("a", 2, true), complete}, "a@1? !a a@2? ."},
		"a break voids a snapshot that was not told":        {[]step{complete, disconnect("a")}, "!a"},
		"what two breaks enclose is told before them":       {[]step{state("a", 1, true), disconnect("a"), state("a", 2, true), state("b", 1, true), complete, disconnect("b"), state("b", 2, true)}, "a@2? b@1? !b b@2?"},
		"what is not back before the second break is in it": {[]step{state("b", 1, true), disconnect("a", "b"), state("a", 1, true), disconnect("c")}, "b@1? a@1? !b,c"},
		"what breaks again is in the second break":          {[]step{disconnect("a", "b"), state("a", 1, true), disconnect("a"), state("a", 2, true)}, "a@1? !a,b a@2?"},
	} {
		q := newEventQueue(ctx, false)
		for _, step := range c.steps {
			step(q)
		}
		if got := told(q); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestChangedComparesWithTheLastReportedState(t *testing.T) {
	q := newEventQueue(ctx, false)
	q.state(at("a", 1), true)
	told(q)
	q.state(at("a", 1), true)
	if got := told(q); got != "a@1?=" {
		t.Errorf("nothing happened in the gap: %q", got)
	}
	// Revision 2 is queued, is not read, and comes again after a disconnect.
	q.state(at("a", 2), false)
	q.disconnected([]string{"a"}, ErrClosed, 0)
	q.state(at("a", 2), true)
	if got := told(q); got != "a@2 !a a@2?=" {
		t.Errorf("got %q", got)
	}
}

func TestG7AQueueIsBoundedByItsThreads(t *testing.T) {
	q := newEventQueue(ctx, true)
	for revision := range uint64(1000) {
		for _, id := range []string{"a", "b", "c"} {
			q.state(at(id, revision), false)
		}
		q.complete()
		if revision%10 == 0 {
			q.disconnected(nil, ErrClosed, 0)
		}
	}
	if n := len(slices.Collect(events(q))); n > 3+1+3+1 {
		t.Errorf("%d events wait", n)
	}
	for revision := range uint64(1000) {
		q.state(at(fmt.Sprint(revision), 2*revision), false)
		q.pop()
	}
	if len(q.reported) > 3 {
		t.Errorf("%d threads are remembered that do not pause", len(q.reported))
	}
}

func events(q *eventQueue) func(yield func(Event) bool) {
	return func(yield func(Event) bool) {
		for event := q.pop(); event != nil && yield(event); event = q.pop() {
		}
	}
}

func TestAStateOfAnotherEpochIsAChangeWhateverItsRevision(t *testing.T) {
	q := newEventQueue(ctx, false)
	q.state(at("a", 1), true)
	q.state(at("b", 1), true)
	if told := told(q); told != "a@1? b@1?" {
		t.Fatal(told)
	}
	lost := at("a", 1)
	lost.StoreEpoch = 2
	q.state(lost, true)
	q.state(at("b", 1), true)
	if told := told(q); told != "a@1? b@1?=" {
		t.Fatal(told)
	}
}
