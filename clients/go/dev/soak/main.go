// Soak is the program of clients/soak for this client library: a line of JSON in and out for each round. See
// clients/scenarios/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

const (
	// The longest wait for anything.
	hang = 30 * time.Second
	ttl  = time.Minute
)

// order is what a round does.
type order struct {
	Round     int               `json:"round"`
	Seed      uint64            `json:"seed"`
	Seconds   float64           `json:"seconds"`
	Deadlines int               `json:"deadlines"`
	Disturbed bool              `json:"disturbed"`
	Bursts    bool              `json:"bursts"`
	Prefix    string            `json:"prefix"`
	Settings  map[string]string `json:"settings"`
}

// round is a round under way, with its counts.
type round struct {
	order
	end time.Time

	mu     sync.Mutex
	chance *rand.Rand
	counts map[string]float64
}

func main() {
	log.SetFlags(0)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r := &round{counts: make(map[string]float64)}
		if err := json.Unmarshal(lines.Bytes(), &r.order); err != nil {
			log.Fatalf("read a round: %v", err)
		}
		r.end = time.Now().Add(seconds(r.Seconds))
		r.chance = rand.New(rand.NewPCG(r.Seed, 0))
		r.play()
		if err := json.NewEncoder(os.Stdout).Encode(r.counts); err != nil {
			log.Fatalf("write an answer: %v", err)
		}
	}
}

func (r *round) play() {
	for _, name := range []string{
		"holds", "cancelled", "unknown", "expired", "early", "false_expiries", "hangs", "disconnects", "late_ms",
		"bare_late_ms", "clock_error_ms", "await_error_ms",
	} {
		r.counts[name] = 0
	}
	r.counts["round"] = float64(r.Round)
	client := r.newClient()
	var works sync.WaitGroup
	for range 4 {
		works.Go(func() { r.holds(client) })
	}
	if r.Bursts {
		works.Go(func() { r.bursts(client) })
	}
	for _, work := range []func(*pausewatch.Client){r.deadlines, r.person, r.clock} {
		works.Go(func() { work(client) })
	}
	works.Go(r.shortLives)
	works.Wait()
	_ = client.Close()
	runtime.GC()
	// What is being closed has ended soon; the rest has leaked.
	for until := time.Now().Add(hang); runtime.NumGoroutine() > 1 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	r.counts["tasks"] = float64(runtime.NumGoroutine())
}

func (r *round) newClient() *pausewatch.Client {
	options := []pausewatch.Option{
		pausewatch.WithAddress(r.Settings["address"]),
		pausewatch.WithLogger(slog.New(slog.DiscardHandler)),
	}
	if token := r.Settings["token"]; token != "" {
		options = append(options, pausewatch.WithToken(token))
	}
	if ca := r.Settings["tls_ca"]; ca != "" {
		options = append(options, pausewatch.WithTLSCA(ca))
	}
	client, err := pausewatch.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func (r *round) isOver() bool { return time.Now().After(r.end) }

func (r *round) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name]++
}

func (r *round) greatest(name string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name] = max(r.counts[name], float64(d)/float64(time.Millisecond))
}

// random is a random time between both.
func (r *round) random(from, to time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return from + time.Duration(r.chance.Int64N(int64(to-from)))
}

func (r *round) number(below int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chance.IntN(below)
}

// cancelledSoon is a context that ends at a random moment of the next 20 ms, or does not end.
func (r *round) cancelledSoon(is bool) (context.Context, context.CancelFunc) {
	if !is {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), r.random(0, 20*time.Millisecond))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
