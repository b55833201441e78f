package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;

class ThreadIdsTest {
    @Test
    void whatIsJustWithinTheLimitsIsTaken() {
        assertEquals("x", ThreadIds.checked("x"));
        assertEquals("é".repeat(128), ThreadIds.checked("é".repeat(128)));
        assertEquals("😀".repeat(64), ThreadIds.checked("😀".repeat(64)));
    }

    @Test
    void localErrorsHaveTheServersWording() {
        Map<String, String> refused = Map.of(
                "",
                "thread_id is empty; allowed: 1 to 256 bytes",
                "é".repeat(129),
                "thread_id has 258 bytes; allowed: 1 to 256",
                "a\u0007b",
                "thread_id has a control character; allowed: none",
                "a\u0085b",
                "thread_id has a control character; allowed: none",
                "a\ud83d",
                "thread_id has half of a surrogate pair; allowed: whole characters");
        refused.forEach((threadId, why) -> {
            InvalidFieldException error = assertThrows(InvalidFieldException.class, () -> ThreadIds.checked(threadId));
            assertEquals(why, error.description());
            assertEquals("thread_id", error.field());
            assertTrue(error.reason().filter("INVALID_FIELD"::equals).isPresent());
        });
    }
}
