package pausewatch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

func TestG7ManyThreadsAreSpreadOverFewStreams(t *testing.T) {
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
		if len(seen) != len(ids) || f.open() != 3 {
			t.Errorf("%d threads by %d streams", len(seen), f.open())
		}
		f.pause("0")
		f.pause("24999")
		nextState(t, events)
		nextState(t, events)
		nothing(t, events)
	})
}

// set is a watch whose threads change, with what it tells.
func set(client *Client) (*watchSet, *eventQueue) {
	queue := newEventQueue(false)
	return newWatchSet(client.life, client, queue, false), queue
}

func TestThreadsThatAreAddedShareOneStreamWithoutAGap(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("first")
		synctest.Wait()
		if got := told(queue); got != "first@0? ." {
			t.Errorf("told %q", got)
		}
		// The next stream takes a second to open; until then the old one serves.
		f.misbehave(func(method string, _ any) error {
			if method == "SnapshotComplete" {
				time.Sleep(time.Second)
			}
			return nil
		})
		for i := range 1000 {
			set.add(fmt.Sprint(i))
		}
		synctest.Wait()
		f.pause("first")
		synctest.Wait()
		if got := told(queue); !strings.Contains(got, "first@1") || strings.Contains(got, "!") || strings.Contains(got, ".") {
			t.Errorf("while the next stream opens: %q", got)
		}
		time.Sleep(5 * time.Second)
		if got := told(queue); strings.Contains(got, "first") || strings.Contains(got, "!") || !strings.HasSuffix(got, " .") {
			t.Errorf("when it has opened: %q", got)
		}
		if f.open() != 1 || f.watching("first") != 1 || f.watching("999") != 1 || len(f.called("Watch")) > 4 {
			t.Errorf("%d streams, %d were opened", f.open(), len(f.called("Watch")))
		}
	})
}

func TestAStreamThatTakesOverTellsWhatTheOldOneHasNotTold(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("first")
		synctest.Wait()
		told(queue)
		f.misbehave(failing("Tell", -1, errUnavailable))
		f.pause("first")
		synctest.Wait()
		if got := told(queue); got != "" {
			t.Errorf("the old one is mute and told %q", got)
		}
		set.add("second")
		synctest.Wait()
		if got := told(queue); got != "second@0? first@1 ." {
			t.Errorf("told %q", got)
		}
	})
}

func TestWhatIsRemovedIsWatchedNoMore(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		for i := range 100 {
			set.add(fmt.Sprint(i))
		}
		synctest.Wait()
		told(queue)
		for i := range 98 {
			set.remove(fmt.Sprint(i))
		}
		synctest.Wait()
		f.pause("0")
		f.pause("99")
		synctest.Wait()
		if got := told(queue); got != "99@1" && got != ". 99@1" {
			t.Errorf("told %q", got)
		}
		calls := f.called("Watch")
		if last := calls[len(calls)-1].(*pausewatchv1.WatchPauseStateRequest); len(last.ThreadIds) > smallStream+2 || f.open() != 1 {
			t.Errorf("%d ids for 2 threads, %d streams", len(last.ThreadIds), f.open())
		}
		set.remove("98")
		set.remove("99")
		synctest.Wait()
		if f.open() != 0 {
			t.Errorf("%d streams for no thread", f.open())
		}
	})
}

func TestAStreamThatIsRefusedHoldsUpNobodyElse(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		set, queue := set(client)
		set.add("mine")
		synctest.Wait()
		told(queue)
		f.misbehave(func(method string, request any) error {
			if watch, ok := request.(*pausewatchv1.WatchPauseStateRequest); ok && strings.Contains(fmt.Sprint(watch.ThreadIds), "foreign") {
				return status.Error(codes.PermissionDenied, "not yours")
			}
			return nil
		})
		set.add("foreign")
		synctest.Wait()
		if got := told(queue); got != "!foreign" {
			t.Errorf("told %q", got)
		}
		set.add("other")
		time.Sleep(10 * time.Second)
		f.pause("mine")
		synctest.Wait()
		if got := told(queue); !strings.Contains(got, "other@0?") || !strings.HasSuffix(got, "mine@1") {
			t.Errorf("told %q", got)
		}
	})
}
