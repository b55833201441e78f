package pausewatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

func TestG6WatchAllReportsThreadsThatResumedInTheGap(t *testing.T) {
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
		if disconnect := nextIs[Disconnected](t, events); len(disconnect.ThreadIDs) != 0 {
			t.Errorf("%+v", disconnect)
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

// flood pauses and resumes that many threads, as fast as the watches receive them.
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

func TestG7AStoppedReaderOfWatchAllIsBounded(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		queue := all(t, f, client)
		f.flood(maxUnreadEvents + 2000)
		if unread := queue.order.Len(); unread != maxUnreadEvents {
			t.Errorf("%d events wait", unread)
		}
		// Longer than the silence of a dead link.
		time.Sleep(10 * time.Minute)
		f.pause("last")
		synctest.Wait()
		if queue.disconnect != nil || queue.order.Len() != maxUnreadEvents || f.open() != 1 {
			t.Errorf("%d events wait, broken: %v, %d streams", queue.order.Len(), queue.disconnect, f.open())
		}
		// When reading continues, it reports the rest, and heartbeats keep it alive.
		latest := make(map[string]uint64)
		for range 2 {
			for event := range events(queue) {
				latest[event.(StateEvent).State.ThreadID] = event.(StateEvent).State.Revision
			}
			synctest.Wait()
		}
		if len(latest) != maxUnreadEvents+2001 || latest["flood-0"] != 2 || latest[fmt.Sprint("flood-", maxUnreadEvents+1999)] != 2 || latest["last"] != 1 {
			t.Errorf("%d threads were told, the last at %d", len(latest), latest["last"])
		}
		time.Sleep(10 * time.Minute)
		tells(t, queue, "")
		f.resume("a")
		synctest.Wait()
		tells(t, queue, "a@2")
	})
}

func TestWatchAllThatWaitsForItsReaderEndsAndReconnects(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ctx, cancel := context.WithCancel(ctx)
		queue := newEventQueue(ctx, true)
		watchAll(ctx, client, queue, WatchOptions{})
		synctest.Wait()
		f.flood(maxUnreadEvents + 10)
		f.stop()
		f.start()
		time.Sleep(time.Minute)
		for range maxUnreadEvents {
			queue.pop()
		}
		time.Sleep(10 * time.Second)
		disconnect := false
		for event := range events(queue) {
			_, is := event.(Disconnected)
			disconnect = disconnect || is
		}
		if !disconnect || f.open() != 1 {
			t.Errorf("broken: %v, %d streams", disconnect, f.open())
		}
		f.flood(maxUnreadEvents + 10)
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

// all is a watch of all threads that has reported the paused thread "a", and its events.
func all(t *testing.T, f *fake, client *Client) *eventQueue {
	t.Helper()
	f.pause("a")
	queue := newEventQueue(ctx, true)
	watchAll(client.life, client, queue, WatchOptions{})
	synctest.Wait()
	tells(t, queue, "a@1? .")
	return queue
}

// tells checks that exactly these events have been reported by now.
func tells(t *testing.T, queue *eventQueue, want string) {
	t.Helper()
	if got := told(queue); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestWatchAllLeavesOutThreadsThatTheTokenNoLongerGrants(t *testing.T) {
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

func TestG6WatchAllReportsAChangeInTheGapOnce(t *testing.T) {
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
