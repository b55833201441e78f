package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

func (p *player) timeout(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	stopwatch, err := client.StartStopwatch(ms(s.LimitMs), *s.ThreadID, timeoutOptions(s)...)
	if err != nil {
		return nil, err
	}
	p.timeouts.put(s.Timeout, stopwatch)
	return fields{}, nil
}

func timeoutOptions(s step) (options []pausewatch.TimeoutOption) {
	if s.MaxWallMs != nil {
		options = append(options, pausewatch.WithMaxWall(ms(*s.MaxWallMs)))
	}
	return options
}

func (p *player) read(s step) (any, error) {
	stopwatch, ok := p.timeouts.get(s.Timeout)
	if !ok {
		return nil, missing("timeout", s.Timeout)
	}
	return showReading(stopwatch.Read()), nil
}

func (p *player) expired(s step) (any, error) {
	stopwatch, ok := p.timeouts.get(s.Timeout)
	if !ok {
		return nil, missing("timeout", s.Timeout)
	}
	<-stopwatch.Expired()
	return showReading(stopwatch.Read()), nil
}

func (p *player) pause(s step) (any, error) {
	stopwatch, ok := p.timeouts.get(s.Timeout)
	if !ok {
		return nil, missing("timeout", s.Timeout)
	}
	p.pauses.put(s.Timeout+"/"+s.Pause, stopwatch.Pause())
	return fields{}, nil
}

func (p *player) resume(s step) (any, error) {
	resume, ok := p.pauses.take(s.Timeout + "/" + s.Pause)
	if !ok {
		return nil, missing("pause", s.Pause)
	}
	resume()
	return fields{}, nil
}

func (p *player) awaitThread(s step) (any, error) {
	stopwatch, ok := p.timeouts.get(s.Timeout)
	if !ok {
		return nil, missing("timeout", s.Timeout)
	}
	done, err := stopwatch.AwaitThread(*s.ThreadID)
	if err != nil {
		return nil, err
	}
	p.waits.put(s.Timeout+"/"+s.Wait, done)
	return fields{}, nil
}

func (p *player) unawaitThread(s step) (any, error) {
	done, ok := p.waits.take(s.Timeout + "/" + s.Wait)
	if !ok {
		return nil, missing("wait", s.Wait)
	}
	done()
	return fields{}, nil
}

func (p *player) stop(s step) (any, error) {
	stopwatch, ok := p.timeouts.get(s.Timeout)
	if !ok {
		return nil, missing("timeout", s.Timeout)
	}
	return showReading(stopwatch.Stop()), nil
}

// expireTogether starts timeouts that all run out at the same time.
func (p *player) expireTogether(s step) (any, error) {
	end := time.Now().Add(ms(s.LimitMs))
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	stopwatches := make([]*pausewatch.Stopwatch, s.Count)
	for i := range stopwatches {
		if stopwatches[i], err = client.StartStopwatch(time.Until(end), fmt.Sprint("together-", i)); err != nil {
			return nil, err
		}
	}
	for _, stopwatch := range stopwatches {
		<-stopwatch.Expired()
	}
	return fields{"late_ms": inMs(time.Since(end))}, nil
}

func (p *player) timeoutBlock(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, cancel := client.WithPausableTimeout(context.Background(), ms(s.LimitMs), *s.ThreadID, timeoutOptions(s)...)
	defer cancel()
	answer := fields{"outcome": "finished"}
	select {
	case <-time.After(ms(s.WorkMs)):
	case <-ctx.Done():
		cause := context.Cause(ctx)
		switch {
		case errors.Is(cause, pausewatch.ErrMaxWall):
			answer = fields{"outcome": "timed_out", "ended_by": "max_wall"}
		case errors.Is(cause, context.DeadlineExceeded):
			answer = fields{"outcome": "timed_out", "ended_by": "limit"}
		default:
			return nil, cause
		}
	}
	answer["wall_ms"] = inMs(time.Since(began))
	return answer, nil
}
