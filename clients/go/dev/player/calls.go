package main

import (
	"context"
	"os"
	"strings"

	pausewatch "pausewatch.dev/clients/go"
)

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
