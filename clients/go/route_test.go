package pausewatch

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestCallersThatFailAtOneReplicaMoveOnce(t *testing.T) {
	var dialled []string
	dial := func(address string) (*grpc.ClientConn, error) {
		dialled = append(dialled, address)
		return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	r, err := newRoute([]string{"a:1", "b:1", "c:1"}, dial)
	check(t, err)
	defer r.close()
	order := slices.Clone(r.addresses)
	dialled = nil
	moved := r.current().moved
	for _, moves := range []int{0, 0, 1} {
		if !r.moveOn(moves) {
			t.Error("there are others")
		}
	}
	if now := r.current(); now.moves != 2 || !slices.Equal(dialled, order[1:]) {
		t.Errorf("%d moves, to %v of %v", now.moves, dialled, order)
	}
	<-moved
	alone, err := newRoute([]string{"a:1"}, dial)
	check(t, err)
	defer alone.close()
	if alone.moveOn(0) {
		t.Error("there is no other")
	}
}

func TestAMoveDoesNotNeedTheTLSFiles(t *testing.T) {
	clean(t)
	ca := newAuthority(t).file(t)
	client, err := NewClient(WithAddress("https://127.0.0.1:1,https://127.0.0.1:2"), WithTLSCA(ca))
	check(t, err)
	defer client.Close()
	check(t, os.Remove(ca))
	client.route.moveOn(0)
	if now := client.route.current(); now.moves != 1 {
		t.Errorf("%d moves", now.moves)
	}
	another, err := client.route.separate(client.route.current())
	check(t, err)
	check(t, another.Close())
}

// mutedWatch returns the events of a watch that was quiet for 5 minutes of heartbeats, and gets no message from now on.
func mutedWatch(t *testing.T, f *fake, client *Client, every time.Duration) <-chan Event {
	t.Helper()
	f.beat(every)
	events := watchOne(t, client, "t")
	nextState(t, events)
	nextIs[SnapshotComplete](t, events)
	time.Sleep(5 * time.Minute)
	nothing(t, events)
	f.misbehave(failing("Tell", -1, errUnavailable))
	return events
}

func TestASilenceOfTwoAndAHalfIntervalsEndsTheStream(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := mutedWatch(t, f, client, time.Second)
		muted := time.Now()
		nextIs[Disconnected](t, events)
		if after := time.Since(muted); after < 1500*time.Millisecond || after > 2500*time.Millisecond {
			t.Errorf("noticed after %v", after)
		}
	})
}

func TestAnIntervalAboveAnHourCountsAsAnHour(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := mutedWatch(t, f, client, math.MaxInt64)
		time.Sleep(149 * time.Minute)
		nothing(t, events)
		nextIs[Disconnected](t, events)
	})
}
