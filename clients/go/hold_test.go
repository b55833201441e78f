package pausewatch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// open opens a hold with a TTL of 30 s on thread t.
func open(t *testing.T, client *Client) *Hold {
	t.Helper()
	hold, err := client.Hold(ctx, "t", HoldOptions{Reason: "Push?"})
	check(t, err)
	return hold
}

func isClosed(channel <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func TestAHoldIsOpenUntilItIsReleased(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		if hold.Opened().Count != 1 || f.count("t") != 1 || hold.Lease() != Held {
			t.Errorf("opened %+v, count %d, lease %v", hold.Opened(), f.count("t"), hold.Lease())
		}
		if _, ok := hold.Closed(); ok {
			t.Error("closed while it is open")
		}
		check(t, hold.Release(ctx))
		check(t, hold.Release(ctx))
		closed, ok := hold.Closed()
		if !ok || closed.Count != 0 || f.count("t") != 0 || hold.Lease() != Released || !isClosed(hold.Lost()) {
			t.Errorf("closed %+v, count %d, lease %v", closed, f.count("t"), hold.Lease())
		}
		if calls := f.called("Decrement"); len(calls) != 1 {
			t.Errorf("%d decrements", len(calls))
		}
	})
}

func TestAHoldSaysWhoHoldsAndForHowLong(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		check(t, open(t, client).Release(ctx))
		sent := f.called("Increment")[0].(*pausewatchv1.IncrementElicitationRequest)
		if !strings.HasSuffix(sent.Holder, "]") || sent.Reason != "Push?" || sent.Ttl.AsDuration() != 30*time.Second {
			t.Errorf("sent %v", sent)
		}
		hold, err := client.Hold(ctx, "t", HoldOptions{Holder: "deploy", TTL: time.Minute})
		check(t, err)
		check(t, hold.Release(ctx))
		sent = f.called("Increment")[1].(*pausewatchv1.IncrementElicitationRequest)
		if sent.Holder != "deploy" || sent.Ttl.AsDuration() != time.Minute {
			t.Errorf("sent %v", sent)
		}
	})
}

func TestG2AHoldIsRenewedAtAThirdOfItsTTL(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		time.Sleep(305 * time.Second)
		if calls := len(f.called("Renew")); calls != 30 || f.count("t") != 1 || hold.Lease() != Held {
			t.Errorf("%d renewals in 305 s, count %d, lease %v", calls, f.count("t"), hold.Lease())
		}
		check(t, hold.Release(ctx))
		time.Sleep(time.Minute)
		if calls := len(f.called("Renew")); calls != 30 {
			t.Errorf("%d renewals after the release", calls-30)
		}
	})
}

func TestG2ALateReleaseReturnsATypedError(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		lost := hold.Lost()
		f.misbehave(failing("Renew", -1, errUnavailable))
		time.Sleep(29 * time.Second)
		if hold.Lease() != Held || isClosed(lost) {
			t.Errorf("lease %v before its end", hold.Lease())
		}
		time.Sleep(2 * time.Second)
		if hold.Lease() != Overdue || !isClosed(lost) || f.count("t") != 0 {
			t.Errorf("lease %v after its end, count %d", hold.Lease(), f.count("t"))
		}
		f.misbehave(nil)
		time.Sleep(5 * time.Second)
		if hold.Lease() != Expired {
			t.Errorf("lease %v when the server is back", hold.Lease())
		}
		for range 2 {
			if err := hold.Release(ctx); !is[*ElicitationExpiredError](err) {
				t.Errorf("%T: %v", err, err)
			}
		}
		if _, ok := hold.Closed(); ok {
			t.Error("closed by a release that came late")
		}
	})
}

func TestALeaseThatComesBackIsHeldAgain(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		// A server that was down gives every lease one full TTL again.
		f.mu.Lock()
		f.elicitations["e1"].lease.Stop()
		f.mu.Unlock()
		f.misbehave(failing("Renew", -1, errUnavailable))
		time.Sleep(45 * time.Second)
		if hold.Lease() != Overdue {
			t.Errorf("lease %v while the server is down", hold.Lease())
		}
		f.misbehave(nil)
		time.Sleep(5 * time.Second)
		if hold.Lease() != Held || isClosed(hold.Lost()) {
			t.Errorf("lease %v when it is back", hold.Lease())
		}
		check(t, hold.Release(ctx))
	})
}

func TestAHoldClosedByAnotherReportsIt(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		for reason, want := range map[string]Lease{"ELICITATION_RELEASED": Released, "ELICITATION_UNKNOWN": Unknown} {
			hold := open(t, client)
			f.mu.Lock()
			f.close(f.elicitations[hold.Opened().Elicitation.ID], reason)
			f.mu.Unlock()
			<-hold.Lost()
			err := hold.Release(ctx)
			if hold.Lease() != want || is[*ElicitationReleasedError](err) != (want == Released) || is[*ElicitationUnknownError](err) != (want == Unknown) {
				t.Errorf("%s: lease %v, release %T", reason, hold.Lease(), err)
			}
		}
	})
}

