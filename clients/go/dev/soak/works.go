package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

// holds opens and releases; two of three are cancelled meanwhile.
func (r *round) holds(client *pausewatch.Client) {
	for !r.isOver() {
		thread, moment := fmt.Sprintf("%shold-%d", r.Prefix, r.number(20)), r.number(3)
		r.count("holds")
		opening, end := r.cancelledSoon(moment == 1)
		hold, err := client.Hold(opening, thread, pausewatch.HoldOptions{TTL: ttl})
		cancelled := opening.Err() != nil
		end()
		if err != nil {
			if cancelled {
				r.count("cancelled")
			} else {
				r.count("unknown")
			}
			continue
		}
		releasing, end := r.cancelledSoon(moment == 2)
		err = hold.Release(releasing)
		cancelled = releasing.Err() != nil
		end()
		if err != nil && cancelled {
			r.count("cancelled")
			err = hold.Release(context.Background())
		}
		if err != nil {
			r.count("unknown")
		}
	}
}

// bursts makes many calls that are cancelled at once.
func (r *round) bursts(client *pausewatch.Client) {
	for !r.isOver() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() { _, _ = client.GetPauseState(ctx, r.Prefix+"burst") })
		}
		calls.Wait()
		cancel()
		time.Sleep(time.Second)
	}
}

// shortLives closes clients with everything open, also while a hold is being opened.
func (r *round) shortLives() {
	ctx := context.Background()
	for !r.isOver() {
		client := r.newClient()
		closed := make(chan struct{})
		time.AfterFunc(r.random(0, 50*time.Millisecond), func() {
			defer close(closed)
			_ = client.Close()
		})
		_, _ = client.Watch(ctx, []string{r.Prefix + "short-0", r.Prefix + "short-1"}, pausewatch.WatchOptions{})
		_, _ = client.StartStopwatch(time.Second, r.Prefix+"short-0")
		if _, err := client.Hold(ctx, r.Prefix+"short-hold", pausewatch.HoldOptions{TTL: ttl}); !errors.Is(err, pausewatch.ErrClosed) {
			r.count("unknown")
		}
		<-closed
	}
}

func (r *round) deadlines(client *pausewatch.Client) {
	for !r.isOver() {
		var over sync.WaitGroup
		for number := range r.Deadlines {
			limit := r.random(200*time.Millisecond, time.Second)
			over.Go(func() { r.deadline(client, limit, fmt.Sprintf("%sfree-%d", r.Prefix, number%20)) })
			over.Go(func() {
				began := time.Now()
				<-time.After(limit)
				r.greatest("bare_late_ms", time.Since(began)-limit)
			})
		}
		over.Wait()
	}
}

func (r *round) deadline(client *pausewatch.Client, limit time.Duration, thread string) {
	began := time.Now()
	ctx, cancel := client.WithPausableTimeout(context.Background(), limit, thread)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-time.After(hang):
		r.count("hangs")
		return
	}
	late := time.Since(began) - limit
	r.count("expired")
	r.greatest("late_ms", late)
	if late < -5*time.Millisecond {
		r.count("early")
	}
}

// person holds a thread for most of the round: its timeout must not expire before the release, and must after it.
func (r *round) person(client *pausewatch.Client) {
	ctx, thread := context.Background(), r.Prefix+"person"
	hold, err := client.Hold(ctx, thread, pausewatch.HoldOptions{TTL: ttl})
	if err != nil {
		r.count("unknown")
		return
	}
	stopwatch, err := client.StartStopwatch(300*time.Millisecond, thread)
	if err != nil {
		r.count("hangs")
		return
	}
	defer stopwatch.Stop()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	events, err := client.Watch(watching, []string{thread}, pausewatch.WatchOptions{})
	if err != nil {
		r.count("hangs")
		return
	}
	stay := time.After(max(600*time.Millisecond, seconds(r.Seconds-1)))
	for staying := true; staying; {
		select {
		case event := <-events:
			if _, lost := event.(pausewatch.Disconnected); lost {
				r.count("disconnects")
			}
		case <-stopwatch.Expired():
			r.count("false_expiries")
			staying = false
		case <-stay:
			staying = false
		}
	}
	if err := hold.Release(ctx); err != nil {
		r.count("unknown")
	}
	select {
	case <-stopwatch.Expired():
		if stopwatch.Read().Elapsed < 295*time.Millisecond {
			r.count("early")
		}
	case <-time.After(hang):
		r.count("hangs")
	}
}

// clock compares pauses with the monotonic clock.
func (r *round) clock(client *pausewatch.Client) {
	stopwatch, err := client.StartStopwatch(time.Minute, r.Prefix+"clock")
	if err != nil {
		r.count("hangs")
		return
	}
	defer stopwatch.Stop()
	first, outer := stopwatch.Read(), time.Now()
	resume := stopwatch.Pause()
	inner := time.Now()
	time.Sleep(r.random(100*time.Millisecond, 500*time.Millisecond))
	least := time.Since(inner)
	resume()
	most := time.Since(outer)
	r.outside("clock_error_ms", first, stopwatch.Read(), least, most)
	if !r.Disturbed {
		r.awaited(client, stopwatch)
	}
}

func (r *round) awaited(client *pausewatch.Client, stopwatch *pausewatch.Stopwatch) {
	ctx, child := context.Background(), r.Prefix+"child"
	done, err := stopwatch.AwaitThread(child)
	if err != nil {
		r.count("hangs")
		return
	}
	defer done()
	first, opening := stopwatch.Read(), time.Now()
	hold, err := client.Hold(ctx, child, pausewatch.HoldOptions{TTL: ttl})
	if err != nil {
		r.count("unknown")
		return
	}
	opened := time.Now()
	time.Sleep(r.random(100*time.Millisecond, 500*time.Millisecond))
	least := time.Since(opened)
	err = hold.Release(ctx)
	most := time.Since(opening)
	if err != nil {
		r.count("unknown")
		return
	}
	for until := time.Now().Add(hang); stopwatch.Read().Paused && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	r.outside("await_error_ms", first, stopwatch.Read(), least, most)
}

// outside notes how far the time that was not charged between two readings lies outside of least to most.
func (r *round) outside(name string, first, last pausewatch.Reading, least, most time.Duration) {
	off := (last.Wall - first.Wall) - (last.Elapsed - first.Elapsed)
	r.greatest(name, max(0, least-off, off-most))
}
