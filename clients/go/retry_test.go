package pausewatch

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

var (
	ctx            = context.Background()
	errUnavailable = status.Error(codes.Unavailable, "draining")
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// took returns how long f took by the test's clock.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// failing makes a method fail that many times from now on.
func failing(method string, times int, err error) func(string, any) error {
	return func(called string, _ any) error {
		if called != method || times == 0 {
			return nil
		}
		times--
		return err
	}
}

func TestG4UnavailableIsRetriedWithTheSameRequestID(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Increment", 2, status.Error(codes.Unavailable, "draining")))
		f.lose(1)
		made, err := client.IncrementElicitation(ctx, "t", IncrementOptions{TTL: time.Minute})
		check(t, err)
		if made.Count != 1 || f.count("t") != 1 {
			t.Errorf("count %d, %d", made.Count, f.count("t"))
		}
		calls := f.called("Increment")
		if len(calls) != 4 {
			t.Errorf("%d calls", len(calls))
		}
		first := calls[0].(*pausewatchv1.IncrementElicitationRequest).RequestId
		for _, call := range calls {
			if id := call.(*pausewatchv1.IncrementElicitationRequest).RequestId; id == "" || id != first {
				t.Errorf("request id %q, first %q", id, first)
			}
		}
	})
}

func TestStoreUnavailableIsRetried(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Increment", 1, refuse(codes.Unavailable, "STORE_UNAVAILABLE")))
		_, err := client.IncrementElicitation(ctx, "t", IncrementOptions{TTL: time.Minute})
		check(t, err)
		f.misbehave(failing("Increment", -1, refuse(codes.Unavailable, "STORE_UNAVAILABLE")))
		if _, err := client.IncrementElicitation(ctx, "t", IncrementOptions{}); !is[*StoreUnavailableError](err) {
			t.Errorf("%T: %v", err, err)
		}
	})
}

func TestEachCallHasARequestIDOfItsOwn(t *testing.T) {
	first, second := requestIDOrRandom(""), requestIDOrRandom("")
	if first == second || len(first) != 36 {
		t.Errorf("%q and %q", first, second)
	}
	if kept := requestIDOrRandom("mine"); kept != "mine" {
		t.Errorf("a name that was given became %q", kept)
	}
}

func TestRefusalsAreNotRetried(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		id := "never-was"
		_, err := client.DecrementElicitation(ctx, "t", DecrementOptions{ElicitationID: &id})
		if !is[*ElicitationUnknownError](err) || len(f.called("Decrement")) != 1 {
			t.Errorf("%T after %d calls", err, len(f.called("Decrement")))
		}
	})
}

func TestARetryDelayPastTheDeadlineIsNotStarted(t *testing.T) {
	// The last is the maximum of time.Duration: with a retry delay added, it would overflow.
	for _, given := range []time.Duration{5 * time.Second, time.Hour, math.MaxInt64} {
		withFake(t, func(t *testing.T, f *fake, client *Client) {
			f.misbehave(failing("Get", -1, exceeds("calls-per-second", given)))
			var err error
			took := took(func() { _, err = client.GetPauseState(ctx, "t") })
			if !is[*LimitExceededError](err) || took != 0 || len(f.called("Get")) != 1 {
				t.Errorf("told to wait %v: %T after %v and %d calls", given, err, took, len(f.called("Get")))
			}
		})
	}
}

func TestALastingRateLimitIsReportedWithinTheDeadline(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Get", -1, exceeds("calls-per-second", time.Second)))
		var err error
		took := took(func() { _, err = client.GetPauseState(ctx, "t") })
		if !is[*LimitExceededError](err) || took < 2*time.Second || took > 5*time.Second || len(f.called("Get")) < 3 {
			t.Errorf("%T after %v and %d calls", err, took, len(f.called("Get")))
		}
	})
}

func TestALimitThatLastsIsNotRetried(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Increment", -1, exceeds("open-elicitations-per-caller", time.Second)))
		var err error
		took := took(func() { _, err = client.IncrementElicitation(ctx, "t", IncrementOptions{}) })
		var exceeded *LimitExceededError
		if !errors.As(err, &exceeded) || exceeded.RetryAfter != time.Second || took != 0 || len(f.called("Increment")) != 1 {
			t.Errorf("%T after %v and %d calls", err, took, len(f.called("Increment")))
		}
	})
}

