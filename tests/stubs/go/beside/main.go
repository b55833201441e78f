// A program with its own stubs beside the library. Both describe the same messages, and a program that registers them
// twice panics before main.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pausewatch "pausewatch.dev/clients/go"
	generated "pausewatch.dev/clients/go/gen/pausewatch/v1"

	own "stubs/own"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := pausewatch.NewClient(pausewatch.WithAddress(os.Getenv("STUBS_TCP")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	connection, err := grpc.NewClient(os.Getenv("STUBS_TCP"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	hold, err := client.Hold(ctx, "beside", pausewatch.HoldOptions{Reason: "seen by both"})
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)
	seen, err := own.NewElicitationServiceClient(connection).GetPauseState(ctx, &own.GetPauseStateRequest{ThreadId: "beside"})
	if err != nil {
		log.Fatal(err)
	}
	if elicitations := seen.PauseState.Elicitations; len(elicitations) != 1 || elicitations[0].Reason != "seen by both" {
		log.Fatalf("the stubs do not see the hold of the library: %v", seen)
	}
	// The names, imports and fields of the library's messages are unchanged.
	library := new(generated.PauseState).ProtoReflect().Descriptor()
	stubs := new(own.PauseState).ProtoReflect().Descriptor()
	if library.FullName() != stubs.FullName() || library.Fields().ByName("pause_start_time").Message().FullName() != "google.protobuf.Timestamp" {
		log.Fatalf("the library describes %v, the stubs %v", library, stubs)
	}
}
