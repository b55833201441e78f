// Package pausewatch freezes the timeouts of an agent's commands while a person is being asked something.
//
// A thread is one conversation of an agent; an elicitation is one question put to a person. While a thread has open
// elicitations it is paused, and those who run its commands do not charge time to them. A coordinator, the program
// pausewatch, keeps the count; this package talks to it.
//
// A tool that asks a person holds the thread meanwhile:
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
// A program that runs a thread's commands gives them a timeout that stands still meanwhile:
//
//	ctx, cancel := client.WithPausableTimeout(ctx, 10*time.Second, threadID)
//	defer cancel()
//	err := exec.CommandContext(ctx, "make", "test").Run()
//
// Below these are the calls ([Client.IncrementElicitation] and so on), [Client.Watch], and [Stopwatch].
//
// # Guarantees
//
//  1. A call that is tried again carries the same request id each time, so it counts once (G4).
//  2. Nothing waits forever: a call ends with its timeout or its context, a release in the background with its lease.
//     Only a watch goes on, until its context ends; that is its purpose.
//  3. What this package leaves behind when its process dies is bounded by a lease (G2).
//  4. A timeout that ran out expires only after the coordinator, asked once more, said that the thread runs (G1).
//  5. A command is charged its wall time less its thread's paused time, within 5 ms while connected; what was paused
//     while it was cut off is credited afterwards (G3).
//
// G1 to G8 are the guarantees of the service: see its documentation of semantics.
//
// # Files
//
//   - settings, options, address, dial: from settings to a connection
//   - client, calls, retry, errors, state: the calls
//   - hold, lease: an elicitation that is kept open
//   - watch: its queue (undelivered events), its set (which threads), its requests, its stream
//   - pausable, stopwatch, thread_clock, follower: timeouts; the arithmetic is in internal/charge
package pausewatch

// Version of this package.
const Version = "0.1.0"
