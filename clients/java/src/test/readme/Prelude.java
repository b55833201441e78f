import dev.pausewatch.Client;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** What the blocks of the pages use and do not show. */
abstract class Prelude {
    final Client client = Client.fromEnv();
    final String threadId = "thread-1";
    final ProcessBuilder command = new ProcessBuilder("java", "-version");
    final CompletableFuture<Void> running = CompletableFuture.completedFuture(null);
    final Prompt prompt = new Prompt();

    /** What a block does; it may throw. */
    interface Block {
        void run() throws Exception;
    }

    /** The person, who says yes. */
    final class Prompt {
        boolean ask() {
            if (client.getPauseState(threadId).count() != 1) {
                throw new AssertionError("the block does not hold the thread");
            }
            return true;
        }

        void warn(String text) {
            System.out.println(text);
        }
    }

    final boolean ask() {
        return prompt.ask();
    }

    final void push() {
        System.out.println("pushed");
    }

    abstract void block() throws Exception;

    final void run() throws Exception {
        try (client) {
            block();
        }
    }

    static void within(String place, Block block) throws Exception {
        Callable<Void> call = () -> {
            block.run();
            return null;
        };
        CompletableFuture<Void> ended = CompletableFuture.supplyAsync(() -> {
            try {
                return call.call();
            } catch (Exception thrown) {
                throw new AssertionError(place, thrown);
            }
        });
        try {
            ended.get(60, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw new AssertionError(place, failed.getCause());
        }
        System.out.println("ok " + place);
    }
}
