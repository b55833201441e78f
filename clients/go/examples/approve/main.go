// Approve asks a person at the terminal to approve something, while a thread is paused.
//
//	approve [--thread-id ID] [--answer-after SECONDS [--deny]] QUESTION
//
// It exits with 0 for yes, 1 for no, and 2 if the answer came too late, or after any other error.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

const (
	approved = 0
	declined = 1
	trouble  = 2
)

func main() {
	os.Exit(run())
}

func run() int {
	threadID := flag.String("thread-id", "", "the thread that waits (default: PAUSEWATCH_THREAD_ID)")
	answerAfter := flag.Float64("answer-after", -1, "do not ask; answer yes after so many `seconds`")
	deny := flag.Bool("deny", false, "with --answer-after: answer no")
	ttl := flag.Duration("ttl", 0, "how long the thread stays paused if this program dies (default 30s)")
	flag.Parse()
	question := strings.Join(flag.Args(), " ")
	if question == "" {
		fmt.Fprintln(os.Stderr, "approve: what is the question?")
		return trouble
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	answer := ask
	if *answerAfter >= 0 {
		answer = answerBy(time.Duration(*answerAfter*float64(time.Second)), !*deny)
	}
	yes, err := approve(ctx, *threadID, question, *ttl, answer)
	switch {
	case errors.As(err, new(*pausewatch.ElicitationExpiredError)):
		fmt.Fprintln(os.Stderr, "approve: the answer came too late: the thread went on without it")
		return trouble
	case err != nil:
		fmt.Fprintf(os.Stderr, "approve: %v\n", err)
		return trouble
	case yes:
		return approved
	default:
		return declined
	}
}

// approve holds the thread until the person has answered.
func approve(ctx context.Context, threadID, question string, ttl time.Duration, answer func(context.Context, string) (bool, error)) (yes bool, err error) {
	client, err := pausewatch.NewClient(pausewatch.WithThreadID(threadID))
	if err != nil {
		return false, err
	}
	defer client.Close()
	if client.ThreadID() == "" {
		return false, errors.New("which thread waits? give --thread-id, or set PAUSEWATCH_THREAD_ID")
	}
	err = client.WithHold(ctx, client.ThreadID(), pausewatch.HoldOptions{Reason: question, TTL: ttl}, func(ctx context.Context) (failed error) {
		yes, failed = answer(ctx, question)
		return failed
	})
	return yes, err
}

// answerBy answers instead of a person, for scripts.
func answerBy(after time.Duration, yes bool) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, question string) (bool, error) {
		fmt.Fprintf(os.Stderr, "%s [y/N] (a person thinks for %v)\n", question, after)
		select {
		case <-time.After(after):
			return yes, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// ask uses the terminal itself, not standard input, so that piped input cannot answer.
func ask(ctx context.Context, question string) (bool, error) {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("there is no terminal to ask at: %w", err)
	}
	defer terminal.Close()
	fmt.Fprintf(terminal, "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(terminal).ReadString('\n')
		answered <- line
	}()
	select {
	case line := <-answered:
		// Only yes is yes; no input is no.
		word := strings.ToLower(strings.TrimSpace(line))
		return word == "y" || word == "yes", nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
