package dev.pausewatch;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Checks thread ids. The server would end a stream because of an invalid id, with every other thread on it. */
final class ThreadIds {
    private static final int MOST_BYTES = 256;

    private ThreadIds() {}

    /**
     * Returns {@code threadId}.
     *
     * @throws InvalidFieldException no thread can have this id
     */
    static String checked(String threadId) {
        if (threadId.isEmpty()) {
            throw Failure.invalidField("thread_id", "is empty; allowed: 1 to 256 bytes");
        }
        int length = utf8(threadId).remaining();
        if (length > MOST_BYTES) {
            throw Failure.invalidField("thread_id", "has " + length + " bytes; allowed: 1 to 256");
        }
        if (threadId.chars().anyMatch(Character::isISOControl)) {
            throw Failure.invalidField("thread_id", "has a control character; allowed: none");
        }
        return threadId;
    }

    private static ByteBuffer utf8(String threadId) {
        try {
            return StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(threadId));
        } catch (CharacterCodingException unpaired) {
            throw Failure.invalidField("thread_id", "has half of a surrogate pair; allowed: whole characters");
        }
    }
}
