package pausewatch

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// awaits makes the stopwatch await threads whose states are known when it returns.
func awaits(t *testing.T, s *Stopwatch, threadIDs ...string) (done []func()) {
	t.Helper()
	for _, id := range threadIDs {
		end, err := s.AwaitThread(id)
		check(t, err)
		done = append(done, end)
	}
	synctest.Wait()
	return done
}

func hasElapsed(t *testing.T, s *Stopwatch, want time.Duration, paused bool) {
	t.Helper()
	synctest.Wait()
	if r := s.Read(); r.Elapsed != want || r.Paused != paused {
		t.Errorf("%+v, want elapsed %v, paused %v", r, want, paused)
	}
}

func TestG3AStopwatchIsPausedWhileAnyOfItsThreadsIsAndOverlapsCountOnce(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		awaits(t, s, "child")
		time.Sleep(2 * time.Second)
		f.pause("child")
		time.Sleep(3 * time.Second)
		hasElapsed(t, s, 2*time.Second, true)
		f.pause("t")
		time.Sleep(95 * time.Second)
		f.resume("child")
		hasElapsed(t, s, 2*time.Second, true)
		time.Sleep(100 * time.Second)
		f.resume("t")
		expiresAfter(t, s, 208*time.Second)
	})
}

func TestG1EveryThreadIsConfirmedBeforeAStopwatchExpires(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		awaits(t, s, "child", "other")
		f.misbehave(failing("Tell", -1, errUnavailable))
		time.Sleep(10*time.Second - 1)
		f.pause("child")
		time.Sleep(5 * time.Second)
		stillRuns(t, s)
		asked := make(map[string]bool)
		for _, request := range f.called("Confirm") {
			for _, id := range request.(*pausewatchv1.WatchRequest).Confirm {
				asked[id] = true
			}
		}
		if len(asked) != 3 {
			t.Errorf("asked about %v", asked)
		}
		f.misbehave(nil)
		f.resume("child")
		expiresAfter(t, s, 15*time.Second)
	})
}

func TestAThreadCountsUntilTheLastWaitForItEnds(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.pause("child")
		done := awaits(t, s, "child", "child")
		time.Sleep(20 * time.Second)
		done[0]()
		done[0]()
		time.Sleep(20 * time.Second)
		hasElapsed(t, s, 0, true)
		done[1]()
		hasElapsed(t, s, 0, false)
		expiresAfter(t, s, 50*time.Second)
		if asked := f.called("Confirm"); len(asked) != 1 {
			t.Errorf("asked: %v", asked)
		}
		late := awaits(t, s, "late")
		late[0]()
		time.Sleep(linger + time.Minute)
		if open := f.open(); open != 0 {
			t.Errorf("%d streams are open", open)
		}
	})
}

func TestACycleFreezesBothWhileEitherIsPaused(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		other, err := client.StartStopwatch(10*time.Second, "child")
		check(t, err)
		awaits(t, s, "child")
		awaits(t, other, "t")
		f.pause("child")
		time.Sleep(time.Hour)
		hasElapsed(t, s, 0, true)
		hasElapsed(t, other, 0, true)
		f.resume("child")
		expiresAfter(t, s, time.Hour+10*time.Second)
	})
}

func TestAwaitThreadRejectsAnInvalidIDAndTheStopwatchsOwn(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		for _, bad := range []string{"", "t"} {
			var invalid *InvalidFieldError
			if _, err := s.AwaitThread(bad); !errors.As(err, &invalid) || invalid.Field != "thread_id" {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}

func TestG1AGapCountsAsMuchAsPossible(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		apart, together := startStopwatch(t, client, time.Hour), startStopwatch(t, client, time.Hour)
		awaits(t, apart, "child")
		awaits(t, together, "other")
		f.stop()
		f.pause("child")
		time.Sleep(20 * time.Second)
		f.resume("child")
		f.pause("t")
		f.pause("other")
		time.Sleep(30 * time.Second)
		f.resume("t")
		f.resume("other")
		f.start()
		time.Sleep(100 * time.Second)
		if r := apart.Stop(); r.Elapsed != 100*time.Second {
			t.Errorf("one after the other: %+v", r)
		}
		// 50 s, and the time until the link is back.
		if r := together.Stop(); r.Elapsed > 100*time.Second || r.Elapsed < 90*time.Second {
			t.Errorf("together: %+v", r)
		}
	})
}

func TestG3PausesSeenBeforeAGapDoNotCountWithinIt(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, time.Hour)
		awaits(t, s, "child")
		f.pause("t")
		f.pause("child")
		time.Sleep(30 * time.Second) // The gap begins with the last message, a heartbeat.
		synctest.Wait()
		f.resume("t")
		f.resume("child")
		f.stop()
		time.Sleep(20 * time.Second)
		f.start()
		time.Sleep(100 * time.Second)
		if r := s.Stop(); r.Elapsed != 120*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

func TestG2APausedAwaitedThreadCountsForOneGraceWhileDisconnected(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client.WithDisconnectGrace(5*time.Second), 10*time.Second)
		awaits(t, s, "child")
		time.Sleep(time.Second)
		f.pause("child")
		time.Sleep(time.Second)
		f.stop()
		// 1 s, the pause until 7 s, the other 9 s, and the minimum time for a confirmation.
		expiresAfter(t, s, 16*time.Second+minConfirmationTime)
	})
}

func TestG2AnUnconfirmedAwaitedThreadDelaysExpiryByTheGraceAtMost(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client.WithDisconnectGrace(5*time.Second), 10*time.Second)
		awaits(t, s, "child")
		f.misbehave(func(method string, request any) error {
			if method == "Confirm" && slices.Contains(request.(*pausewatchv1.WatchRequest).Confirm, "child") {
				return forbidden("child")
			}
			return nil
		})
		expiresAfter(t, s, 15*time.Second)
	})
}
