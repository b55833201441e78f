// Bench measures what the client adds to its language's bare stub: GetPauseState of one thread, in turns, over the stub
// and over the client. It prints one line of JSON with the medians in microseconds.
//
// The server is that of PAUSEWATCH_ADDRESS; without one it starts the program that PAUSEWATCH_PROGRAM names.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
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
		server, found, err := startServer()
		if err != nil {
			return fmt.Errorf("start the server: %w", err)
		}
		defer func() { _ = server.Process.Kill() }()
		address = found
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

// startServer starts a server without storage, and returns its address.
func startServer() (*exec.Cmd, string, error) {
	program := os.Getenv("PAUSEWATCH_PROGRAM")
	if program == "" {
		return nil, "", errors.New("neither PAUSEWATCH_ADDRESS nor PAUSEWATCH_PROGRAM is set")
	}
	server := exec.Command(program, "serve", "--store", "memory", "--listen", "127.0.0.1:0")
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := server.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(err, server.Process.Kill())
	}
	return server, strings.TrimSpace(strings.TrimPrefix(line, "listening ")), nil
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
