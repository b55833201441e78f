package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

// fields of an answer.
type fields = map[string]any

// step is one line of input, with the arguments of all operations.
type step struct {
	ID              json.Number `json:"id"`
	Do              string      `json:"do"`
	Client          string      `json:"client"`
	Address         string      `json:"address"`
	Environment     environment `json:"environment"`
	DeadlineMs      *float64    `json:"deadline_ms"`
	Retries         *int        `json:"retries"`
	TLSCA           string      `json:"tls_ca"`
	Token           string      `json:"token"`
	TokenFile       string      `json:"token_file"`
	ThreadID        *string     `json:"thread_id"`
	ThreadIDs       *[]string   `json:"thread_ids"`
	RequestID       string      `json:"request_id"`
	Reason          string      `json:"reason"`
	Holder          string      `json:"holder"`
	TTLMs           float64     `json:"ttl_ms"`
	ElicitationID   *string     `json:"elicitation_id"`
	PageSize        int32       `json:"page_size"`
	PageToken       string      `json:"page_token"`
	IncludeRunning  bool        `json:"include_running"`
	IncludeElicits  bool        `json:"include_elicitations"`
	Observer        bool        `json:"observer"`
	Hold            string      `json:"hold"`
	Watch           string      `json:"watch"`
	Timeout         string      `json:"timeout"`
	Pause           string      `json:"pause"`
	Wait            string      `json:"wait"`
	StayMs          float64     `json:"stay_ms"`
	Throws          bool        `json:"throws"`
	BestEffort      bool        `json:"best_effort"`
	WithinMs        float64     `json:"within_ms"`
	LimitMs         float64     `json:"limit_ms"`
	Count           int         `json:"count"`
	WorkMs          float64     `json:"work_ms"`
	DisconnectGrace *float64    `json:"disconnect_grace_ms"`
	MaxWallMs       *float64    `json:"max_wall_ms"`
}

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

