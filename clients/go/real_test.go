package pausewatch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// real is the real coordinator: the program that PAUSEWATCH_PROGRAM names.
type real struct {
	arguments []string
	process   *exec.Cmd
	address   string
}

// startReal starts one on listen ("127.0.0.1:0", "unix:PATH"), with its state on a disk; more: further options.
func startReal(t *testing.T, listen string, more ...string) *real {
	t.Helper()
	if os.Getenv("PAUSEWATCH_PROGRAM") == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("PAUSEWATCH_PROGRAM does not name a built pausewatch")
		}
		t.Skip("PAUSEWATCH_PROGRAM does not name a built pausewatch; clients/test sets it")
	}
	clean(t)
	r := &real{arguments: append(append([]string{"serve", "--data-dir", t.TempDir()}, more...), "--listen", listen)}
	r.start(t)
	t.Cleanup(r.kill)
	return r
}

// start returns when it listens. A restarted one listens where it did before.
func (r *real) start(t *testing.T) {
	t.Helper()
	r.process = exec.Command(os.Getenv("PAUSEWATCH_PROGRAM"), r.arguments...)
	r.process.Stderr = os.Stderr
	out, err := r.process.StdoutPipe()
	check(t, err)
	check(t, r.process.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	r.address = strings.TrimSpace(strings.TrimPrefix(line, "listening "))
	r.arguments[len(r.arguments)-1] = strings.TrimPrefix(r.address, "https://")
}

func (r *real) kill() {
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
}

func (r *real) client(t *testing.T) *Client {
	t.Helper()
	client, err := NewClient(WithAddress(r.address))
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestRealCallsReturnTheServersState(t *testing.T) {
	client := startReal(t, "127.0.0.1:0").client(t)
	opened, err := client.IncrementElicitation(ctx, "t", IncrementOptions{Reason: "Push?", Holder: "tool", TTL: time.Minute})
	check(t, err)
	if e := opened.Elicitation; opened.Count != 1 || !opened.Paused || opened.Watchers != 0 || e.Reason != "Push?" || e.Holder != "tool" ||
		e.ThreadID != "t" || e.ExpireTime.Sub(e.CreateTime).Round(time.Millisecond) != time.Minute {
		t.Errorf("%+v", opened)
	}
	state, err := client.GetPauseState(ctx, "t")
	check(t, err)
	if !state.Paused || state.Revision != opened.Revision || state.PauseStartTime.IsZero() || len(state.Elicitations) != 1 {
		t.Errorf("%+v", state)
	}
	_, err = client.RenewElicitation(ctx, "t", opened.Elicitation.ID, 0)
	check(t, err)
	page, err := client.ListPauseStates(ctx, ListOptions{PageSize: 1})
	check(t, err)
	if len(page.States) != 1 || page.States[0].ThreadID != "t" || page.NextPageToken != "" {
		t.Errorf("%+v", page)
	}
	closed, err := client.DecrementElicitation(ctx, "t", DecrementOptions{})
	check(t, err)
	if closed.Count != 0 || closed.Paused || closed.Revision <= opened.Revision {
		t.Errorf("%+v", closed)
	}
}

func TestRealRefusalsHaveTypes(t *testing.T) {
	client := startReal(t, "127.0.0.1:0").client(t)
	_, err := client.DecrementElicitation(ctx, "t", DecrementOptions{})
	if !is[*NoOutstandingElicitationError](err) {
		t.Errorf("%T: %v", err, err)
	}
	var invalid *InvalidFieldError
	if _, err := client.GetPauseState(ctx, ""); !errors.As(err, &invalid) || invalid.Field != "thread_id" || invalid.Metadata()["field"] != "thread_id" {
		t.Errorf("%T: %v", err, err)
	}
	lost := ""
	if _, err := client.DecrementElicitation(ctx, "t", DecrementOptions{ElicitationID: &lost}); !errors.As(err, &invalid) || invalid.Field != "elicitation_id" {
		t.Errorf("an id that got lost: %T: %v", err, err)
	}
	_, err = client.IncrementElicitation(ctx, "t", IncrementOptions{RequestID: "r", Reason: "one"})
	check(t, err)
	if _, err := client.IncrementElicitation(ctx, "t", IncrementOptions{RequestID: "r", Reason: "two"}); !is[*RequestIDReusedError](err) {
		t.Errorf("%T: %v", err, err)
	}
}

// Errors of this package have the wording of the server's.
func TestRealRefusalsHaveTheWordingOfLocalErrors(t *testing.T) {
	client := startReal(t, "127.0.0.1:0").client(t)
	for _, id := range []string{"", strings.Repeat("x", 257), "a\x07b", "a\u0085b"} {
		var here, there *InvalidFieldError
		_, err := client.GetPauseState(ctx, id)
		if !errors.As(err, &there) || !errors.As(checkThreadID(id), &here) {
			t.Errorf("%q: %v here, %v there", id, checkThreadID(id), err)
		} else if here.Field != there.Field || here.Code() != there.Code() || here.Reason() != there.Reason() {
			t.Errorf("%q: %+v here, %+v there", id, here, there)
		}
	}
	for _, id := range []string{strings.Repeat("é", 128), " ", "a\u200bb"} {
		_, err := client.GetPauseState(ctx, id)
		check(t, errors.Join(err, checkThreadID(id)))
	}
}

func TestRealHoldsPauseTimeoutsOverAUnixSocket(t *testing.T) {
	client := startReal(t, "unix:"+filepath.Join(t.TempDir(), "p.sock")).client(t)
	timeout, cancel := client.WithPausableTimeout(ctx, 3*time.Second, "t")
	defer cancel()
	check(t, client.WithHold(ctx, "t", HoldOptions{}, func(context.Context) error {
		select {
		case <-timeout.Done():
			return errors.New("it ran out while a person was being asked")
		case <-time.After(3500 * time.Millisecond):
			return nil
		}
	}))
	<-timeout.Done()
	state, err := client.GetPauseState(ctx, "t")
	check(t, err)
	reading := StopwatchOf(timeout).Read()
	if off := reading.Wall - reading.Elapsed - state.PausedTotal; off.Abs() > 5*time.Millisecond {
		t.Errorf("G3: %+v, paused %v: off by %v", reading, state.PausedTotal, off)
	}
}

func TestG4RealCallsCountOnceWhileTheServerIsKilledAgainAndAgain(t *testing.T) {
	r := startReal(t, "127.0.0.1:0")
	client := r.client(t).WithCallTimeout(2 * time.Minute)
	const callers, each, killEvery = 8, 50, 10
	ended := make(chan struct{}, callers*each)
	for caller := range callers {
		go func() {
			for range each {
				if _, err := client.IncrementElicitation(ctx, fmt.Sprint(caller), IncrementOptions{}); err != nil {
					t.Errorf("caller %d: %v", caller, err)
				}
				ended <- struct{}{}
			}
		}()
	}
	// By calls and not by time: each server answers some, however slow the machine is.
	for calls := 1; calls <= callers*each; calls++ {
		<-ended
		if calls%killEvery == 0 {
			// At any moment of the next calls: their answers are to get lost before and after they are counted.
			time.Sleep(rand.N(10 * time.Millisecond))
			r.kill()
			r.start(t)
		}
	}
	for caller := range callers {
		state, err := client.GetPauseState(ctx, fmt.Sprint(caller))
		check(t, err)
		if state.Count != each {
			t.Errorf("caller %d: %d of %d were counted", caller, state.Count, each)
		}
	}
}

func TestRealWatchesSurviveARestart(t *testing.T) {
	r := startReal(t, "127.0.0.1:0")
	client := r.client(t)
	watching, stop := context.WithCancel(ctx)
	events, err := client.Watch(watching, []string{"t"}, WatchOptions{IncludeElicitations: true})
	check(t, err)
	nextState(t, events)
	nextIs[SnapshotComplete](t, events)
	r.kill()
	nextIs[Disconnected](t, events)
	r.start(t)
	if s := nextState(t, events); !s.Gap || s.Changed {
		t.Errorf("%+v", s)
	}
	nextIs[SnapshotComplete](t, events)
	hold, err := client.Hold(ctx, "t", HoldOptions{Reason: "Push?"})
	check(t, err)
	if s := nextState(t, events); len(s.State.Elicitations) != 1 || s.State.Elicitations[0].Reason != "Push?" {
		t.Errorf("%+v", s)
	}
	check(t, hold.Release(ctx))
	stop()
	for range events {
	}
}

func TestRealCallsThatAreCancelledTogetherDisconnectNoWatch(t *testing.T) {
	client := startReal(t, "127.0.0.1:0").client(t)
	watching, stop := context.WithCancel(ctx)
	events, err := client.Watch(watching, []string{"t"}, WatchOptions{})
	check(t, err)
	nextState(t, events)
	nextIs[SnapshotComplete](t, events)
	for range 5 {
		burst, cancel := context.WithCancel(ctx)
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() { _, _ = client.GetPauseState(burst, "another") })
		}
		time.Sleep(2 * time.Millisecond)
		cancel()
		calls.Wait()
		_, err := client.IncrementElicitation(ctx, "t", IncrementOptions{})
		check(t, err)
		nextState(t, events)
	}
	stop()
	for range events {
	}
}
