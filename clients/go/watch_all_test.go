package pausewatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

func TestG6AWatchOfAllTellsWhatResumedInTheGap(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("stays")
		f.pause("resumes")
		f.pause("ran")
		f.resume("ran")
		events := client.WatchAll(ctx, WatchOptions{})
		for range 2 {
			if s := nextState(t, events); !s.Gap || !s.State.Paused {
				t.Errorf("%+v", s)
			}
		}
		nextIs[SnapshotComplete](t, events)
		f.stop()
		if broken := nextIs[Disconnected](t, events); len(broken.ThreadIDs) != 0 {
			t.Errorf("%+v", broken)
		}
		f.resume("resumes")
		f.start()
		if s := nextState(t, events); s.State.ThreadID != "stays" || !s.Gap || s.Changed {
			t.Errorf("%+v", s)
		}
		if s := nextState(t, events); s.State.ThreadID != "resumes" || !s.Gap || !s.Changed || s.State.Paused {
			t.Errorf("%+v", s)
		}
		nextIs[SnapshotComplete](t, events)
		f.pause("new")
		if s := nextState(t, events); s.State.ThreadID != "new" || s.Gap || !s.Changed {
			t.Errorf("%+v", s)
		}
	})
}

// flood pauses and resumes that many threads, as fast as the watches are told.
func (f *fake) flood(threads int) {
	for i := range threads {
		id := fmt.Sprint("flood-", i)
		f.pause(id)
		f.resume(id)
		if i%1000 == 999 {
			synctest.Wait()
		}
	}
	synctest.Wait()
}

func TestG7AReaderOfAllThatStandsStillDoesNotPileUpThreads(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		queue := all(t, f, client)
		f.flood(backlog + 2000)
		if unread := queue.order.Len(); unread != backlog {
			t.Errorf("%d events wait", unread)
		}
		// Longer than a silence that means a dead link.
		time.Sleep(10 * time.Minute)
		f.pause("last")
		synctest.Wait()
		if queue.broken != nil || queue.order.Len() != backlog || f.open() != 1 {
			t.Errorf("%d events wait, broken: %v, %d streams", queue.order.Len(), queue.broken, f.open())
		}
		// Read on, it tells the rest, and goes on living by its heartbeats.
		latest := make(map[string]uint64)
		for range 2 {
			for event := range events(queue) {
				latest[event.(StateEvent).State.ThreadID] = event.(StateEvent).State.Revision
			}
			synctest.Wait()
		}
		if len(latest) != backlog+2001 || latest["flood-0"] != 2 || latest[fmt.Sprint("flood-", backlog+1999)] != 2 || latest["last"] != 1 {
			t.Errorf("%d threads were told, the last at %d", len(latest), latest["last"])
		}
		time.Sleep(10 * time.Minute)
		tells(t, queue, "")
		f.resume("a")
		synctest.Wait()
		tells(t, queue, "a@2")
	})
}

func TestAWatchOfAllThatWaitsForItsReaderEndsAndHeals(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ctx, cancel := context.WithCancel(ctx)
		queue := newEventQueue(ctx, true)
		watchAll(ctx, client, queue, WatchOptions{})
		synctest.Wait()
		f.flood(backlog + 10)
		f.stop()
		f.start()
		time.Sleep(time.Minute)
		for range backlog {
			queue.pop()
		}
		time.Sleep(10 * time.Second)
		broken := false
		for event := range events(queue) {
			_, is := event.(Disconnected)
			broken = broken || is
		}
		if !broken || f.open() != 1 {
			t.Errorf("broken: %v, %d streams", broken, f.open())
		}
		f.flood(backlog + 10)
		if !queue.full() {
			t.Error("there is room")
		}
		cancel()
		synctest.Wait()
		if f.open() != 0 {
			t.Error("it goes on")
		}
	})
}

// all is a watch of everything that has told the paused thread "a", and what it tells.
func all(t *testing.T, f *fake, client *Client) *eventQueue {
	t.Helper()
	f.pause("a")
	queue := newEventQueue(ctx, true)
	watchAll(client.life, client, queue, WatchOptions{})
	synctest.Wait()
	tells(t, queue, "a@1? .")
	return queue
}

// tells: that, and no more, is told by now.
func tells(t *testing.T, queue *eventQueue, want string) {
	t.Helper()
	if got := told(queue); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestOfAllWhatTheTokenNoLongerOpensIsLeftOut(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		queue := all(t, f, client)
		f.stop()
		f.unheard("a", 2)
		f.misbehave(func(method string, request any) error {
			if method == "Change" && len(request.(*pausewatchv1.WatchRequest).Add) > 0 {
				return forbidden("a")
			}
			return nil
		})
		f.start()
		time.Sleep(10 * time.Second)
		tells(t, queue, "! .")
		f.pause("b")
		synctest.Wait()
		tells(t, queue, "b@1")
	})
}

func TestG6OfAllWhatChangedInTheGapIsToldOnce(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		queue := all(t, f, client)
		f.stop()
		f.unheard("a", 6)
		f.start()
		time.Sleep(10 * time.Second)
		tells(t, queue, "! a@6? .")
		f.pause("a")
		synctest.Wait()
		tells(t, queue, "a@7")
	})
}
