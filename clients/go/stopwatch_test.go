package pausewatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// startStopwatch starts one on thread t, whose state is known when it returns.
func startStopwatch(t *testing.T, client *Client, limit time.Duration) *Stopwatch {
	t.Helper()
	stopwatch, err := client.StartStopwatch(limit, "t")
	check(t, err)
	synctest.Wait()
	return stopwatch
}

// expiresAfter waits for the expiry, which must come this long after the start.
func expiresAfter(t *testing.T, s *Stopwatch, want time.Duration) {
	t.Helper()
	select {
	case <-s.Expired():
	case <-time.After(time.Hour):
		t.Fatal("it does not expire")
	}
	if reading := s.Read(); reading.Wall != want || !reading.Expired || reading.Remaining != 0 {
		t.Errorf("%+v, want to expire after %v", reading, want)
	}
}

func stillRuns(t *testing.T, s *Stopwatch) {
	t.Helper()
	if isClosed(s.Expired()) {
		t.Fatalf("expired: %+v", s.Read())
	}
}

func TestAStopwatchExpiresAfterItsLimit(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		time.Sleep(4 * time.Second)
		if r := s.Read(); r != (Reading{Wall: 4 * time.Second, Elapsed: 4 * time.Second, Remaining: 6 * time.Second, Linked: true}) {
			t.Errorf("%+v", r)
		}
		expiresAfter(t, s, 10*time.Second)
		if asked := len(f.called("Confirm")); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		if r := s.Stop(); !r.Expired {
			t.Errorf("stopped afterwards: %+v", r)
		}
	})
}

func TestG3AStopwatchIsPausedWhileItsThreadIs(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		time.Sleep(4 * time.Second)
		f.pause("t")
		time.Sleep(time.Hour)
		stillRuns(t, s)
		if r := s.Read(); !r.Paused || r.Elapsed != 4*time.Second || r.Remaining != 6*time.Second {
			t.Errorf("%+v", r)
		}
		f.resume("t")
		time.Sleep(time.Second)
		f.pause("t")
		time.Sleep(time.Minute)
		f.resume("t")
		expiresAfter(t, s, 10*time.Second+time.Hour+time.Minute)
	})
}

func TestG1AnIncrementNotYetReportedPreventsExpiry(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.misbehave(failing("Tell", -1, errUnavailable))
		time.Sleep(10*time.Second - 1)
		f.pause("t")
		time.Sleep(5 * time.Second)
		stillRuns(t, s)
		if r := s.Read(); !r.Paused {
			t.Errorf("%+v", r)
		}
		f.misbehave(nil)
		f.resume("t")
		expiresAfter(t, s, 15*time.Second)
	})
}

func TestG1OnlyAConfirmationRequestedAfterTheTimeRanOutCounts(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(method string, _ any) error {
			if method == "Confirm" {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		first := startStopwatch(t, client, 10*time.Second)
		second := startStopwatch(t, client, 10100*time.Millisecond) // Runs out while the question for the first is under way.
		expiresAfter(t, first, 10200*time.Millisecond)
		stillRuns(t, second)
		expiresAfter(t, second, 10400*time.Millisecond)
		if asked := len(f.called("Confirm")); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		time.Sleep(time.Minute)
	})
}

func TestStopwatchesOfAThreadShareAConfirmation(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		var all []*Stopwatch
		for range 1000 {
			s, err := client.StartStopwatch(10*time.Second, "t")
			check(t, err)
			all = append(all, s)
		}
		for _, s := range all {
			expiresAfter(t, s, 10*time.Second)
		}
		if asked := len(f.called("Confirm")); asked > 10 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestG1EveryRunOutNeedsANewConfirmation(t *testing.T) {
	t.Run("after a pause that the answer told", func(t *testing.T) {
		withFake(t, func(t *testing.T, f *fake, client *Client) {
			s := startStopwatch(t, client.WithDisconnectGrace(0), 10*time.Second)
			f.misbehave(failing("Tell", -1, errUnavailable))
			time.Sleep(6 * time.Second)
			f.pause("t")
			time.Sleep(3 * time.Second)
			f.resume("t")
			expiresAfter(t, s, 13*time.Second)
			if asked := len(f.called("Confirm")); asked != 2 {
				t.Errorf("asked %d times", asked)
			}
		})
	})
	t.Run("after a pause that began while it was asked", func(t *testing.T) {
		withFake(t, func(t *testing.T, f *fake, client *Client) {
			s := startStopwatch(t, client.WithDisconnectGrace(0), 10*time.Second)
			f.misbehave(func(method string, _ any) error {
				if method == "Confirm" {
					time.Sleep(100 * time.Millisecond)
				}
				return nil
			})
			time.Sleep(10*time.Second + 50*time.Millisecond)
			f.pause("t")
			time.Sleep(time.Minute)
			stillRuns(t, s)
			f.resume("t")
			expiresAfter(t, s, 70*time.Second+150*time.Millisecond)
			if asked := len(f.called("Confirm")); asked != 2 {
				t.Errorf("asked %d times", asked)
			}
		})
	})
}

func TestAStopwatchThatJoinsAPausedThreadStartsPaused(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		time.Sleep(time.Hour)
		first := startStopwatch(t, client, 10*time.Second)
		time.Sleep(time.Minute)
		second := startStopwatch(t, client, 10*time.Second)
		time.Sleep(time.Minute)
		for _, s := range []*Stopwatch{first, second} {
			if r := s.Read(); !r.Paused || r.Elapsed != 0 {
				t.Errorf("%+v", r)
			}
		}
		f.resume("t")
		expiresAfter(t, first, 2*time.Minute+10*time.Second)
		expiresAfter(t, second, time.Minute+10*time.Second)
	})
}

