package main

import (
	"context"
	"errors"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

type watch struct {
	events <-chan pausewatch.Event
	// nil: a watch of all threads.
	set  *pausewatch.Watch
	stop context.CancelFunc
}

func (p *player) watch(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	options := pausewatch.WatchOptions{IncludeElicitations: s.IncludeElicits, Observer: s.Observer}
	if s.ThreadIDs == nil {
		p.watches.put(s.Watch, watch{client.WatchAll(ctx, options), nil, stop})
		return fields{}, nil
	}
	set, err := client.StartWatch(ctx, *s.ThreadIDs, options)
	if err != nil {
		stop()
		return nil, err
	}
	p.watches.put(s.Watch, watch{set.Events(), set, stop})
	return fields{}, nil
}

func (p *player) addThread(s step) (any, error) {
	watch, ok := p.watches.get(s.Watch)
	if !ok || watch.set == nil {
		return nil, missing("watch", s.Watch)
	}
	return fields{}, watch.set.Add(*s.ThreadID)
}

func (p *player) removeThread(s step) (any, error) {
	watch, ok := p.watches.get(s.Watch)
	if !ok || watch.set == nil {
		return nil, missing("watch", s.Watch)
	}
	watch.set.Remove(*s.ThreadID)
	return fields{}, nil
}

func (p *player) next(s step) (any, error) {
	watch, ok := p.watches.get(s.Watch)
	if !ok {
		return nil, missing("watch", s.Watch)
	}
	select {
	case event, ok := <-watch.events:
		if !ok {
			return nil, errors.New("the watch is closed")
		}
		return showEvent(event), nil
	case <-time.After(ms(s.WithinMs)):
		return fields{"event": "nothing"}, nil
	}
}

func (p *player) unwatch(s step) (any, error) {
	watch, ok := p.watches.take(s.Watch)
	if !ok {
		return nil, missing("watch", s.Watch)
	}
	watch.stop()
	for range watch.events {
	}
	return fields{}, nil
}
