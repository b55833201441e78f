package pausewatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// next is the next event.
func next(t *testing.T, events <-chan Event) Event {
	t.Helper()
	select {
	case event, ok := <-events:
		if !ok {
			t.Fatal("the watch is closed")
		}
		return event
	case <-time.After(time.Minute):
		t.Fatal("no event within a minute")
		return nil
	}
}

func nextState(t *testing.T, events <-chan Event) StateEvent {
	t.Helper()
	event := next(t, events)
	state, ok := event.(StateEvent)
	if !ok {
		t.Fatalf("got %#v, want a state", event)
	}
	return state
}

func nextIs[E Event](t *testing.T, events <-chan Event) E {
	t.Helper()
	event := next(t, events)
	wanted, ok := event.(E)
	if !ok {
		t.Fatalf("got %#v, want a %T", event, wanted)
	}
	return wanted
}

// nothing more comes for ten seconds.
func nothing(t *testing.T, events <-chan Event) {
	t.Helper()
	select {
	case event := <-events:
		t.Errorf("got %#v, want nothing", event)
	case <-time.After(10 * time.Second):
	}
}

func watchOne(t *testing.T, client *Client, threadIDs ...string) <-chan Event {
	t.Helper()
	events, err := client.Watch(ctx, threadIDs, WatchOptions{})
	check(t, err)
	return events
}

func TestG6AWatchReportsASnapshotThenChanges(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		events := watchOne(t, client, "t", "t")
		if s := nextState(t, events); s.State.Count != 1 || !s.Gap || !s.Changed {
			t.Errorf("%+v", s)
		}
		nextIs[SnapshotComplete](t, events)
		f.resume("t")
		if s := nextState(t, events); s.State.Count != 0 || s.Gap || !s.Changed {
			t.Errorf("%+v", s)
		}
		nothing(t, events)
	})
}

func TestG6AWatchReconnectsAndReportsTheGap(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t", "u")
		for range 2 {
			nextState(t, events)
		}
		nextIs[SnapshotComplete](t, events)
		f.stop()
		if disconnect := nextIs[Disconnected](t, events); strings.Join(disconnect.ThreadIDs, ",") != "t,u" && strings.Join(disconnect.ThreadIDs, ",") != "u,t" || !IsTransient(disconnect.Err) {
			t.Errorf("%+v", disconnect)
		}
		nothing(t, events)
		f.pause("t")
		f.start()
		for range 2 {
			if s := nextState(t, events); !s.Gap || s.Changed != (s.State.ThreadID == "t") {
				t.Errorf("%+v", s)
			}
		}
		nextIs[SnapshotComplete](t, events)
	})
}

func TestAWatchThatWorkedReconnectsQuicklyEachTime(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t")
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		for range 10 {
			f.stop()
			f.start()
			nextIs[Disconnected](t, events)
			took := took(func() { nextState(t, events) })
			nextIs[SnapshotComplete](t, events)
			if took > time.Second {
				t.Errorf("it took %v", took)
			}
		}
	})
}

func TestASilentWatchReconnects(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t")
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		time.Sleep(5 * time.Minute) // Heartbeats are signs of life.
		nothing(t, events)
		f.misbehave(failing("Tell", -1, errUnavailable))
		muted := time.Now()
		nextIs[Disconnected](t, events)
		if after := time.Since(muted); after < silenceTimeout-15*time.Second || after > silenceTimeout {
			t.Errorf("noticed after %v", after)
		}
		f.misbehave(nil)
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
	})
}

func TestPingsDetectAServerThatVanished(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t")
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		time.Sleep(time.Minute)
		f.vanish()
		f.pause("t")
		took := took(func() { nextIs[Disconnected](t, events) })
		if took > pingInterval+pingTimeout {
			t.Errorf("noticed after %v", took)
		}
		if s := nextState(t, events); !s.Gap || !s.State.Paused {
			t.Errorf("%+v", s)
		}
	})
}

func TestG7ASlowReaderGetsTheLatestState(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t")
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		for range 500 {
			f.pause("t")
			f.resume("t")
		}
		synctest.Wait()
		// One may be on its way to the reader already.
		last := nextState(t, events).State.Revision
		if last != 1000 {
			if first := last; nextState(t, events).State.Revision != 1000 {
				t.Errorf("after revision %d comes another old one", first)
			}
		}
		nothing(t, events)
	})
}

func TestAWatchOfABadThreadIsRejected(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		for _, ids := range [][]string{nil, {"ok", ""}, {strings.Repeat("x", 257)}, {"a\x07b"}, {"a\u0085b"}, {"\xff"}} {
			if _, err := client.Watch(ctx, ids, WatchOptions{}); !is[*InvalidFieldError](err) {
				t.Errorf("%q: %v", ids, err)
			}
		}
		watchOne(t, client, strings.Repeat("é", 128), "a b", " ")
	})
}

func TestAWatchEndsWithItsContextOrItsClient(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ending, cancel := context.WithCancel(ctx)
		events, err := client.Watch(ending, []string{"t"}, WatchOptions{})
		check(t, err)
		all := client.WatchAll(ctx, WatchOptions{})
		synctest.Wait()
		cancel()
		for range events {
		}
		synctest.Wait()
		if open := f.open(); open != 1 {
			t.Errorf("%d streams are open", open)
		}
		check(t, client.Close())
		for range all {
		}
	})
}

// The last event is the error even if older ones are unread, and nothing is left behind if nobody reads it.
func TestAWatchOfAClosedClientEndsWithAnError(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		unread, err := client.Watch(ctx, []string{"a", "b"}, WatchOptions{})
		check(t, err)
		all := client.WatchAll(ctx, WatchOptions{})
		waiting := watchOne(t, client, "c")
		nextState(t, waiting)
		nextIs[SnapshotComplete](t, waiting)
		synctest.Wait()
		check(t, client.Close())
		synctest.Wait()
		ends := func(name string, events <-chan Event, threadIDs ...string) {
			t.Helper()
			last := nextIs[Disconnected](t, events)
			if !errors.Is(last.Err, ErrClosed) || !slices.Equal(last.ThreadIDs, threadIDs) {
				t.Errorf("%s: the last event is %#v", name, last)
			}
			if event, open := <-events; open {
				t.Errorf("%s: %#v after the last event", name, event)
			}
		}
		ends("unread", unread, "a", "b")
		ends("all", all)
		ends("waiting", waiting, "c")
		if _, err := client.Watch(ctx, []string{"t"}, WatchOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a watch of a closed client: %v", err)
		}
		ends("all of a closed client", client.WatchAll(ctx, WatchOptions{}))
	})
}

func TestAWatchWhoseContextEndsHasNoErrorOfTheClient(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ending, cancel := context.WithCancel(ctx)
		events, err := client.Watch(ending, []string{"t"}, WatchOptions{})
		check(t, err)
		synctest.Wait()
		cancel()
		synctest.Wait()
		for event := range events {
			if _, ok := event.(Disconnected); ok {
				t.Errorf("got %#v", event)
			}
		}
	})
}
