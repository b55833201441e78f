// Bench measures what the client adds to its language's bare stub: GetPauseState of one thread, in turns, over the stub
// and over the client. It prints one line of JSON with the medians in microseconds.
//
// PAUSEWATCH_ADDRESS: a server that runs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pausewatch "pausewatch.dev/clients/go"
	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

const (
	block  = 100
	blocks = 50
	warmUp = 10
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatalf("bench: %v", err)
	}
}

func run(ctx context.Context) error {
	address := os.Getenv("PAUSEWATCH_ADDRESS")
	if address == "" {
		return errors.New("set PAUSEWATCH_ADDRESS to the address of a server")
	}
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	stub := pausewatchv1.NewElicitationServiceClient(connection)
	client, err := pausewatch.NewClient(pausewatch.WithAddress(address))
	if err != nil {
		return err
	}
	defer client.Close()
	byStub := func() error {
		_, err := stub.GetPauseState(ctx, &pausewatchv1.GetPauseStateRequest{ThreadId: "bench"})
		return err
	}
	byClient := func() error {
		_, err := client.GetPauseState(ctx, "bench")
		return err
	}
	var stubTook, clientTook []time.Duration
	for turn := range warmUp + blocks {
		ofStub, err := measure(byStub)
		if err != nil {
			return err
		}
		ofClient, err := measure(byClient)
		if err != nil {
			return err
		}
		if turn >= warmUp {
			stubTook, clientTook = append(stubTook, ofStub...), append(clientTook, ofClient...)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"client":    "go",
		"calls":     len(clientTook),
		"stub_us":   median(stubTook),
		"client_us": median(clientTook),
	})
}

// measure returns how long each call of one block took.
func measure(call func() error) ([]time.Duration, error) {
	took := make([]time.Duration, block)
	for i := range took {
		began := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		took[i] = time.Since(began)
	}
	return took, nil
}

func median(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Nanoseconds()) / 1000
}