func TestG4AReleaseWhoseAnswerIsLostCountsOnce(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.pause("t")
		hold := open(t, client)
		f.lose(1)
		check(t, hold.Release(ctx))
		if closed, _ := hold.Closed(); closed.Count != 1 || f.count("t") != 1 {
			t.Errorf("closed %+v, count %d", closed, f.count("t"))
		}
	})
}

func TestG4AllReleasesOfAHoldAreOneCall(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		f.lose(1000)
		if err := hold.Release(ctx); !IsTransient(err) {
			t.Errorf("%T: %v", err, err)
		}
		f.lose(0)
		check(t, hold.Release(ctx)) // Not: another caller released it.
	})
}

func TestReleaseWorksWithAnEndedContext(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		check(t, hold.Release(ended))
		if f.count("t") != 0 {
			t.Error("still open")
		}
	})
}

func TestG2AFailedReleaseIsRetriedAndNothingIsRenewed(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		f.misbehave(failing("Decrement", -1, errUnavailable))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := hold.Release(short); !IsTransient(err) {
			t.Errorf("%T: %v", err, err)
		}
		time.Sleep(15 * time.Second)
		if calls := len(f.called("Renew")); calls != 0 || f.count("t") != 1 {
			t.Errorf("%d renewals, count %d", calls, f.count("t"))
		}
		f.misbehave(nil)
		time.Sleep(3 * time.Second)
		if f.count("t") != 0 {
			t.Error("still open when the server is back")
		}
		check(t, hold.Release(ctx))
	})
}

func TestAReleaseInTheBackgroundIsRetriedByAClientWithoutRetriesToo(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		client, err := NewClient(WithDialOptions(grpc.WithContextDialer(f.dial)), WithRetries(0))
		check(t, err)
		defer client.Close()
		hold := open(t, client)
		f.misbehave(failing("Decrement", 3, errUnavailable))
		if err := hold.Release(ctx); !is[*UnavailableError](err) {
			t.Errorf("%T: %v", err, err)
		}
		time.Sleep(time.Second)
		ids := make(map[string]bool)
		for _, request := range f.called("Decrement") {
			ids[request.(*pausewatchv1.DecrementElicitationRequest).RequestId] = true
		}
		if calls := len(f.called("Decrement")); f.count("t") != 0 || calls != 4 || len(ids) != 1 {
			t.Errorf("count %d after %d calls with %d request ids", f.count("t"), calls, len(ids))
		}
	})
}

func TestACancelledOpenLeavesNothingOpen(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(string, any) error { time.Sleep(2 * time.Second); return nil })
		cancelled, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		var err error
		took := took(func() { _, err = client.Hold(cancelled, "t", HoldOptions{}) })
		if !errors.Is(err, context.Canceled) || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
		time.Sleep(10 * time.Second)
		if calls := len(f.called("Increment")); calls != 1 || f.count("t") != 0 {
			t.Errorf("%d increments, count %d", calls, f.count("t"))
		}
		if _, err := client.Hold(cancelled, "t", HoldOptions{}); !errors.Is(err, context.Canceled) || len(f.called("Increment")) != 1 {
			t.Errorf("with an ended context: %v", err)
		}
	})
}

func TestG2CloseWaitsForReleasesInTheBackground(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(string, any) error { time.Sleep(time.Second); return nil })
		cancelled, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second/2, cancel)
		if _, err := client.Hold(cancelled, "t", HoldOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%T: %v", err, err)
		}
		check(t, client.Close())
		if calls := len(f.called("Increment")); calls != 1 || f.count("t") != 0 {
			t.Errorf("a cancelled open: %d increments, count %d", calls, f.count("t"))
		}
	})
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		f.misbehave(func(string, any) error { time.Sleep(time.Second); return nil })
		short, cancel := context.WithTimeout(ctx, time.Second/2)
		defer cancel()
		if err := hold.Release(short); !IsTransient(err) {
			t.Errorf("%T: %v", err, err)
		}
		check(t, client.Close())
		if f.count("t") != 0 {
			t.Error("a release that was cut short: still open")
		}
	})
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		f.misbehave(failing("Decrement", -1, errUnavailable))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = hold.Release(short)
		if took := took(func() { check(t, client.Close()) }); took != defaultCallTimeout {
			t.Errorf("without a server it waited for %v", took)
		}
	})
}

func TestG2CloseReleasesWhatIsBeingOpened(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(string, any) error { time.Sleep(time.Second); return nil })
		time.AfterFunc(time.Second/2, func() { check(t, client.Close()) })
		hold, err := client.Hold(ctx, "t", HoldOptions{BestEffort: true})
		if hold != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("%+v, %T: %v", hold, err, err)
		}
		if calls := len(f.called("Increment")); calls != 1 || f.count("t") != 0 {
			t.Errorf("%d increments, count %d", calls, f.count("t"))
		}
	})
}

