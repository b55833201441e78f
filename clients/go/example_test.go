package pausewatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/exec"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

var (
	ctx    = context.Background()
	client *pausewatch.Client
)

func askThePerson() error { return nil }

// A tool freezes the clock of its thread while it asks.
func ExampleClient_WithHold() {
	err := client.WithHold(ctx, client.ThreadID(), pausewatch.HoldOptions{Reason: "Delete the branch?"},
		func(context.Context) error { return askThePerson() })
	if errors.As(err, new(*pausewatch.ElicitationExpiredError)) {
		log.Print("the answer came too late: the thread went on without it")
	}
}

// A program that waits for a person can stop as soon as the lease is lost.
func ExampleHold_Lost() {
	hold, err := client.Hold(ctx, client.ThreadID(), pausewatch.HoldOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)
	answered := make(chan error)
	go func() { answered <- askThePerson() }()
	select {
	case <-answered:
	case <-hold.Lost():
		log.Printf("the lease is %v", hold.Lease())
	}
}

// An exec server sets a timeout of ten seconds that does not count the time of its thread's questions.
func ExampleClient_WithPausableTimeout() {
	ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, "thread-1")
	defer cancel()
	out, err := exec.CommandContext(ctx, "make", "test").CombinedOutput()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		log.Print("timed out")
	}
	fmt.Printf("%s, %v", out, err)
}

// Use the stopwatch where a context does not fit.
func ExampleClient_StartStopwatch() {
	stopwatch, err := client.StartStopwatch(10*time.Second, "thread-1")
	if err != nil {
		log.Fatal(err)
	}
	defer stopwatch.Stop()
	resume := stopwatch.Pause() // For reasons of its own.
	resume()
	select {
	case <-stopwatch.Expired():
	case <-ctx.Done():
		log.Printf("%v are left", stopwatch.Read().Remaining)
	}
}

func ExampleClient_Watch() {
	events, err := client.Watch(ctx, []string{"thread-1", "thread-2"}, pausewatch.WatchOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for event := range events {
		switch event := event.(type) {
		case pausewatch.StateEvent:
			fmt.Println(event.State.ThreadID, event.State.Count)
		case pausewatch.Disconnected:
			log.Print(event.Err)
		}
	}
}
