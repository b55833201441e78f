package pausewatch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
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

func TestG6AWatchGivesASnapshotThenChanges(t *testing.T) {
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

func TestG6AWatchHealsAndSaysWhatItMayHaveMissed(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t", "u")
		for range 2 {
			nextState(t, events)
		}
		nextIs[SnapshotComplete](t, events)
		f.stop()
		if broken := nextIs[Disconnected](t, events); strings.Join(broken.ThreadIDs, ",") != "t,u" && strings.Join(broken.ThreadIDs, ",") != "u,t" || !IsTransient(broken.Err) {
			t.Errorf("%+v", broken)
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

func TestAWatchThatWorkedComesBackQuicklyEachTime(t *testing.T) {
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

func TestASilentWatchIsBroken(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t")
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		time.Sleep(5 * time.Minute) // Heartbeats are signs of life.
		nothing(t, events)
		f.misbehave(failing("Tell", -1, errUnavailable))
		muted := time.Now()
		nextIs[Disconnected](t, events)
		if after := time.Since(muted); after < silence-15*time.Second || after > silence {
			t.Errorf("noticed after %v", after)
		}
		f.misbehave(nil)
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
	})
}

func TestAServerThatVanishedIsMissedByItsPings(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t")
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		time.Sleep(time.Minute)
		f.vanish()
		f.pause("t")
		took := took(func() { nextIs[Disconnected](t, events) })
		if took > pingEvery+pingAnswer {
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
		f.misbehave(failing("Get", 20, errUnavailable)) // More than one call's worth of tries.
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

// all is a watch of everything that has told the paused thread "a", and what it tells.
func all(t *testing.T, f *fake, client *Client) (*watchSet, *eventQueue) {
	t.Helper()
	f.pause("a")
	queue := newEventQueue(true)
	set := watchAll(client.life, client, queue, false)
	synctest.Wait()
	tells(t, queue, "a@1? .")
	return set, queue
}

// tells: that, and no more, is told by now.
func tells(t *testing.T, queue *eventQueue, want string) {
	t.Helper()
	if got := told(queue); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// hears lets the stream of a watch of everything tell a state of "a".
func (s *watchSet) hears(revision uint64) {
	for l := range s.legs {
		s.state(l, at("a", revision))
	}
}

// missed is a break during which "a" comes to that revision; at the question for it, it has come to another one.
func (f *fake) missed(revision, asked uint64) {
	f.stop()
	f.unheard("a", revision)
	f.misbehave(func(method string, _ any) error {
		if method == "Get" {
			f.unheard("a", asked)
		}
		return nil
	})
	f.start()
	time.Sleep(10 * time.Second)
}

func TestG6WhatWasAskedForAfterABreakIsNotFollowedByOlderStates(t *testing.T) {
	for _, answer := range []uint64{6, 7} {
		t.Run(fmt.Sprint(answer), func(t *testing.T) {
			withFake(t, func(t *testing.T, f *fake, client *Client) {
				set, queue := all(t, f, client)
				f.missed(2, answer)
				tells(t, queue, fmt.Sprintf("! a@%d? .", answer))
				// The stream was behind the answer.
				for revision := uint64(3); revision <= answer; revision++ {
					set.hears(revision)
					tells(t, queue, "")
				}
				set.hears(answer + 1)
				tells(t, queue, fmt.Sprintf("a@%d", answer+1))
			})
		})
	}
}

func TestG6AfterTheNextBreakWhatWasAskedForHoldsNothingBack(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		_, queue := all(t, f, client)
		f.missed(2, 6)
		tells(t, queue, "! a@6? .")
		f.missed(3, 3) // The server has lost its state.
		tells(t, queue, "! a@3? .")
	})
}

func TestOfAllWhatTheStreamTellsFirstNeedsNoAnswer(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := all(t, f, client)
		f.stop()
		f.unheard("a", 2)
		var answer chan struct{}
		f.misbehave(func(method string, _ any) error {
			if method == "Get" {
				<-answer
			}
			return nil
		})

		answer = make(chan struct{})
		f.start()
		time.Sleep(time.Second)
		set.hears(3)
		tells(t, queue, "! a@3?")
		close(answer)
		synctest.Wait()
		tells(t, queue, ".")

		f.stop()
		f.unheard("a", 6)
		answer = make(chan struct{})
		f.start()
		time.Sleep(time.Second)
		set.hears(5)
		tells(t, queue, "! a@5?") // It was still known as paused, so it is asked for.
		set.hears(6)
		tells(t, queue, "a@6")
		f.unheard("a", 8)
		close(answer)
		synctest.Wait()
		tells(t, queue, ".")
		set.hears(7)
		tells(t, queue, "a@7") // The stream goes on by itself.
	})
}

func TestAWatchOfABadThreadIsRefused(t *testing.T) {
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

func TestG7ManyThreadsAreSpreadOverFewStreams(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ids := make([]string, 25_000)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		events := watchOne(t, client, ids...)
		seen := make(map[string]int)
		for range ids {
			seen[nextState(t, events).State.ThreadID]++
		}
		nextIs[SnapshotComplete](t, events)
		if len(seen) != len(ids) || f.open() != 3 {
			t.Errorf("%d threads by %d streams", len(seen), f.open())
		}
		f.pause("0")
		f.pause("24999")
		nextState(t, events)
		nextState(t, events)
		nothing(t, events)
	})
}

