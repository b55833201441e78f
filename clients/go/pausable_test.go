package pausewatch

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

var errMine = errors.New("mine")

func TestAPausableTimeoutEndsWithDeadlineExceededAsErrAndCause(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		began := time.Now()
		ctx, cancel := client.WithPausableTimeout(context.WithValue(ctx, key{}, "value"), 10*time.Second, "t")
		defer cancel()
		child, cancelChild := context.WithCancel(context.WithValue(ctx, key{}, "other"))
		defer cancelChild()
		if _, ok := ctx.Deadline(); ok || ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(key{}) != "value" {
			t.Errorf("at first: %v, %v", ctx.Err(), context.Cause(ctx))
		}
		f.pause("t")
		time.Sleep(time.Hour)
		f.resume("t")
		<-ctx.Done()
		if took := time.Since(began); took != time.Hour+10*time.Second {
			t.Errorf("done after %v", took)
		}
		for name, ctx := range map[string]context.Context{"the context": ctx, "its child": child} {
			<-ctx.Done()
			if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) != context.DeadlineExceeded {
				t.Errorf("%s: %v, cause %v", name, ctx.Err(), context.Cause(ctx))
			}
		}
		cancel()
		if ctx.Err() != context.DeadlineExceeded {
			t.Errorf("cancelled afterwards: %v", ctx.Err())
		}
	})
}

func TestAPausableTimeoutEndsWhenItIsCancelled(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, "t")
		child, cancelChild := context.WithTimeout(ctx, time.Hour)
		defer cancelChild()
		cancel()
		cancel()
		if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled || child.Err() != context.Canceled {
			t.Errorf("%v, cause %v, child %v", ctx.Err(), context.Cause(ctx), child.Err())
		}
		time.Sleep(time.Minute)
		if len(f.called("Confirm")) != 0 || f.open() != 0 {
			t.Error("its stopwatch goes on")
		}
		late, cancelLate := context.WithCancel(ctx)
		defer cancelLate()
		if late.Err() != context.Canceled {
			t.Errorf("a child that comes late: %v", late.Err())
		}
	})
}

func TestAPausableTimeoutEndsWithItsParent(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		parent, cancelParent := context.WithCancelCause(ctx)
		ctx, cancel := client.WithPausableTimeout(parent, 10*time.Second, "t")
		defer cancel()
		cancelParent(errMine)
		<-ctx.Done()
		if ctx.Err() != context.Canceled || context.Cause(ctx) != errMine {
			t.Errorf("%v, cause %v", ctx.Err(), context.Cause(ctx))
		}
		dead, cancelDead := client.WithPausableTimeout(parent, 10*time.Second, "t")
		defer cancelDead()
		if dead.Err() != context.Canceled || context.Cause(dead) != errMine {
			t.Errorf("of a parent that has ended: %v, cause %v", dead.Err(), context.Cause(dead))
		}
	})
}

func TestAPausableTimeoutHasEndedWhenItsParentHas(t *testing.T) {
	withFake(t, func(t *testing.T, _ *fake, client *Client) {
		for range 1000 {
			parent, cancelParent := context.WithCancel(ctx)
			timeout, cancel := client.WithPausableTimeout(parent, time.Hour, "t")
			cancelParent()
			err := timeout.Err()
			cancel()
			if err != context.Canceled {
				t.Fatalf("right after its parent: %v", err)
			}
			<-timeout.Done()
		}
	})
}

func TestATimeoutThatEndedBeforeItBeganHasAStopwatch(t *testing.T) {
	withFake(t, func(t *testing.T, _ *fake, client *Client) {
		parent, cancelParent := context.WithCancel(ctx)
		cancelParent()
		for name, begin := range map[string]func() (context.Context, context.CancelFunc){
			"its parent has ended": func() (context.Context, context.CancelFunc) {
				return client.WithPausableTimeout(parent, time.Hour, "t")
			},
			"a bad thread": func() (context.Context, context.CancelFunc) { return client.WithPausableTimeout(ctx, time.Hour, "") },
		} {
			ctx, cancel := begin()
			done, err := StopwatchOf(ctx).AwaitThread("u")
			check(t, err)
			done()
			StopwatchOf(ctx).Pause()()
			if ctx.Err() == nil {
				t.Errorf("%s: it runs", name)
			}
			cancel()
		}
	})
}