type watch struct {
	events <-chan pausewatch.Event
	// nil: a watch of all threads.
	set  *pausewatch.Watch
	stop context.CancelFunc
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

func (p *player) newClient(s step) (any, error) {
	options := []pausewatch.Option{pausewatch.WithAddress(s.Address)}
	if s.DeadlineMs != nil {
		options = append(options, pausewatch.WithCallTimeout(ms(*s.DeadlineMs)))
	}
	if s.Retries != nil {
		options = append(options, pausewatch.WithRetries(*s.Retries))
	}
	if s.TLSCA != "" {
		options = append(options, pausewatch.WithTLSCA(s.TLSCA))
	}
	if s.Token != "" {
		options = append(options, pausewatch.WithToken(s.Token))
	}
	if s.TokenFile != "" {
		options = append(options, pausewatch.WithTokenSource(func(context.Context) (string, error) {
			text, err := os.ReadFile(s.TokenFile)
			return strings.TrimSpace(string(text)), err
		}))
	}
	client, err := s.Environment.newClient(options)
	if err != nil {
		return nil, err
	}
	p.clients.put(s.Client, client)
	return fields{}, nil
}

func (p *player) client(s step) (*pausewatch.Client, error) {
	client, ok := p.clients.get(s.Client)
	if !ok {
		return nil, missing("client", s.Client)
	}
	if s.DisconnectGrace != nil {
		client = client.WithDisconnectGrace(ms(*s.DisconnectGrace))
	}
	return client, nil
}

func (p *player) closeClient(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	return fields{}, client.Close()
}

func (p *player) increment(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	made, err := client.IncrementElicitation(context.Background(), *s.ThreadID, pausewatch.IncrementOptions{
		RequestID: s.RequestID, Reason: s.Reason, Holder: s.Holder, TTL: ms(s.TTLMs),
	})
	if err != nil {
		return nil, err
	}
	return fields{
		"count": made.Count, "paused": made.Paused, "revision": made.Revision,
		"elicitation_id": made.Elicitation.ID, "watchers": made.Watchers,
	}, nil
}

func (p *player) decrement(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	made, err := client.DecrementElicitation(context.Background(), *s.ThreadID, pausewatch.DecrementOptions{
		ElicitationID: s.ElicitationID, RequestID: s.RequestID,
	})
	if err != nil {
		return nil, err
	}
	return fields{"count": made.Count, "paused": made.Paused, "revision": made.Revision}, nil
}

func (p *player) renew(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	var id string
	if s.ElicitationID != nil {
		id = *s.ElicitationID
	}
	renewed, err := client.RenewElicitation(context.Background(), *s.ThreadID, id, ms(s.TTLMs))
	if err != nil {
		return nil, err
	}
	return showElicitation(renewed), nil
}

func (p *player) get(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	state, err := client.GetPauseState(context.Background(), *s.ThreadID)
	if err != nil {
		return nil, err
	}
	return showState(state), nil
}

func (p *player) list(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	page, err := client.ListPauseStates(context.Background(), pausewatch.ListOptions{
		PageSize: s.PageSize, PageToken: s.PageToken, IncludeRunning: s.IncludeRunning,
	})
	if err != nil {
		return nil, err
	}
	states := []fields{}
	for _, state := range page.States {
		states = append(states, showState(state))
	}
	return fields{"states": states, "next_page_token": page.NextPageToken}, nil
}

func (p *player) listPauses(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	opts := pausewatch.PauseOptions{PageSize: s.PageSize, PageToken: s.PageToken}
	if s.ThreadID != nil {
		opts.ThreadID = *s.ThreadID
	}
	page, err := client.ListPauses(context.Background(), opts)
	if err != nil {
		return nil, err
	}
	pauses := []fields{}
	for _, pause := range page.Pauses {
		pauses = append(pauses, showPause(pause))
	}
	return fields{"pauses": pauses, "next_page_token": page.NextPageToken}, nil
}

func (p *player) hold(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	thread := client.ThreadID()
	if s.ThreadID != nil {
		thread = *s.ThreadID
	}
	hold, err := client.Hold(context.Background(), thread, holdOptions(s))
	if err != nil {
		return nil, err
	}
	p.holds.put(s.Hold, hold)
	if hold.Failure() != nil {
		return fields{}, nil
	}
	return fields{"count": hold.Opened().Count, "elicitation_id": hold.Opened().Elicitation.ID}, nil
}

func holdOptions(s step) pausewatch.HoldOptions {
	return pausewatch.HoldOptions{Reason: s.Reason, Holder: s.Holder, TTL: ms(s.TTLMs), BestEffort: s.BestEffort}
}

func (p *player) release(s step) (any, error) {
	hold, ok := p.holds.get(s.Hold)
	if !ok {
		return nil, missing("hold", s.Hold)
	}
	return release(hold)
}

func release(hold *pausewatch.Hold) (fields, error) {
	ending, err := endingOf(hold.Release(context.Background()))
	switch {
	case err != nil:
		return nil, err
	case hold.Failure() != nil:
		ending = hold.Lease().String()
	}
	answer := fields{"ending": ending}
	if closed, ok := hold.Closed(); ok {
		answer["count"] = closed.Count
	}
	return answer, nil
}

// endingOf returns the result of a release; an error that does not contain it is returned as it is.
func endingOf(err error) (string, error) {
	switch {
	case err == nil:
		return "closed", nil
	case errors.As(err, new(*pausewatch.ElicitationExpiredError)):
		return "expired", nil
	case errors.As(err, new(*pausewatch.ElicitationReleasedError)):
		return "released", nil
	case errors.As(err, new(*pausewatch.ElicitationUnknownError)):
		return "unknown", nil
	default:
		return "", err
	}
}

func (p *player) lease(s step) (any, error) {
	hold, ok := p.holds.get(s.Hold)
	if !ok {
		return nil, missing("hold", s.Hold)
	}
	return fields{"lease": hold.Lease().String()}, nil
}

func (p *player) lost(s step) (any, error) {
	hold, ok := p.holds.get(s.Hold)
	if !ok {
		return nil, missing("hold", s.Hold)
	}
	<-hold.Lost()
	return fields{"lease": hold.Lease().String()}, nil
}

var errThrown = errors.New("the player's own error")

func (p *player) holdBlock(s step) (any, error) {
	client, err := p.client(s)
	if err != nil {
		return nil, err
	}
	if s.BestEffort {
		return bestEffortBlock(client, s)
	}
	entered := false
	err = client.WithHold(context.Background(), *s.ThreadID, holdOptions(s), func(context.Context) error {
		entered = true
		time.Sleep(ms(s.StayMs))
		if s.Throws {
			return errThrown
		}
		return nil
	})
	switch {
	case !entered:
		return nil, err
	case errors.Is(err, errThrown):
		return fields{"left": "error"}, nil
	}
	ending, err := endingOf(err)
	if err != nil {
		return nil, err
	}
	return fields{"left": "end", "ending": ending}, nil
}

// bestEffortBlock is a function that releases its hold when it returns: WithHold does not expose the hold.
func bestEffortBlock(client *pausewatch.Client, s step) (answer fields, err error) {
	hold, err := client.Hold(context.Background(), *s.ThreadID, holdOptions(s))
	if err != nil {
		return nil, err
	}
	defer func() {
		if answer, err = release(hold); err == nil {
			answer["left"] = "end"
			if s.Throws {
				answer["left"] = "error"
			}
		}
	}()
	time.Sleep(ms(s.StayMs))
	return nil, nil
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
