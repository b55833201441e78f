package dev.pausewatch.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.Client;
import dev.pausewatch.Config;
import dev.pausewatch.Hold;
import dev.pausewatch.IncrementElicitation;
import dev.pausewatch.UnavailableException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

@EnabledIfEnvironmentVariable(named = "PAUSEWATCH_PROGRAM", matches = ".+")
class TestCoordinatorTest {
    @Test
    void itServesAndComesBackAtTheSameAddress() {
        String address;
        try (TestCoordinator coordinator = TestCoordinator.start("--max-pause", "1h");
                Client client = coordinator.client()) {
            address = coordinator.address();
            try (Hold hold = client.hold("t").open()) {
                assertEquals(1, hold.opened().count());
            }
            client.incrementElicitation(IncrementElicitation.of("t"));
            assertThrows(IllegalStateException.class, coordinator::restart);
            coordinator.stop();
            coordinator.stop();
            coordinator.restart();
            assertEquals(address, coordinator.address());
            assertEquals(0, client.getPauseState("t").count());
        }
        Config nobody = Config.builder().address(address).retries(0).build();
        try (Client client = Client.open(nobody)) {
            assertThrows(UnavailableException.class, () -> client.getPauseState("t"));
        }
    }

    @Test
    void aFailedStartReportsTheCause() {
        String why = assertThrows(IllegalStateException.class, () -> TestCoordinator.start("--no-such-option"))
                .getMessage();
        assertTrue(why.contains("--no-such-option"), why);
    }
}
