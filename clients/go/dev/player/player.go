package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

// fields of an answer.
type fields = map[string]any

// player holds the objects that steps created, by name.
type player struct {
	output
	ops      map[string]func(step) (any, error)
	clients  names[*pausewatch.Client]
	holds    names[*pausewatch.Hold]
	watches  names[watch]
	timeouts names[*pausewatch.Stopwatch]
	pauses   names[func()]
	waits    names[func()]
}

func newPlayer() *player {
	p := &player{output: output{out: json.NewEncoder(os.Stdout)}}
	p.ops = map[string]func(step) (any, error){
		"reset":           func(step) (any, error) { p.reset(); return fields{}, nil },
		"client":          p.newClient,
		"close":           p.closeClient,
		"increment":       p.increment,
		"decrement":       p.decrement,
		"renew":           p.renew,
		"get":             p.get,
		"list":            p.list,
		"list_pauses":     p.listPauses,
		"hold":            p.hold,
		"release":         p.release,
		"lease":           p.lease,
		"lost":            p.lost,
		"hold_block":      p.holdBlock,
		"watch":           p.watch,
		"next":            p.next,
		"add":             p.addThread,
		"remove":          p.removeThread,
		"unwatch":         p.unwatch,
		"timeout":         p.timeout,
		"read":            p.read,
		"expired":         p.expired,
		"pause":           p.pause,
		"resume":          p.resume,
		"await_thread":    p.awaitThread,
		"unawait_thread":  p.unawaitThread,
		"stop":            p.stop,
		"expire_together": p.expireTogether,
		"timeout_block":   p.timeoutBlock,
	}
	return p
}

func (p *player) play(s step) (any, error) {
	op := p.ops[s.Do]
	if op == nil {
		return nil, fmt.Errorf("there is no op %q", s.Do)
	}
	return op(s)
}

// reset closes everything that is still open, as a well-written program would.
func (p *player) reset() {
	for _, timeout := range p.timeouts.drain() {
		timeout.Stop()
	}
	for _, watch := range p.watches.drain() {
		watch.stop()
	}
	p.pauses.drain()
	p.waits.drain()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var releases sync.WaitGroup
	for _, hold := range p.holds.drain() {
		releases.Go(func() { _ = hold.Release(ctx) })
	}
	releases.Wait()
	for _, client := range p.clients.drain() {
		_ = client.Close()
	}
}
