import dev.pausewatch.Client;
import dev.pausewatch.ConfigException;
import dev.pausewatch.ElicitationExpiredException;
import dev.pausewatch.Hold;
import dev.pausewatch.HoldBuilder;
import dev.pausewatch.Lease;
import dev.pausewatch.PausewatchException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;

/** Asks a person for an approval at the terminal; the commands of the thread are not charged meanwhile. */
public final class Approve {
    private static final String USAGE = """
            usage: approve [--thread-id ID] [--ttl SECONDS] [--answer-after SECONDS] QUESTION
            Asks QUESTION at the terminal. --answer-after answers yes by itself. Exit code: 0 approved, 1 declined, 2 too late, or trouble.""";

    private static final int DECLINED = 1;
    private static final int TROUBLE = 2;

    private Optional<String> threadId = Optional.empty();
    private Optional<Duration> ttl = Optional.empty();
    private Optional<Duration> answerAfter = Optional.empty();
    private String question = "";

    private Approve(String... arguments) {
        Deque<String> left = new ArrayDeque<>(List.of(arguments));
        while (!left.isEmpty()) {
            String argument = left.remove();
            switch (argument) {
                case "--thread-id" -> threadId = Optional.of(left.remove());
                case "--ttl" -> ttl = Optional.of(seconds(left.remove()));
                case "--answer-after" -> answerAfter = Optional.of(seconds(left.remove()));
                default -> question = argument;
            }
        }
        if (question.isEmpty()) {
            throw new IllegalArgumentException("the question is missing");
        }
    }

    /** Asks, and says by the exit code what came of it. */
    public static void main(String[] arguments) throws Exception {
        Approve approve;
        try {
            approve = new Approve(arguments);
        } catch (RuntimeException wrong) {
            System.err.println(USAGE);
            System.exit(TROUBLE);
            return;
        }
        System.exit(approve.run());
    }

    private int run() throws IOException, InterruptedException {
        try (Client client = Client.fromEnv();
                Hold hold = holdOf(client).open()) {
            hold.lost().thenAccept(Approve::warn);
            boolean approved = ask();
            System.out.println(approved ? "approved" : "declined");
            return approved ? 0 : DECLINED;
        } catch (ElicitationExpiredException late) {
            System.err.println("too late: the answer came after the question had expired");
        } catch (PausewatchException | ConfigException trouble) {
            System.err.println("approve: " + trouble.getMessage());
        }
        return TROUBLE;
    }

    private HoldBuilder holdOf(Client client) {
        HoldBuilder builder = threadId.map(client::hold)
                .orElseGet(client::hold)
                .reason(question)
                .holder("approve");
        ttl.ifPresent(builder::ttl);
        return builder;
    }

    private boolean ask() throws IOException, InterruptedException {
        System.out.print(question + " [y/N] ");
        System.out.flush();
        if (answerAfter.isPresent()) {
            Thread.sleep(answerAfter.get().toMillis());
            System.out.println("y");
            return true;
        }
        String answer = new BufferedReader(new InputStreamReader(System.in, Charset.defaultCharset())).readLine();
        return answer != null && answer.strip().toLowerCase().startsWith("y");
    }

    private static void warn(Lease lease) {
        if (lease == Lease.OVERDUE || lease == Lease.EXPIRED) {
            System.err.println("(the question has expired, or its coordinator is away: the answer may be too late)");
        }
    }

    private static Duration seconds(String text) {
        return Duration.ofMillis(Math.round(Double.parseDouble(text) * 1_000));
    }
}
