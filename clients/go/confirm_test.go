package pausewatch

// Confirmations before timeouts expire.

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

func TestTimeoutsThatRunOutTogetherShareAConfirmation(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		var all []*Stopwatch
		for i := range 1000 {
			s, err := client.StartStopwatch(10*time.Second, fmt.Sprint(i))
			check(t, err)
			all = append(all, s)
		}
		// Long enough for all to run out during the first confirmation.
		f.misbehave(func(method string, _ any) error {
			if method == "Confirm" {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		for _, s := range all {
			<-s.Expired()
			if wall := s.Read().Wall; wall > 10*time.Second+40*time.Millisecond {
				t.Errorf("expired after %v", wall)
			}
		}
		asked := 0
		for _, request := range f.called("Confirm") {
			request := request.(*pausewatchv1.WatchRequest)
			asked += len(request.Confirm)
			if len(request.Confirm) > maxIDs || len(request.Add)+len(request.Remove) > 0 {
				t.Errorf("%d confirmed, %d added", len(request.Confirm), len(request.Add))
			}
		}
		if requests := len(f.called("Confirm")); asked != 1000 || requests > 4 || len(f.called("Get")) > 0 {
			t.Errorf("asked for %d threads by %d requests and %d calls", asked, requests, len(f.called("Get")))
		}
	})
}

func TestAConfirmationOnADeadLinkIsRequestedOnAnotherConnection(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		time.Sleep(9 * time.Second)
		f.vanish()
		<-s.Expired()
		if wall := s.Read().Wall; wall > 10*time.Second+firstConfirmationTimeout+2*firstReopenDelay {
			t.Errorf("expired after %v", wall)
		}
		if asked := len(f.called("Confirm")); asked != 1 {
			t.Errorf("asked %d times where anybody heard it", asked)
		}
	})
}

func TestTheConfirmationTimeoutDoublesWithEachUnansweredRequest(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		var asked []time.Duration
		f.misbehave(func(method string, _ any) error {
			if method != "Confirm" {
				return nil
			}
			asked = append(asked, time.Since(s.began))
			return errSwallowed
		})
		expiresAfter(t, s, 40*time.Second)
		synctest.Wait()
		// Streams without any answer have 2 s, then 4, 8 and 16.
		if len(asked) < 5 || len(asked) > 9 || asked[0] != 10*time.Second || asked[1] > 10350*time.Millisecond {
			t.Errorf("asked after %v", asked)
		}
	})
}

func TestAWaitingConfirmationReopensTheStreamSoon(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.stop()
		time.Sleep(25 * time.Second)
		stillRuns(t, s)
		f.start()
		back := time.Now()
		<-s.Expired()
		if late := time.Since(back); late > 300*time.Millisecond {
			t.Errorf("asked %v after the coordinator was back", late)
		}
	})
}

func TestThreadsThatMayNotBeAddedDelayNoConfirmation(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(func(method string, _ any) error {
			if method != "Change" {
				return nil
			}
			return fakeRefusal{&pausewatchv1.Refusal{
				Code: int32(codes.ResourceExhausted), Reason: "LIMIT_EXCEEDED", RetryAfter: durationpb.New(time.Hour),
			}}
		})
		s := startStopwatch(t, client, 10*time.Second)
		time.Sleep(9 * time.Second)
		f.pause("t")
		time.Sleep(2 * time.Second)
		// The end of the pause is never reported: it counts for the grace from the answer on.
		if r := s.Read(); !r.Paused || r.Linked {
			t.Errorf("%+v", r)
		}
		f.resume("t")
		<-s.Expired()
		if r := s.Read(); r.Wall < 40*time.Second || len(f.called("Watch")) != 1 {
			t.Errorf("%+v, %d streams", r, len(f.called("Watch")))
		}
	})
}

func TestAConfirmationOverALimitIsRequestedAgain(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.misbehave(failing("Confirm", 1, fakeRefusal{&pausewatchv1.Refusal{
			Code: int32(codes.ResourceExhausted), Reason: "LIMIT_EXCEEDED", RetryAfter: durationpb.New(3 * time.Second),
		}}))
		expiresAfter(t, s, 13*time.Second)
		if len(f.called("Watch")) != 1 {
			t.Errorf("%d streams", len(f.called("Watch")))
		}
	})
}

func TestAConfirmationThatALimitHasDelayedMayNotBeLate(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.misbehave(failing("Confirm", 1, fakeRefusal{&pausewatchv1.Refusal{
			Code: int32(codes.ResourceExhausted), Reason: "LIMIT_EXCEEDED", RetryAfter: durationpb.New(3 * time.Second),
		}}))
		time.Sleep(11 * time.Second)
		f.vanish()
		time.Sleep(2*time.Second - tick)
		// The delay is the server's: its silence means nothing.
		if streams := len(f.called("Watch")); streams != 1 {
			t.Errorf("%d streams during the delay", streams)
		}
		<-s.Expired()
		if wall := s.Read().Wall; wall < 13*time.Second || wall > 13*time.Second+firstConfirmationTimeout+2*firstReopenDelay {
			t.Errorf("expired after %v", wall)
		}
	})
}

func TestAConfirmationThatIsNotNeededAnyMoreMayBeLate(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client, 10*time.Second)
		f.misbehave(failing("Confirm", -1, errSwallowed))
		time.Sleep(10*time.Second + firstConfirmationTimeout/2)
		s.Stop()
		time.Sleep(10 * time.Second)
		if asked, streams := len(f.called("Confirm")), len(f.called("Watch")); asked != 1 || streams != 1 {
			t.Errorf("asked %d times on %d streams", asked, streams)
		}
	})
}

func TestStoppedTimeoutsRequestNoConfirmation(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		s := startStopwatch(t, client.WithDisconnectGrace(time.Second), 10*time.Second)
		f.stop()
		<-s.Expired()
		f.start()
		time.Sleep(20 * time.Second)
		if asked := len(f.called("Confirm")); asked != 0 {
			t.Errorf("asked %d times", asked)
		}
	})
}