func TestABlockReleasesHoweverItEnds(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		mine := errors.New("mine")
		err := client.WithHold(ctx, "t", HoldOptions{}, func(context.Context) error {
			if f.count("t") != 1 {
				t.Error("not open inside")
			}
			return mine
		})
		if err != mine || f.count("t") != 0 {
			t.Errorf("%v, count %d", err, f.count("t"))
		}
		check(t, client.WithHold(ctx, "t", HoldOptions{}, func(context.Context) error { return nil }))
		func() {
			defer func() {
				if recover() != "mine" || f.count("t") != 0 {
					t.Errorf("after a panic: count %d", f.count("t"))
				}
			}()
			_ = client.WithHold(ctx, "t", HoldOptions{}, func(context.Context) error { panic("mine") })
		}()
	})
}

func TestABlockThatEndsLateReturnsAnError(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		mine := errors.New("mine")
		for _, own := range []error{nil, mine} {
			err := client.WithHold(ctx, "t", HoldOptions{}, func(context.Context) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				for _, e := range f.elicitations {
					f.close(e, "ELICITATION_EXPIRED")
				}
				return own
			})
			if !is[*ElicitationExpiredError](err) || errors.Is(err, mine) != (own == mine) {
				t.Errorf("own %v: %v", own, err)
			}
		}
	})
}

func TestABlockDoesNotRunIfItsHoldIsRefused(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Increment", -1, refuse(codes.ResourceExhausted, "TOO_MANY_ELICITATIONS")))
		err := client.WithHold(ctx, "t", HoldOptions{}, func(context.Context) error { t.Error("it ran"); return nil })
		if !is[*TooManyElicitationsError](err) {
			t.Errorf("%T: %v", err, err)
		}
	})
}

func TestCloseEndsTheRenewalsOfAHold(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		hold := open(t, client)
		check(t, client.Close())
		time.Sleep(31 * time.Second)
		if f.count("t") != 0 || hold.Lease() != Overdue || len(f.called("Renew")) != 0 {
			t.Errorf("count %d, lease %v", f.count("t"), hold.Lease())
		}
		if err := hold.Release(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("%T: %v", err, err)
		}
	})
}

func TestLeasesHaveNames(t *testing.T) {
	for lease, name := range map[Lease]string{Held: "held", Overdue: "overdue", Expired: "expired", Released: "released", Unknown: "unknown", NotOpen: "not_open", 9: "invalid"} {
		if lease.String() != name {
			t.Errorf("%d is %q", lease, lease)
		}
	}
}

func TestABestEffortHoldContinuesWithoutACoordinatorAndLogsWhy(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		var logged bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&logged, nil))
		client, err := NewClient(WithDialOptions(grpc.WithContextDialer(f.dial)), WithLogger(logger))
		check(t, err)
		defer client.Close()
		f.stop()
		opts := HoldOptions{BestEffort: true}
		for _, thread := range []string{"t", ""} {
			hold, err := client.Hold(ctx, thread, opts)
			check(t, err)
			<-hold.Lost()
			if hold.Failure() == nil || hold.Lease() != NotOpen || hold.Opened().Count != 0 {
				t.Errorf("%q: %v, %v, %+v", thread, hold.Failure(), hold.Lease(), hold.Opened())
			}
			check(t, hold.Release(ctx))
			if _, closed := hold.Closed(); closed {
				t.Error("closed what was not open")
			}
		}
		ran := false
		check(t, client.WithHold(ctx, "t", opts, func(context.Context) error { ran = true; return nil }))
		if warnings := strings.Count(logged.String(), "level=WARN"); !ran || warnings != 3 {
			t.Errorf("ran: %v, logged: %s", ran, &logged)
		}
		f.start()
		hold, err := client.Hold(ctx, "t", opts)
		check(t, err)
		if hold.Failure() != nil || hold.Lease() != Held {
			t.Errorf("%v, %v", hold.Failure(), hold.Lease())
		}
		check(t, hold.Release(ctx))
	})
}

func TestTextThatIsNotUTF8IsAnInvalidField(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		bad := "\xff"
		_, inThread := client.Hold(ctx, bad, HoldOptions{BestEffort: true})
		_, inReason := client.Hold(ctx, "t", HoldOptions{Reason: bad})
		_, inElicitation := client.DecrementElicitation(ctx, "t", DecrementOptions{ElicitationID: &bad})
		for field, err := range map[string]error{"thread_id": inThread, "reason": inReason, "elicitation_id": inElicitation} {
			var invalid *InvalidFieldError
			if !errors.As(err, &invalid) || invalid.Field != field || invalid.Description != field+" is not UTF-8" {
				t.Errorf("%s: %T: %v", field, err, err)
			}
		}
	})
}

func TestABestEffortHoldStillRejectsABadThreadAndAClosedClient(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		opts := HoldOptions{BestEffort: true}
		f.misbehave(failing("Increment", -1, invalidField("thread_id", "is wrong")))
		if _, err := client.Hold(ctx, "t", opts); !is[*InvalidFieldError](err) {
			t.Errorf("%T: %v", err, err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := client.Hold(ended, "t", opts); !errors.Is(err, context.Canceled) {
			t.Errorf("%T: %v", err, err)
		}
		check(t, client.Close())
		if _, err := client.Hold(ctx, "t", opts); !errors.Is(err, ErrClosed) {
			t.Errorf("%T: %v", err, err)
		}
	})
}
