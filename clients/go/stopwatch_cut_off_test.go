package pausewatch

// Stopwatches while disconnected.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestAStopwatchStartedWhileDisconnectedIsCreditedFromItsStartOnly(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		first := startStopwatch(t, client, time.Hour)
		f.stop()
		f.pause("t")
		time.Sleep(50 * time.Second)
		second := startStopwatch(t, client, time.Hour)
		time.Sleep(10 * time.Second)
		f.resume("t")
		f.start()
		time.Sleep(100 * time.Second)
		if r := first.Stop(); r.Elapsed != 100*time.Second {
			t.Errorf("the first: %+v", r)
		}
		// The time until the reconnect may be free: the thread could have been paused.
		if r := second.Stop(); r.Elapsed < 90*time.Second || r.Elapsed > 100*time.Second {
			t.Errorf("the second: %+v", r)
		}
	})
}

func TestG1AnOwnPauseIsNotChargedAfterAWrongAssumption(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		startStopwatch(t, client, time.Hour)
		f.stop()
		f.resume("t")
		time.Sleep(5 * time.Second)
		late := startStopwatch(t, client, time.Hour)
		time.Sleep(time.Second)
		resume := late.Pause()
		time.Sleep(4 * time.Second)
		resume()
		time.Sleep(2 * time.Second)
		f.start()
		time.Sleep(100 * time.Second)
		if r := late.Stop(); r.Elapsed != 102*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

func TestG1AStopwatchStartedWhileDisconnectedIsNotChargedForEarlierAssumptions(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		first := startStopwatch(t, client, 5*time.Minute)
		time.Sleep(time.Second)
		f.stop()
		f.resume("t")
		// Assumed to be paused until now, in fact for 1 s.
		time.Sleep(19 * time.Second)
		second := startStopwatch(t, client, 20*time.Second)
		time.Sleep(time.Second)
		f.start()
		time.Sleep(7 * time.Second) // By then it has connected again.
		f.pause("t")
		time.Sleep(3 * time.Second)
		f.resume("t")
		expiresAfter(t, second, 23*time.Second)
		if r := second.Read(); r.Elapsed != 20*time.Second {
			t.Errorf("%+v", r)
		}
		if r := first.Stop(); r.Elapsed != 39*time.Second {
			t.Errorf("whose time it was is charged: %+v", r)
		}
	})
}

func TestG1AStopwatchStartedOnADeadLinkIsNotChargedForEarlierAssumptions(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		startStopwatch(t, client, 5*time.Minute)
		time.Sleep(time.Second)
		// The dead link is not noticed yet.
		f.vanish()
		f.resume("t")
		time.Sleep(8 * time.Second)
		second := startStopwatch(t, client, 5*time.Second)
		time.Sleep(time.Second)
		f.stop()
		f.start()
		time.Sleep(time.Second)
		f.pause("t")
		time.Sleep(3 * time.Second)
		f.resume("t")
		expiresAfter(t, second, 8*time.Second)
		if r := second.Read(); r.Elapsed != 5*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

func TestG1ADeadLinkThatIsFoundLateLeavesTimeToAskOnANewStream(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		s := startStopwatch(t, client.WithDisconnectGrace(time.Second), time.Second)
		time.Sleep(time.Second)
		f.vanish()
		f.mu.Lock()
		dead := f.server
		f.listener = nil
		f.mu.Unlock()
		for s.Read().Linked {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		dead.Stop()
		f.start()
		time.Sleep(time.Minute)
		if r := s.Stop(); r.Expired || !r.Paused {
			t.Errorf("%+v", r)
		}
	})
}

func TestG3APauseDuringADisconnectIsCredited(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, time.Minute)
		time.Sleep(time.Second)
		f.stop()
		time.Sleep(time.Second)
		f.pause("t")
		time.Sleep(10 * time.Second)
		f.resume("t")
		if r := s.Read(); r.Linked || r.Paused {
			t.Errorf("%+v", r)
		}
		f.start()
		time.Sleep(28 * time.Second)
		if r := s.Read(); !r.Linked || r.Elapsed != 30*time.Second {
			t.Errorf("%+v", r)
		}
		expiresAfter(t, s, 70*time.Second)
	})
}