// set is a watch whose threads change, with what it tells.
func set(client *Client) (*watchSet, *eventQueue) {
	queue := newEventQueue(false)
	return newWatchSet(client.life, client, queue, false), queue
}

func TestThreadsThatAreAddedShareOneStreamWithoutAGap(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("first")
		synctest.Wait()
		if got := told(queue); got != "first@0? ." {
			t.Errorf("told %q", got)
		}
		// The next stream takes a second to open; until then the old one serves.
		f.misbehave(func(method string, _ any) error {
			if method == "SnapshotComplete" {
				time.Sleep(time.Second)
			}
			return nil
		})
		for i := range 1000 {
			set.add(fmt.Sprint(i))
		}
		synctest.Wait()
		f.pause("first")
		synctest.Wait()
		if got := told(queue); !strings.Contains(got, "first@1") || strings.Contains(got, "!") || strings.Contains(got, ".") {
			t.Errorf("while the next stream opens: %q", got)
		}
		time.Sleep(5 * time.Second)
		if got := told(queue); strings.Contains(got, "first") || strings.Contains(got, "!") || !strings.HasSuffix(got, " .") {
			t.Errorf("when it has opened: %q", got)
		}
		if f.open() != 1 || f.watching("first") != 1 || f.watching("999") != 1 || len(f.called("Watch")) > 4 {
			t.Errorf("%d streams, %d were opened", f.open(), len(f.called("Watch")))
		}
	})
}

func TestAStreamThatTakesOverTellsWhatTheOldOneHasNotTold(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("first")
		synctest.Wait()
		told(queue)
		f.misbehave(failing("Tell", -1, errUnavailable))
		f.pause("first")
		synctest.Wait()
		if got := told(queue); got != "" {
			t.Errorf("the old one is mute and told %q", got)
		}
		set.add("second")
		synctest.Wait()
		if got := told(queue); got != "second@0? first@1 ." {
			t.Errorf("told %q", got)
		}
	})
}

func TestWhatIsRemovedIsWatchedNoMore(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		for i := range 100 {
			set.add(fmt.Sprint(i))
		}
		synctest.Wait()
		told(queue)
		for i := range 98 {
			set.remove(fmt.Sprint(i))
		}
		synctest.Wait()
		f.pause("0")
		f.pause("99")
		synctest.Wait()
		if got := told(queue); got != "99@1" && got != ". 99@1" {
			t.Errorf("told %q", got)
		}
		calls := f.called("Watch")
		if last := calls[len(calls)-1].(*pausewatchv1.WatchPauseStateRequest); len(last.ThreadIds) > smallLeg+2 || f.open() != 1 {
			t.Errorf("%d ids for 2 threads, %d streams", len(last.ThreadIds), f.open())
		}
		set.remove("98")
		set.remove("99")
		synctest.Wait()
		if f.open() != 0 {
			t.Errorf("%d streams for no thread", f.open())
		}
	})
}

func TestAStreamThatIsRefusedHoldsUpNobodyElse(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("mine")
		synctest.Wait()
		told(queue)
		f.misbehave(func(method string, request any) error {
			if watch, ok := request.(*pausewatchv1.WatchPauseStateRequest); ok && strings.Contains(fmt.Sprint(watch.ThreadIds), "foreign") {
				return status.Error(codes.PermissionDenied, "not yours")
			}
			return nil
		})
		set.add("foreign")
		synctest.Wait()
		if got := told(queue); got != "!foreign" {
			t.Errorf("told %q", got)
		}
		set.add("other")
		time.Sleep(10 * time.Second)
		f.pause("mine")
		synctest.Wait()
		if got := told(queue); !strings.Contains(got, "other@0?") || !strings.HasSuffix(got, "mine@1") {
			t.Errorf("told %q", got)
		}
	})
}