func TestAnUnansweredCallEndsInTime(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(string, any) error { time.Sleep(time.Minute); return nil })
		for limit, client := range map[time.Duration]*Client{
			5 * time.Second:        client.WithCallTimeout(time.Hour).WithCallTimeout(0),
			300 * time.Millisecond: client.WithCallTimeout(300 * time.Millisecond),
		} {
			var err error
			took := took(func() { _, err = client.GetPauseState(ctx, "t") })
			if !is[*DeadlineExceededError](err) || !errors.Is(err, context.DeadlineExceeded) || took < limit-tick || took > limit {
				t.Errorf("%T after %v, want %v", err, took, limit)
			}
		}
		time.Sleep(time.Minute)
	})
}

func TestWithoutAServerACallRetriesUntilItsDeadline(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.stop()
		defer f.start()
		var err error
		took := took(func() { _, err = client.GetPauseState(ctx, "t") })
		if !is[*UnavailableError](err) || took < 2*time.Second || took > 5*time.Second {
			t.Errorf("%T after %v: %v", err, took, err)
		}
	})
}

func TestACallEndsWithItsContext(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(string, any) error { time.Sleep(time.Minute); return nil })
		cancelled, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		var err error
		took := took(func() { _, err = client.GetPauseState(cancelled, "t") })
		if !errors.Is(err, context.Canceled) || !is[*CallError](err) || IsTransient(err) || took != time.Second {
			t.Errorf("%T after %v: %v", err, took, err)
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := client.GetPauseState(short, "t"); !is[*DeadlineExceededError](err) {
			t.Errorf("%T: %v", err, err)
		}
		time.Sleep(time.Minute)
	})
}

func TestACallWithAShortContextIsAnsweredByAnotherReplica(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		client, err := NewClient(WithAddress("127.0.0.1:1,127.0.0.1:2"), WithDialOptions(grpc.WithContextDialer(f.dial)))
		check(t, err)
		defer client.Close()
		var hangs atomic.Bool
		hangs.Store(true)
		f.misbehave(func(string, any) error {
			if hangs.Swap(false) {
				time.Sleep(time.Minute)
			}
			return nil
		})
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		took := took(func() { _, err = client.GetPauseState(short, "t") })
		if moves := client.route.current().moves; err != nil || moves != 1 || took < time.Second/2-tick || took > time.Second/2 {
			t.Errorf("%v after %v and %d moves", err, took, moves)
		}
		time.Sleep(time.Minute)
	})
}

func TestAResetCallIsRetried(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		// The status that gRPC reports for a stream that something between the client and the server has reset.
		f.misbehave(failing("Get", 1, status.Error(codes.Canceled, "stream terminated by RST_STREAM")))
		_, err := client.GetPauseState(ctx, "t")
		check(t, err)
	})
}

func TestARestartedServerIsFoundSoon(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		_, err := client.GetPauseState(ctx, "t")
		check(t, err)
		f.stop()
		// Long enough for every backoff to reach its end.
		patient := client.WithCallTimeout(time.Hour)
		var back time.Time
		time.AfterFunc(10*time.Minute, func() { back = time.Now(); f.start() })
		_, err = patient.GetPauseState(ctx, "t")
		check(t, err)
		if late := time.Since(back); late > 4*time.Second {
			t.Errorf("found %v after it was back", late)
		}
	})
}

func TestAShortCallFindsARestartedServer(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hasty := client.WithCallTimeout(200 * time.Millisecond)
		for range 10 {
			f.stop()
			if _, err := client.GetPauseState(ctx, "t"); !is[*UnavailableError](err) {
				t.Errorf("%T: %v", err, err)
			}
			f.start()
			_, err := hasty.GetPauseState(ctx, "t")
			check(t, err)
		}
	})
}

func TestEverythingEndsWithClose(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(string, any) error { time.Sleep(time.Minute); return nil })
		var err error
		go func() { _, err = client.GetPauseState(ctx, "t") }()
		synctest.Wait()
		check(t, client.Close())
		synctest.Wait()
		if !errors.Is(err, ErrClosed) {
			t.Errorf("a call under way: %v", err)
		}
		if _, err := client.WithCallTimeout(time.Hour).GetPauseState(ctx, "t"); !errors.Is(err, ErrClosed) {
			t.Errorf("a call later: %v", err)
		}
		check(t, client.Close())
		time.Sleep(time.Minute)
	})
}

func TestCloseEndsARetryDelay(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Get", -1, errUnavailable))
		time.AfterFunc(10*time.Second, func() { _ = client.Close() })
		var err error
		took := took(func() { _, err = client.WithCallTimeout(time.Hour).GetPauseState(ctx, "t") })
		if !errors.Is(err, ErrClosed) || took != 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}