func TestOwnPausesNestAndOverlapWithTheThreads(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		one, two := s.Pause(), s.Pause()
		time.Sleep(time.Minute)
		one()
		one()
		time.Sleep(time.Minute)
		f.pause("t")
		time.Sleep(time.Minute)
		if r := s.Read(); !r.Paused || r.Elapsed != 0 {
			t.Errorf("%+v", r)
		}
		two()
		time.Sleep(time.Minute)
		stillRuns(t, s)
		f.resume("t")
		expiresAfter(t, s, 4*time.Minute+10*time.Second)
	})
}

func TestAnOwnPauseDelaysAnExpiryDuringItsConfirmation(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.misbehave(func(method string, _ any) error {
			if method == "Confirm" {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		time.Sleep(10100 * time.Millisecond)
		resume := s.Pause()
		time.Sleep(time.Minute)
		stillRuns(t, s)
		resume()
		// A new confirmation: the earlier one is out of date.
		expiresAfter(t, s, 70300*time.Millisecond)
	})
}

func TestG7AThousandThreadsShareOneStream(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		var all []*Stopwatch
		for i := range 1000 {
			s, err := client.StartStopwatch(time.Hour, fmt.Sprint(i))
			check(t, err)
			all = append(all, s)
		}
		synctest.Wait()
		if f.open() != 1 || f.watching("0") != 1 || f.watching("999") != 1 {
			t.Errorf("%d streams", f.open())
		}
		for _, s := range all {
			if !s.Stop().Linked {
				t.Error("not linked")
			}
		}
	})
}

func TestAThreadIsFollowedForAWhileAfterItsLastStopwatch(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		startStopwatch(t, client, time.Hour).Stop()
		time.Sleep(29 * time.Second)
		second := startStopwatch(t, client, time.Hour)
		if !second.Read().Linked || len(f.called("Watch")) != 1 {
			t.Errorf("%d streams were opened", len(f.called("Watch")))
		}
		time.Sleep(time.Minute)
		if f.watching("t") != 1 {
			t.Error("forgotten while it is in use")
		}
		second.Stop()
		time.Sleep(29 * time.Second)
		if f.watching("t") != 1 {
			t.Error("forgotten too early")
		}
		time.Sleep(2 * time.Second)
		if f.open() != 0 {
			t.Error("followed for ever")
		}
		third := startStopwatch(t, client, time.Second)
		expiresAfter(t, third, time.Second)
	})
}

func TestAStoppedStopwatchDoesNotExpire(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		time.Sleep(3 * time.Second)
		stopped := s.Stop()
		time.Sleep(time.Minute)
		stillRuns(t, s)
		if stopped.Elapsed != 3*time.Second || s.Stop() != stopped || s.Read() != stopped || len(f.called("Confirm")) != 0 {
			t.Errorf("stopped at %+v, now %+v", stopped, s.Read())
		}
	})
}

func TestAStopwatchOfABadThreadIsRejected(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		if _, err := client.StartStopwatch(time.Second, ""); !is[*InvalidFieldError](err) {
			t.Errorf("%T: %v", err, err)
		}
	})
}

func TestLimitsAtTheEndsOfTheTypeAreSafe(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		for _, limit := range []time.Duration{0, -1, -1 << 63} {
			expiresAfter(t, startStopwatch(t, client, limit), 0)
		}
		endless := startStopwatch(t, client.WithDisconnectGrace(1<<63-1), 1<<63-1)
		time.Sleep(time.Hour)
		if r := endless.Stop(); r.Elapsed != time.Hour || r.Paused || !r.Linked {
			t.Errorf("%+v", r)
		}
	})
}
