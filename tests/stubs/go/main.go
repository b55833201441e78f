// Calls, a watch and a decrement over every transport, with the stubs of protoc-gen-go and protoc-gen-go-grpc.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	v1 "stubs/own"
)

func main() {
	authorities, err := credentials.NewClientTLSFromFile(os.Getenv("STUBS_CA"), "")
	if err != nil {
		log.Fatal(err)
	}
	for _, each := range []struct {
		transport, target string
		credentials       credentials.TransportCredentials
	}{
		{"tcp", os.Getenv("STUBS_TCP"), insecure.NewCredentials()},
		{"tls", os.Getenv("STUBS_TLS"), authorities},
		{"unix", "unix:" + os.Getenv("STUBS_UNIX"), insecure.NewCredentials()},
	} {
		connection, err := grpc.NewClient(each.target, grpc.WithTransportCredentials(each.credentials))
		if err != nil {
			log.Fatal(err)
		}
		if err := use(v1.NewElicitationServiceClient(connection)); err != nil {
			log.Fatalf("%s: %v", each.transport, err)
		}
		connection.Close()
		fmt.Println("ok", each.transport)
	}
}

func use(service v1.ElicitationServiceClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	watch, err := service.WatchPauseState(ctx, &v1.WatchPauseStateRequest{ThreadIds: []string{"go"}})
	if err != nil {
		return err
	}
	if err := next(watch, 0); err != nil {
		return err
	}
	opened, err := service.IncrementElicitation(ctx, &v1.IncrementElicitationRequest{ThreadId: "go"})
	if err != nil || opened.Count != 1 || !opened.Paused {
		return fmt.Errorf("increment: %v, %w", opened, err)
	}
	if err := next(watch, 1); err != nil {
		return err
	}
	closed, err := service.DecrementElicitation(ctx, &v1.DecrementElicitationRequest{ThreadId: "go"})
	if err != nil || closed.Count != 0 || closed.Paused {
		return fmt.Errorf("decrement: %v, %w", closed, err)
	}
	return next(watch, 0)
}

// Reads up to the next state, which must have this count.
func next(watch grpc.ServerStreamingClient[v1.WatchPauseStateResponse], count uint32) error {
	for {
		event, err := watch.Recv()
		if err != nil {
			return err
		}
		if state := event.GetPauseState(); state != nil {
			if state.Count != count || state.Paused != (count > 0) {
				return fmt.Errorf("watch: %v instead of a count of %d", state, count)
			}
			return nil
		}
	}
}
