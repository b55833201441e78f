package pausewatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestNoPauseExtendsTheLimitOnWallTime(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		paused, err := client.StartStopwatch(10*time.Second, "t", WithMaxWall(time.Minute))
		check(t, err)
		own, err := client.StartStopwatch(10*time.Second, "other", WithMaxWall(time.Minute))
		check(t, err)
		synctest.Wait()
		own.Pause()
		time.Sleep(4 * time.Second)
		f.pause("t")
		time.Sleep(56*time.Second - time.Nanosecond)
		stillRuns(t, paused)
		stillRuns(t, own)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		for _, s := range []*Stopwatch{paused, own} {
			if r := s.Read(); r.EndedBy != EndedByMaxWall || !r.Expired || r.Wall != time.Minute {
				t.Errorf("%+v", r)
			}
		}
		if elapsed := paused.Read().Elapsed; elapsed != 4*time.Second {
			t.Errorf("elapsed: %v", elapsed)
		}
		if asked := len(f.called("Confirm")); asked != 0 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestNoConfirmationExtendsTheLimitOnWallTime(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s, err := client.StartStopwatch(10*time.Second, "t", WithMaxWall(12*time.Second))
		check(t, err)
		synctest.Wait()
		f.misbehave(failing("Confirm", -1, errSwallowed))
		expiresAfter(t, s, 12*time.Second)
		if r := s.Read(); r.EndedBy != EndedByMaxWall {
			t.Errorf("%+v", r)
		}
	})
}

func TestTheEarlierLimitEndsAStopwatch(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s, err := client.StartStopwatch(10*time.Second, "t", WithMaxWall(time.Minute))
		check(t, err)
		stopped, err := client.StartStopwatch(10*time.Second, "t", WithMaxWall(time.Minute))
		check(t, err)
		stopped.Stop()
		expiresAfter(t, s, 10*time.Second)
		time.Sleep(time.Hour)
		if r := s.Read(); r.EndedBy != EndedByLimit || r.EndedBy.String() != "limit" {
			t.Errorf("%+v", r)
		}
		if r := stopped.Read(); r.EndedBy != notEnded || r.Expired {
			t.Errorf("stopped: %+v", r)
		}
		atOnce, err := client.StartStopwatch(10*time.Second, "t", WithMaxWall(0))
		check(t, err)
		expiresAfterWall(t, atOnce, 0)
	})
}

func expiresAfterWall(t *testing.T, s *Stopwatch, want time.Duration) {
	t.Helper()
	<-s.Expired()
	if r := s.Read(); r.EndedBy != EndedByMaxWall || r.Wall != want {
		t.Errorf("%+v, want to expire after %v", r, want)
	}
}

func TestTheCauseOfATimeoutNamesItsLimit(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, "t", WithMaxWall(time.Minute))
		defer cancel()
		<-ctx.Done()
		cause := context.Cause(ctx)
		if ctx.Err() != context.DeadlineExceeded || cause != ErrMaxWall || !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("%v, cause %v", ctx.Err(), cause)
		}
	})
}
