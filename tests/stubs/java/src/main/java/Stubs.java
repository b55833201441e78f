import dev.pausewatch.v1.DecrementElicitationRequest;
import dev.pausewatch.v1.ElicitationServiceGrpc;
import dev.pausewatch.v1.IncrementElicitationRequest;
import dev.pausewatch.v1.PauseState;
import dev.pausewatch.v1.WatchPauseStateRequest;
import dev.pausewatch.v1.WatchPauseStateResponse;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;

/** Calls, a watch and a decrement over every transport, with the stubs of protoc-gen-grpc-java. */
final class Stubs {
    public static void main(String[] arguments) throws Exception {
        ChannelCredentials plain = InsecureChannelCredentials.create();
        use("tcp", System.getenv("STUBS_TCP"), plain);
        File authorities = new File(System.getenv("STUBS_CA"));
        use("tls", System.getenv("STUBS_TLS"), TlsChannelCredentials.newBuilder().trustManager(authorities).build());
        use("unix", "unix:" + System.getenv("STUBS_UNIX"), plain);
    }

    private static void use(String transport, String target, ChannelCredentials credentials) {
        ManagedChannel channel = Grpc.newChannelBuilder(target, credentials).build();
        try {
            var service = ElicitationServiceGrpc.newBlockingStub(channel).withDeadlineAfter(1, TimeUnit.MINUTES);
            var watch = service.watchPauseState(WatchPauseStateRequest.newBuilder().addThreadIds("java").build());
            expect(next(watch).getCount() == 0, "the watch begins with a count of 0");
            var opened = service.incrementElicitation(IncrementElicitationRequest.newBuilder().setThreadId("java").build());
            expect(opened.getCount() == 1 && opened.getPaused(), "the increment pauses");
            expect(next(watch).getPaused(), "the watch tells of the pause");
            var closed = service.decrementElicitation(DecrementElicitationRequest.newBuilder().setThreadId("java").build());
            expect(closed.getCount() == 0 && !closed.getPaused(), "the decrement resumes");
            expect(!next(watch).getPaused(), "the watch tells of the end of the pause");
        } finally {
            channel.shutdownNow();
        }
        System.out.println("ok " + transport);
    }

    private static PauseState next(Iterator<WatchPauseStateResponse> watch) {
        while (true) {
            WatchPauseStateResponse event = watch.next();
            if (event.hasPauseState()) {
                return event.getPauseState();
            }
        }
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("not so: " + what);
        }
    }
}
