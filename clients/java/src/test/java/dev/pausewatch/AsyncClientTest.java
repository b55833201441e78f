package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Calls as futures, and holds that are opened for best effort, against a real server. */
@EnabledIfEnvironmentVariable(named = "PAUSEWATCH_PROGRAM", matches = ".+")
class AsyncClientTest {
    private RealServer server;
    private Client client;

    @BeforeEach
    void serve() throws IOException {
        server = new RealServer("127.0.0.1:0");
        client = Client.open(
                Config.builder().address(server.address()).retries(0).build());
    }

    @AfterEach
    void close() {
        client.close();
        server.close();
    }

    private static <T> T of(CompletableFuture<T> future) throws Exception {
        return future.get(10, TimeUnit.SECONDS);
    }

    @Test
    void allCallsAreThereAsFutures() throws Exception {
        AsyncClient async = client.async();
        IncrementResult opened = of(async.incrementElicitation(IncrementElicitation.of("t")));
        String id = opened.elicitation().elicitationId();
        assertEquals(1, of(async.getPauseState("t")).count());
        assertEquals(
                id, of(async.renewElicitation(RenewElicitation.of("t", id))).elicitationId());
        assertEquals(
                1,
                of(async.listPauseStates(ListPauseStates.paused()))
                        .pauseStates()
                        .size());
        assertEquals(
                0, of(async.decrementElicitation(DecrementElicitation.of("t"))).count());
        assertEquals(1, of(async.listPauses(ListPauses.of("t"))).pauses().size());
        ExecutionException refused = assertThrows(
                ExecutionException.class, () -> of(async.decrementElicitation(DecrementElicitation.of("t"))));
        assertInstanceOf(NoOutstandingElicitationException.class, refused.getCause());
    }

    @Test
    void aHoldIsOpenedAndReleasedWithoutWaiting() throws Exception {
        Hold hold = of(client.hold("t").openAsync());
        assertEquals(1, client.getPauseState("t").count());
        assertEquals(
                0,
                assertInstanceOf(Ending.Closed.class, of(hold.releaseAsync())).count());
        assertEquals(hold.release(), of(hold.releaseAsync()));
        ExecutionException refused = assertThrows(
                ExecutionException.class, () -> of(client.hold("a\0b").openAsync()));
        assertInstanceOf(InvalidFieldException.class, refused.getCause());
    }

    @Test
    void aCancelledOpenClosesWhatItOpened() throws Exception {
        client.hold("t").openAsync().cancel(false);
        long giveUp = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        List<Pause> ended = List.of();
        while (ended.isEmpty() && System.nanoTime() < giveUp) {
            Thread.sleep(10);
            ended = client.listPauses(ListPauses.of("t")).pauses();
        }
        assertEquals(
                List.of(PauseEnd.DECREMENTED),
                ended.stream().map(Pause::endedBy).toList());
    }

    @Test
    void aBestEffortHoldGoesOnWithoutACoordinator() throws Exception {
        server.close();
        Client nobody =
                Client.open(Config.builder().address("127.0.0.1:1").retries(0).build());
        List<Hold> holds = List.of(
                nobody.hold("t").bestEffort().open(),
                of(nobody.hold("t").bestEffort().openAsync()),
                nobody.hold().bestEffort().open(),
                of(nobody.hold().bestEffort().openAsync()));
        for (Hold hold : holds) {
            assertTrue(hold.failure().isPresent());
            assertEquals(List.of(Lease.NOT_OPEN, Lease.NOT_OPEN), List.of(hold.lease(), of(hold.lost())));
            assertThrows(IllegalStateException.class, hold::opened);
            assertEquals(new Ending.NotOpen(), hold.release());
            hold.close();
        }
        assertInstanceOf(UnavailableException.class, holds.get(0).failure().orElseThrow());
        assertInstanceOf(ConfigException.class, holds.get(2).failure().orElseThrow());
        assertThrows(UnavailableException.class, () -> nobody.hold("t").open());
        assertThrows(ConfigException.class, () -> nobody.hold().open());
        nobody.close();
        assertThrows(
                IllegalStateException.class, () -> nobody.hold("t").bestEffort().open());
    }
}
