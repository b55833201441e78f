package dev.pausewatch;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.StatusOr;
import java.net.SocketAddress;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;

/**
 * Leads a channel to a Unix socket, whatever is in its path: gRPC's own targets take what a URI takes. The path stands in the target as the
 * hexadecimal digits of its UTF-8.
 */
final class UnixResolver extends NameResolverProvider {
    private static final String SCHEME = "pausewatch-unix";
    private static final int ANY_PRIORITY = 5;

    static {
        NameResolverRegistry.getDefaultRegistry().register(new UnixResolver());
    }

    /** What a channel to the socket at {@code path} is made with. */
    static String target(Path path) {
        return SCHEME + ":/" + HexFormat.of().formatHex(path.toString().getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public NameResolver newNameResolver(URI target, NameResolver.Args args) {
        if (!SCHEME.equals(target.getScheme())) {
            return null;
        }
        byte[] path = HexFormat.of().parseHex(target.getPath().substring(1));
        return new Fixed(UnixDomainSocketAddress.of(new String(path, StandardCharsets.UTF_8)));
    }

    @Override
    public String getDefaultScheme() {
        return SCHEME;
    }

    @Override
    public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
        return Set.of(UnixDomainSocketAddress.class);
    }

    @Override
    protected boolean isAvailable() {
        return true;
    }

    @Override
    protected int priority() {
        return ANY_PRIORITY;
    }

    private static final class Fixed extends NameResolver {
        private final EquivalentAddressGroup address;

        Fixed(SocketAddress address) {
            this.address = new EquivalentAddressGroup(address);
        }

        /** What the requests say of their server: any name will do, and servers log it. */
        @Override
        public String getServiceAuthority() {
            return "localhost";
        }

        @Override
        public void start(Listener2 listener) {
            listener.onResult(ResolutionResult.newBuilder()
                    .setAddressesOrError(StatusOr.fromValue(List.of(address)))
                    .build());
        }

        @Override
        public void shutdown() {}
    }
}
