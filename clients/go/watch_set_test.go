package pausewatch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// changes are the requests that have added or removed threads.
func (f *fake) changes() (requests []*pausewatchv1.WatchRequest) {
	for _, request := range f.called("Change") {
		requests = append(requests, request.(*pausewatchv1.WatchRequest))
	}
	return requests
}

func TestG7ManyThreadsShareOneStream(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ids := make([]string, 25_000)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		events := watchOne(t, client, ids...)
		seen := make(map[string]int)
		for range ids {
			seen[nextState(t, events).State.ThreadID]++
		}
		nextIs[SnapshotComplete](t, events)
		if len(seen) != len(ids) || f.open() != 1 || len(f.changes()) != 50 {
			t.Errorf("%d threads by %d streams and %d requests", len(seen), f.open(), len(f.changes()))
		}
		f.pause("0")
		f.pause("24999")
		nextState(t, events)
		nextState(t, events)
		nothing(t, events)
	})
}

// set is a watch whose threads change, and its events.
func set(client *Client) (*watchSet, *eventQueue) {
	queue := newEventQueue(ctx, false)
	return newWatchSet(client.life, client, queue, WatchOptions{}), queue
}

func TestChangesDuringARequestAreSentWithTheNextOne(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		f.misbehave(func(method string, _ any) error {
			if method == "Change" {
				time.Sleep(time.Second)
			}
			return nil
		})
		set.add("first")
		synctest.Wait()
		for i := range 400 {
			set.add(fmt.Sprint(i))
		}
		set.remove("399")
		set.remove("first")
		time.Sleep(10 * time.Second)
		requests := f.changes()
		if len(requests) != 2 || len(requests[1].Add) != 399 || strings.Join(requests[1].Remove, ",") != "first" {
			t.Errorf("%v", requests)
		}
		if got := told(queue); strings.Count(got, "?") != 399 || strings.Contains(got, "!") || !strings.HasSuffix(got, " .") {
			t.Errorf("told %q", got)
		}
	})
}

func TestAThreadThatIsAddedAgainIsReportedAgain(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("a", "stays")
		synctest.Wait()
		told(queue)
		set.remove("a")
		set.add("a")
		synctest.Wait()
		tells(t, queue, "a@0?= .")
		set.remove("a")
		synctest.Wait()
		f.pause("a")
		synctest.Wait()
		tells(t, queue, "")
		set.add("a")
		synctest.Wait()
		tells(t, queue, "a@1? .")
	})
}

func TestWithoutThreadsThereIsNoStream(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("a")
		synctest.Wait()
		set.remove("a")
		synctest.Wait()
		if f.open() != 0 {
			t.Errorf("%d streams for no thread", f.open())
		}
		told(queue)
		set.add("b")
		synctest.Wait()
		tells(t, queue, "b@0? .")
	})
}

func TestAThreadAddedAsTheLastOneIsRemovedSeesNoDisconnect(t *testing.T) {
	withFake(t, func(t *testing.T, _ *fake, client *Client) {
		set, queue := set(client)
		set.add("a")
		synctest.Wait()
		told(queue)
		set.remove("a")
		set.add("b")
		synctest.Wait()
		tells(t, queue, "b@0? .")
	})
}

func TestAForbiddenThreadDelaysNoOther(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		refuse := func(method string, request any) error {
			if method == "Change" && strings.Contains(fmt.Sprint(request.(*pausewatchv1.WatchRequest).Add), "foreign") {
				return forbidden("foreign")
			}
			return nil
		}
		f.misbehave(refuse)
		events, err := client.Watch(ctx, []string{"mine", "foreign"}, WatchOptions{IncludeElicitations: true})
		check(t, err)
		if lost := nextIs[Disconnected](t, events); strings.Join(lost.ThreadIDs, ",") != "foreign" || !is[*PermissionDeniedError](lost.Err) {
			t.Errorf("%+v", lost)
		}
		if s := nextState(t, events); s.State.ThreadID != "mine" {
			t.Errorf("%+v", s)
		}
		nextIs[SnapshotComplete](t, events)
		nothing(t, events)
		if first := f.changes()[0]; !first.IncludeElicitations || len(first.Add) > 0 {
			t.Errorf("what could be refused came with the options: %v", first)
		}
		// Allowed from the next stream on.
		f.misbehave(nil)
		f.stop()
		f.start()
		if lost := nextIs[Disconnected](t, events); strings.Join(lost.ThreadIDs, ",") != "mine" {
			t.Errorf("%+v", lost)
		}
		nextState(t, events)
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
	})
}

func TestARefusalIsReportedOnceAlsoAfterADisconnect(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		events := watchOne(t, client, "t")
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		f.misbehave(failing("Change", -1, forbidden("t")))
		f.stop()
		f.start()
		if lost := nextIs[Disconnected](t, events); !is[*UnavailableError](lost.Err) {
			t.Errorf("%+v", lost)
		}
		if lost := nextIs[Disconnected](t, events); !is[*PermissionDeniedError](lost.Err) {
			t.Errorf("%+v", lost)
		}
		nextIs[SnapshotComplete](t, events)
		f.stop()
		f.start()
		nextIs[SnapshotComplete](t, events)
		nothing(t, events)
	})
}

func TestAThreadLimitIsRetriedAfterTheCoordinatorsDelay(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Change", 2, fakeRefusal{&pausewatchv1.Refusal{
			Code: int32(codes.ResourceExhausted), Reason: "LIMIT_EXCEEDED", RetryAfter: durationpb.New(20 * time.Second),
		}}))
		began := time.Now()
		events := watchOne(t, client, "t")
		if lost := nextIs[Disconnected](t, events); !is[*LimitExceededError](lost.Err) {
			t.Errorf("%+v", lost)
		}
		nextState(t, events)
		nextIs[SnapshotComplete](t, events)
		if took := time.Since(began); took != 40*time.Second || len(f.called("Watch")) != 1 {
			t.Errorf("after %v and %d streams", took, len(f.called("Watch")))
		}
	})
}

func TestALimitOnAWatchOfAllThreadsIsWaitedFor(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Change", 2, fakeRefusal{&pausewatchv1.Refusal{
			Code: int32(codes.ResourceExhausted), Reason: "LIMIT_EXCEEDED", RetryAfter: durationpb.New(20 * time.Second),
		}}))
		began := time.Now()
		events := client.WatchAll(ctx, WatchOptions{})
		if lost := nextIs[Disconnected](t, events); !is[*LimitExceededError](lost.Err) {
			t.Errorf("%+v", lost)
		}
		nextIs[SnapshotComplete](t, events)
		if took, opened := time.Since(began), len(f.called("Watch")); took != 40*time.Second || opened != 3 {
			t.Errorf("after %v and %d streams", took, opened)
		}
	})
}

func TestAUselessStreamIsReopened(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		f.misbehave(failing("Change", 3, fakeRefusal{&pausewatchv1.Refusal{
			Code: int32(codes.Unauthenticated), Reason: "TOKEN_EXPIRED",
		}}))
		events := client.WatchAll(ctx, WatchOptions{})
		if lost := nextIs[Disconnected](t, events); !is[*UnauthenticatedError](lost.Err) {
			t.Errorf("%+v", lost)
		}
		nextIs[SnapshotComplete](t, events)
		if opened := len(f.called("Watch")); opened != 4 {
			t.Errorf("%d streams were opened", opened)
		}
	})
}
