package pausewatch

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

func TestTheObserverGetsTheLinkAndTheEndOfTheGrace(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		var logged bytes.Buffer
		var mu sync.Mutex
		var links []Link
		client, err := NewClient(
			WithDialOptions(grpc.WithContextDialer(f.dial)),
			WithLinkObserver(func(link Link) {
				mu.Lock()
				defer mu.Unlock()
				links = append(links, link)
			}),
			WithLogger(slog.New(slog.NewTextHandler(&logged, nil))),
		)
		check(t, err)
		defer client.Close()
		// A copy, because the observer may be called again while the test reads.
		told := func() (told []Link, states []string) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for _, link := range links {
				states = append(states, link.State.String())
			}
			return slices.Clone(links), states
		}
		defer startStopwatch(t, client, time.Hour).Stop()
		time.Sleep(time.Second)
		lost := time.Now()
		f.stop()
		time.Sleep(29 * time.Second)
		if links, states := told(); !slices.Equal(states, []string{"connected", "disconnected"}) || !links[1].Since.Equal(lost) || !is[*UnavailableError](links[1].Err) {
			t.Fatalf("%v: %+v", states, links)
		}
		time.Sleep(2 * time.Second)
		if links, states := told(); len(states) != 3 || states[2] != "grace_spent" || !links[2].Since.Equal(lost) {
			t.Fatalf("%v: %+v", states, links)
		}
		f.start()
		time.Sleep(time.Minute)
		if links, states := told(); len(states) != 4 || states[3] != "connected" || links[3] != (Link{}) {
			t.Fatalf("%v: %+v", states, links)
		}
		if text := logged.String(); strings.Count(text, "level=WARN") != 2 || strings.Count(text, "level=INFO") != 1 {
			t.Errorf("logged: %s", text)
		}
		check(t, client.Close())
		time.Sleep(time.Minute)
		if _, states := told(); len(states) != 4 {
			t.Errorf("after close: %v", states)
		}
	})
}

func TestAThreadThatIsRefusedIsWarnedOfOnceAndIsNoLossOfTheLink(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		var logged bytes.Buffer
		client, err := NewClient(WithDialOptions(grpc.WithContextDialer(f.dial)), WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		check(t, err)
		defer client.Close()
		f.misbehave(func(method string, request any) error {
			if method == "Change" {
				return forbidden("t")
			}
			return nil
		})
		defer startStopwatch(t, client, time.Hour).Stop()
		time.Sleep(time.Minute)
		if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "a thread is not watched") || !strings.Contains(text, "thread_ids=[t]") {
			t.Errorf("logged: %s", text)
		}
	})
}

func TestAnObserverMayCloseTheClient(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		closed := make(chan struct{})
		var client *Client
		var err error
		client, err = NewClient(WithDialOptions(grpc.WithContextDialer(f.dial)), WithLinkObserver(func(Link) {
			check(t, client.Close())
			close(closed)
		}))
		check(t, err)
		defer startStopwatch(t, client, time.Hour).Stop()
		<-closed
	})
}

func TestCloseIsNoLossOfTheLink(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		links := make(chan Link, 100)
		client, err := NewClient(WithDialOptions(grpc.WithContextDialer(f.dial)), WithLinkObserver(func(link Link) { links <- link }))
		check(t, err)
		f.misbehave(func(method string, _ any) error {
			if method == "Confirm" {
				return errSwallowed
			}
			return nil
		})
		// The expiry of each stopwatch delays Close while the follower of the other one is still open.
		for _, grace := range []time.Duration{time.Minute, time.Hour} {
			_, err := client.WithDisconnectGrace(grace).startStopwatch(time.Second, "t", nil, func(EndedBy) { time.Sleep(time.Second) })
			check(t, err)
		}
		time.Sleep(time.Second + firstConfirmationTimeout/2)
		check(t, client.Close())
		synctest.Wait()
		for len(links) > 0 {
			if link := <-links; link.State != LinkConnected {
				t.Errorf("%+v", link)
			}
		}
	})
}

func TestLinksHaveNames(t *testing.T) {
	for state, name := range map[LinkState]string{LinkConnected: "connected", LinkDisconnected: "disconnected", LinkGraceSpent: "grace_spent", 9: "invalid"} {
		if state.String() != name {
			t.Errorf("%d is %q", state, state)
		}
	}
}
