package pausewatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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
		set, queue := all(t, f, client)
		f.flood(backlog + 2000)
		if unread := queue.before.order.Len(); unread != backlog {
			t.Errorf("%d events wait", unread)
		}
		// Longer than a silence that means a dead link.
		time.Sleep(10 * time.Minute)
		f.pause("last")
		synctest.Wait()
		if queue.broken != nil || queue.before.order.Len() != backlog || f.open() != 1 {
			t.Errorf("%d events wait, broken: %v, %d streams", queue.before.order.Len(), queue.broken, f.open())
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
		set.hears(2)
		tells(t, queue, "a@2")
	})
}

func TestAWatchOfAllThatWaitsForItsReaderEndsAndHeals(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ctx, cancel := context.WithCancel(ctx)
		queue := newEventQueue(true)
		watchAll(ctx, client, queue, false)
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
	for l := range s.streams {
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

func TestAQuestionOfAllThatComesTooOftenIsAskedAgain(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		_, queue := all(t, f, client)
		f.stop()
		f.unheard("a", 2)
		// Longer than a call may take: each call ends with the refusal.
		f.misbehave(failing("Get", 3, exceeds("calls-per-second-per-caller", time.Minute)))
		f.start()
		time.Sleep(10 * time.Second)
		tells(t, queue, "! a@2? .")
		if asked := len(f.called("Get")); asked != 4 {
			t.Errorf("asked %d times", asked)
		}
	})
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