func TestG1AStopwatchThatRunsOutWhileDisconnectedWaitsForTheLink(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.stop()
		f.pause("t")
		time.Sleep(25 * time.Second)
		stillRuns(t, s)
		f.start()
		time.Sleep(20 * time.Second)
		stillRuns(t, s)
		if r := s.Read(); !r.Paused || !r.Linked {
			t.Errorf("%+v", r)
		}
		f.resume("t")
		expiresAfter(t, s, 55*time.Second)
	})
}

func TestG2WhileDisconnectedExpiryWaitsForTheGraceOnly(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		patient := startStopwatch(t, client, 10*time.Second)
		hasty := startStopwatch(t, client.WithDisconnectGrace(5*time.Second), 10*time.Second)
		none := startStopwatch(t, client.WithDisconnectGrace(-1), 10*time.Second)
		f.stop()
		defer f.start()
		expiresAfter(t, none, 10*time.Second+minConfirmationTime)
		expiresAfter(t, hasty, 15*time.Second)
		expiresAfter(t, patient, 40*time.Second)
	})
}

func TestG2AnUnconfirmedPauseEnds(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.pause("t")
		synctest.Wait()
		time.Sleep(time.Second)
		f.stop()
		defer f.start()
		time.Sleep(29 * time.Second)
		if r := s.Read(); !r.Paused || r.Elapsed != 0 {
			t.Errorf("within the grace: %+v", r)
		}
		time.Sleep(2 * time.Second)
		if r := s.Read(); r.Paused || r.Elapsed != time.Second {
			t.Errorf("after the grace: %+v", r)
		}
		// Its limit; nothing of the grace is left for the answer.
		expiresAfter(t, s, 31*time.Second+10*time.Second+minConfirmationTime)
	})
}

func TestG2AStopwatchPausedAtTheDisconnectRunsAgain(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.pause("t")
		time.Sleep(20 * time.Second)
		f.stop()
		defer f.start()
		// The grace of its pause, its limit, and the least time for the answer.
		expiresAfter(t, s, 20*time.Second+30*time.Second+10*time.Second+minConfirmationTime)
	})
}

func TestG2TheGraceOfASilentLinkCountsFromItsLastMessage(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.pause("t")
		synctest.Wait()
		time.Sleep(time.Second)
		f.vanish()
		f.misbehave(func(string, any) error { return status.Error(codes.Unavailable, "gone") })
		expiresAfter(t, s, 30*time.Second+10*time.Second+minConfirmationTime)
	})
}

func TestG2TimeAfterAnUnseenResumeIsChargedAtTheReconnect(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 40*time.Second)
		f.pause("t")
		synctest.Wait()
		f.stop()
		time.Sleep(2 * time.Second)
		f.resume("t")
		time.Sleep(33 * time.Second)
		s.Pause()() // It looks, and runs again on the assumption that 30 s were paused.
		f.start()
		<-s.Expired()
		if r := s.Read(); r.Wall > 50*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

func TestAfterCloseNothingPausesOrConfirmsAStopwatch(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		time.Sleep(time.Second)
		f.pause("t")
		time.Sleep(5 * time.Second)
		own := startStopwatch(t, client, 10*time.Second)
		resume := own.Pause()
		check(t, client.Close())
		if r := s.Read(); r.Linked || r.Paused {
			t.Errorf("closed: %+v", r)
		}
		expiresAfter(t, s, 15*time.Second)
		if own.Read().Expired {
			t.Error("its own pause has ended")
		}
		done, err := own.AwaitThread("u")
		check(t, err)
		resume()
		expiresAfter(t, own, 19*time.Second)
		done()
		if len(f.called("Confirm")) != 0 {
			t.Error("asked after the end")
		}
		if _, err := client.StartStopwatch(time.Second, "t"); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		late, cancel := client.WithPausableTimeout(ctx, time.Second, "t")
		defer cancel()
		if !errors.Is(context.Cause(late), ErrClosed) {
			t.Errorf("after the end: %v", context.Cause(late))
		}
	})
}
