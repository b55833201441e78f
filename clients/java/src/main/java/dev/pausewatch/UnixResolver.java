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
 * Resolves a target to a Unix socket with any path: gRPC's own targets allow only the characters of a URI. The target
 * has the path as hexadecimal digits of its UTF-8 bytes.
 */
final class UnixResolver extends NameResolverProvider {
    private static final String SCHEME = "pausewatch-unix";
    private static final int ANY_PRIORITY = 5;

    static {
        NameResolverRegistry.getDefaultRegistry().register(new UnixResolver());
    }

    /** The target of a channel to the socket at {@code path}. */
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

        /** The authority that requests send: any valid name, which servers may log. */
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
