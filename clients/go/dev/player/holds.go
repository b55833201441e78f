package main

import (
	"context"
	"errors"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

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
