// Package pausewatch freezes the timeouts of an agent's commands while a person is being asked something.
//
// A thread is one conversation of an agent; an elicitation is one question put to a person. While a thread has open
// elicitations it is paused, and no time is charged to its commands. A coordinator, the program pausewatch, keeps the
// count; this package is its client.
//
// A tool that asks a person holds the thread while it waits for the answer:
//
//	client, err := pausewatch.NewClient()
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	hold, err := client.Hold(ctx, client.ThreadID(), pausewatch.HoldOptions{Reason: "Delete the branch?"})
//	if err != nil {
//		return err
//	}
//	defer hold.Release(ctx)
//
// A program that runs a thread's commands gives them a timeout that is paused during that time:
//
//	ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, threadID)
//	defer cancel()
//	err := exec.CommandContext(ctx, "make", "test").Run()
//
// The lower-level API consists of the calls ([Client.IncrementElicitation] and so on), [Client.Watch], and [Stopwatch].
//
// # Guarantees
//
//  1. All attempts of a call have the same request id, so the call counts once (G4).
//  2. Nothing waits forever: a call ends with its timeout or its context, a release in the background with its lease.
//     Only a watch continues until its context ends, as intended.
//  3. If the process dies, a lease bounds every elicitation that it leaves open (G2).
//  4. A timeout that ran out expires only after the coordinator has confirmed once more that the thread runs (G1).
//  5. A command is charged its wall time minus its thread's paused time, within 5 ms while connected; pauses during a
//     disconnect are credited after the reconnect (G3).
//
// G1 to G8 are the guarantees of the service: see its documentation of semantics.
//
// # Files
//
//   - settings, options, address, dial, route: from settings to a connection
//   - client, calls, history, retry, errors, state, token_source: the calls
//   - hold, lease: an elicitation that is kept open
//   - watch: its queue (undelivered events), its set (which threads), its requests, its stream
//   - pausable, stopwatch, await, thread_clock, follows, follower, link: timeouts; the arithmetic is in internal/charge
package pausewatch

// Version is the version of this package.
const Version = "0.1.0"
