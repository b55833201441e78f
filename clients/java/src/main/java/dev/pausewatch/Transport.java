package dev.pausewatch;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.nio.NioIoHandler;
import io.grpc.netty.shaded.io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import io.grpc.stub.MetadataUtils;
import java.net.UnixDomainSocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Builds the channels of a {@link Config}. A channel connects at its first call, is kept alive by pings, and
 * reconnects.
 */
final class Transport {
    /** The timeout of a connection attempt: short enough for a second attempt within the default deadline. */
    private static final int CONNECT_TIMEOUT_MS = 2_000;
    /**
     * The interval of pings, and the timeout of their answers: a dead peer is detected within 15 s, also on an idle
     * connection. With 10,000 clients, a server gets 1,000 pings per second.
     */
    private static final int PING_EVERY_S = 10;

    private static final int PING_ANSWER_S = 5;

    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private Transport() {}

    /** The credentials of a client: the same for all its addresses, of which all use TLS or none does. */
    static ChannelCredentials credentials(Config config, List<Address> addresses) {
        boolean isEncrypted = addresses.stream().anyMatch(each -> each instanceof Address.Tcp tcp && tcp.tls());
        return isEncrypted
                ? config.credentials().orElseGet(() -> Tls.credentials(config))
                : InsecureChannelCredentials.create();
    }

    /** A channel to one of the config's addresses. */
    static ManagedChannel channel(Config config, Address address, ChannelCredentials credentials) {
        NettyChannelBuilder builder = builder(address, credentials)
                .userAgent("pausewatch-java")
                // The callbacks only pass results on.
                .directExecutor()
                // Calls are repeated by us, with the same request id.
                .disableRetry()
                .keepAliveTime(PING_EVERY_S, TimeUnit.SECONDS)
                .keepAliveTimeout(PING_ANSWER_S, TimeUnit.SECONDS)
                .keepAliveWithoutCalls(true);
        config.token().map(Transport::bearer).ifPresent(builder::intercept);
        config.tokenSource().ifPresent(source -> builder.intercept(new NextToken()));
        builder.intercept(config.interceptors());
        config.customizer().accept(builder);
        return builder.build();
    }

    private static NettyChannelBuilder builder(Address address, ChannelCredentials credentials) {
        if (address instanceof Address.Unix unix) {
            return unix(unix);
        }
        Address.Tcp tcp = (Address.Tcp) address;
        String host =
                tcp.host().startsWith("[") ? tcp.host().substring(1, tcp.host().length() - 1) : tcp.host();
        return NettyChannelBuilder.forAddress(host, tcp.port(), credentials)
                .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, CONNECT_TIMEOUT_MS);
    }

    private static NettyChannelBuilder unix(Address.Unix address) {
        return NettyChannelBuilder.forTarget(UnixResolver.target(address.path()), InsecureChannelCredentials.create())
                .channelType(NioDomainSocketChannel.class, UnixDomainSocketAddress.class)
                .eventLoopGroup(UnixLoop.GROUP)
                // gRPC sets this option for every kind of channel; a Unix socket does not have it, and would log a
                // warning at each connect.
                .withOption(ChannelOption.SO_KEEPALIVE, null);
    }

    /**
     * The event loop for Java's own Unix sockets, which work on every system that has Unix sockets; gRPC's shared
     * threads support only those of Linux. It is never shut down: its threads are daemons.
     */
    private static final class UnixLoop {
        static final EventLoopGroup GROUP = new MultiThreadIoEventLoopGroup(
                1, new DefaultThreadFactory("pausewatch-unix", true), NioIoHandler.newFactory());
    }

    private static ClientInterceptor bearer(String token) {
        Metadata headers = new Metadata();
        headers.put(AUTHORIZATION, "Bearer " + token);
        return MetadataUtils.newAttachHeadersInterceptor(headers);
    }

    /** Sends the token that a call was given. */
    private static final class NextToken implements ClientInterceptor {
        @Override
        public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
            return bearer(options.getOption(Connection.TOKEN)).interceptCall(method, options, next);
        }
    }
}