func TestALaterEndOfTheParentChangesNothing(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		parent, cancelParent := context.WithCancelCause(ctx)
		ctx, cancel := client.WithPausableTimeout(parent, 10*time.Second, "t")
		defer cancel()
		<-ctx.Done()
		cancelParent(errMine)
		synctest.Wait()
		if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) != context.DeadlineExceeded {
			t.Errorf("%v, cause %v", ctx.Err(), context.Cause(ctx))
		}
	})
}

func TestTheDeadlineIsTheParents(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		parent, cancelParent := context.WithTimeout(ctx, time.Minute)
		defer cancelParent()
		ctx, cancel := client.WithPausableTimeout(parent, time.Hour, "t")
		defer cancel()
		want, _ := parent.Deadline()
		if deadline, ok := ctx.Deadline(); !ok || deadline != want {
			t.Errorf("%v, want %v", deadline, want)
		}
		<-ctx.Done()
		if ctx.Err() != context.DeadlineExceeded {
			t.Error(ctx.Err())
		}
	})
}

func TestFunctionsAfterAPausableTimeoutRunOnceUnlessStopped(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, "t")
		ran := 0
		context.AfterFunc(ctx, func() { ran++ })
		stop := context.AfterFunc(ctx, func() { t.Error("it was stopped") })
		if !stop() || stop() {
			t.Error("stopped other than once")
		}
		cancel()
		synctest.Wait()
		context.AfterFunc(ctx, func() { ran++ })
		synctest.Wait()
		if ctx.(*pausable).AfterFunc(func() { ran++ })() {
			t.Error("stopped after the end")
		}
		synctest.Wait()
		if ran != 3 {
			t.Errorf("%d ran", ran)
		}
	})
}

func TestTheStopwatchOfAPausableTimeoutIsFoundInside(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		if StopwatchOf(ctx) != nil {
			t.Error("found where there is none")
		}
		began := time.Now()
		ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, "t")
		defer cancel()
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		resume := StopwatchOf(child).Pause()
		time.Sleep(time.Minute)
		resume()
		<-child.Done()
		if took := time.Since(began); took != 70*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestG7APausableTimeoutHasNoGoroutine(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		parent, end := context.WithCancel(ctx)
		one, cancel := client.WithPausableTimeout(parent, time.Hour, "t")
		defer cancel()
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 1000 {
			ctx, cancel := client.WithPausableTimeout(parent, time.Hour, "t")
			defer cancel()
			child, cancelChild := context.WithCancel(ctx)
			defer cancelChild()
			context.AfterFunc(child, func() {})
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > 0 {
			t.Errorf("%d goroutines more", more)
		}
		end()
		<-one.Done()
	})
}

func TestABadThreadReturnsACancelledContextWithTheCause(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, "")
		defer cancel()
		if ctx.Err() != context.Canceled || !is[*InvalidFieldError](context.Cause(ctx)) {
			t.Errorf("%v, cause %v", ctx.Err(), context.Cause(ctx))
		}
	})
}

func TestABadEnvironmentReturnsACancelledContextWithTheCause(t *testing.T) {
	clean(t)
	t.Setenv("PAUSEWATCH_ADDRESS", "nowhere")
	ctx, cancel := WithPausableTimeout(ctx, 10*time.Second, "t")
	defer cancel()
	if ctx.Err() != context.Canceled || !strings.Contains(context.Cause(ctx).Error(), "the port is missing") {
		t.Errorf("%v, cause %v", ctx.Err(), context.Cause(ctx))
	}
}

func TestACommandIsKilledWhenItsTimeIsUp(t *testing.T) {
	clean(t)
	f := newFake()
	f.start()
	defer f.stop()
	client := clientOf(t, f)
	ctx, cancel := client.WithPausableTimeout(ctx, 100*time.Millisecond, "t")
	defer cancel()
	err := exec.CommandContext(ctx, "sleep", "60").Run()
	if err == nil || ctx.Err() != context.DeadlineExceeded {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

func TestAPausableTimeoutHasTheGivenCause(t *testing.T) {
	withFake(t, func(t *testing.T, _ *fake, client *Client) {
		for limit, want := range map[time.Duration]error{10 * time.Second: errMine, time.Hour: ErrMaxWall} {
			ctx, cancel := client.WithPausableTimeout(ctx, limit, "t", WithTimeoutCause(errMine), WithMaxWall(time.Minute))
			defer cancel()
			<-ctx.Done()
			if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) != want {
				t.Errorf("%v: %v, cause %v", limit, ctx.Err(), context.Cause(ctx))
			}
		}
	})
}
