// Player plays the steps of clients/scenarios with this client library: one line of JSON per step. It knows no case.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"

	pausewatch "pausewatch.dev/clients/go"
)

func main() {
	log.SetFlags(0)
	p := newPlayer()
	var steps sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var step step
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			log.Fatalf("read a step: %v", err)
		}
		steps.Go(func() { p.answer(step.ID, p.play, step) })
	}
	if err := lines.Err(); err != nil {
		log.Fatalf("read standard input: %v", err)
	}
	p.reset()
}

// output writes answers, one line each.
type output struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (o *output) answer(id json.Number, play func(step) (any, error), s step) {
	ok, err := play(s)
	answer := map[string]any{"id": id}
	if err != nil {
		answer["error"] = describe(err)
	} else {
		answer["ok"] = ok
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.out.Encode(answer); err != nil {
		log.Fatalf("write an answer: %v", err)
	}
}

// describe names an error by its type.
func describe(err error) fields {
	described := fields{"type": "OTHER", "message": err.Error()}
	var invalid *pausewatch.InvalidFieldError
	if errors.As(err, &invalid) {
		described["field"] = invalid.Field
	}
	for _, known := range []struct {
		name   string
		target any
	}{
		{"INVALID_FIELD", new(*pausewatch.InvalidFieldError)},
		{"REQUEST_ID_REUSED", new(*pausewatch.RequestIDReusedError)},
		{"NO_OUTSTANDING_ELICITATION", new(*pausewatch.NoOutstandingElicitationError)},
		{"ELICITATION_UNKNOWN", new(*pausewatch.ElicitationUnknownError)},
		{"ELICITATION_RELEASED", new(*pausewatch.ElicitationReleasedError)},
		{"ELICITATION_EXPIRED", new(*pausewatch.ElicitationExpiredError)},
		{"TOO_MANY_ELICITATIONS", new(*pausewatch.TooManyElicitationsError)},
		{"LIMIT_EXCEEDED", new(*pausewatch.LimitExceededError)},
		{"STORE_UNAVAILABLE", new(*pausewatch.StoreUnavailableError)},
		{"UNAUTHENTICATED", new(*pausewatch.UnauthenticatedError)},
		{"PERMISSION_DENIED", new(*pausewatch.PermissionDeniedError)},
		{"UNAVAILABLE", new(*pausewatch.UnavailableError)},
		{"DEADLINE_EXCEEDED", new(*pausewatch.DeadlineExceededError)},
	} {
		if errors.As(err, known.target) {
			described["type"] = known.name
		}
	}
	return described
}

func missing(what, name string) error { return fmt.Errorf("there is no %s %q", what, name) }
