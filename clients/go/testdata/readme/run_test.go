// Package reader runs the code blocks of the pages; test-readme lists them.
package reader

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pausewatch.dev/clients/go"
)

// function runs a block with a client of its own, within a timeout on thread-1.
func function(t *testing.T, block func(context.Context, *pausewatch.Client) error) {
	client, err := pausewatch.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := client.WithPausableTimeout(t.Context(), time.Minute, "thread-1")
	defer cancel()
	if err := block(ctx, client); err != nil {
		t.Error(err)
	}
}

// program runs a block that is a program, and answers its question.
func program(t *testing.T, folder string) {
	command := exec.CommandContext(t.Context(), "go", "run", folder)
	command.Stdin = strings.NewReader("y\n")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
