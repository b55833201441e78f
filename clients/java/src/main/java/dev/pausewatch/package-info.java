/**
 * Freezes the timeouts of an agent's commands while a person is being asked something.
 *
 * <table>
 * <caption>What is here</caption>
 * <tr><td>{@link dev.pausewatch.Client}</td><td>the calls, each with a deadline and retries that count once</td></tr>
 * <tr><td>{@link dev.pausewatch.Hold}</td><td>an open elicitation: renewed while it lives, closed at the end of its block</td></tr>
 * <tr><td>{@link dev.pausewatch.PausableDeadline}</td><td>a timeout that stands still while its thread is paused</td></tr>
 * <tr><td>{@link dev.pausewatch.Watch}</td><td>the states of threads, across lost connections</td></tr>
 * <tr><td>{@link dev.pausewatch.PausewatchException}</td><td>one subtype for each thing that a caller does next</td></tr>
 * <tr><td>{@link dev.pausewatch.Config}, {@link dev.pausewatch.Address}</td><td>the one scheme that every program and library of ours reads</td></tr>
 * </table>
 *
 * <p>Invariants:
 *
 * <p>1. A call that is retried carries the same request id each time, so it counts once (G4).
 *
 * <p>2. Nothing waits forever: a call ends with its deadline, a background release with its lease. Only a watch continues until it is closed; that
 * is its purpose.
 *
 * <p>3. If the program dies, its open elicitations end with their leases (G2).
 *
 * <p>4. All background work of a client happens on one daemon thread, which never runs a user's code.
 *
 * <p>5. Nothing in this package is {@code null}, unless it is annotated {@code @Nullable} (JSpecify); what may be missing is an {@link
 * java.util.Optional}.
 */
@NullMarked
package dev.pausewatch;

import org.jspecify.annotations.NullMarked;
