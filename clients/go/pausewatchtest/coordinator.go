// Package pausewatchtest starts a coordinator for the tests of programs that use pausewatch.
//
// It is the real program, pausewatch serve, with nothing stored, on a free port of this machine: counts, leases,
// watches and errors are those of production.
package pausewatchtest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	pausewatch "pausewatch.dev/clients/go"
)

// Coordinator is a running coordinator. It serves until it is stopped, or its test ends.
type Coordinator struct {
	tb      testing.TB
	options []string
	address string
	process *exec.Cmd
}

// Start starts a coordinator and waits until it listens. It runs the program that PAUSEWATCH_PROGRAM names, else that
// of PATH; if there is none, or it does not start, the test fails with a text that says what to do. options are
// further options of pausewatch serve, such as "--max-pause", "10s".
func Start(tb testing.TB, options ...string) *Coordinator {
	tb.Helper()
	c := &Coordinator{tb: tb, options: options, address: "127.0.0.1:0"}
	tb.Cleanup(c.Stop)
	c.Start()
	return c
}

// Address returns its address, which a Stop and a Start do not change: for PAUSEWATCH_ADDRESS of the program under
// test.
func (c *Coordinator) Address() string { return c.address }

// Client creates a client of it, which is closed when the test ends.
func (c *Coordinator) Client(options ...pausewatch.Option) *pausewatch.Client {
	c.tb.Helper()
	client, err := pausewatch.NewClient(append([]pausewatch.Option{pausewatch.WithAddress(c.address)}, options...)...)
	if err != nil {
		c.tb.Fatalf("pausewatchtest: %v", err)
	}
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Start starts it again after a [Coordinator.Stop], with empty state.
func (c *Coordinator) Start() {
	c.tb.Helper()
	if c.process != nil {
		c.tb.Fatal("pausewatchtest: the coordinator is running")
	}
	program := os.Getenv("PAUSEWATCH_PROGRAM")
	if program == "" {
		found, err := exec.LookPath("pausewatch")
		if err != nil {
			c.tb.Fatal("pausewatchtest: the program pausewatch is not installed: put it on the PATH, or its path into the variable PAUSEWATCH_PROGRAM")
		}
		program = found
	}
	var said bytes.Buffer
	listen := strings.TrimPrefix(c.address, "https://")
	process := exec.Command(program, append([]string{"serve", "--listen", listen, "--store", "memory"}, c.options...)...)
	process.Stderr = &said
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		c.tb.Fatalf("pausewatchtest: start %s: %v", program, err)
	}
	c.process = process
	line, _ := bufio.NewReader(out).ReadString('\n')
	address, listens := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	if !listens {
		c.Stop()
		c.tb.Fatalf("pausewatchtest: %v does not start: %s", process, strings.TrimSpace(said.String()))
	}
	c.address = address
}

// Stop kills it, as a crash would. Calling it again does nothing.
func (c *Coordinator) Stop() {
	if c.process != nil {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
		c.process = nil
	}
}
