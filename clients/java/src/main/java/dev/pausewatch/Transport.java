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
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.nio.NioIoHandler;
import io.grpc.netty.shaded.io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import io.grpc.stub.MetadataUtils;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.jspecify.annotations.Nullable;

/** From a {@link Config} to a channel: lazy, kept alive, reconnecting. */
final class Transport {
    /** A slower connection attempt is repeated: short enough for a second try within the default deadline. */
    private static final int CONNECT_TIMEOUT_MS = 2_000;
    /**
     * A ping this often and an answer this soon: a peer that died without a word is noticed within 15 s, idle or not, and 10,000 clients cost
     * their server 1,000 pings a second.
     */
    private static final int PING_EVERY_S = 10;

    private static final int PING_ANSWER_S = 5;

    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private Transport() {}

    /** Those of a client for all its addresses, which are encrypted or are not. */
    static ChannelCredentials credentials(Config config, List<Address> addresses) {
        boolean isEncrypted = addresses.stream().anyMatch(each -> each instanceof Address.Tcp tcp && tcp.tls());
        return isEncrypted ? config.credentials().orElseGet(() -> tls(config)) : InsecureChannelCredentials.create();
    }

    /** A channel to one of the config's addresses. */
    static ManagedChannel channel(Config config, Address address, ChannelCredentials credentials) {
        NettyChannelBuilder builder = builder(address, credentials)
                .userAgent("pausewatch-java")
                // Its callbacks only hand on.
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
        try {
            return NettyChannelBuilder.forAddress(host, tcp.port(), credentials)
                    .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, CONNECT_TIMEOUT_MS);
        } catch (IllegalArgumentException wrong) {
            throw new ConfigException(
                    "tls_cert and tls_key cannot be used; they must be PEM, the key PKCS #8 and without a password",
                    wrong);
        }
    }

    private static NettyChannelBuilder unix(Address.Unix address) {
        return NettyChannelBuilder.forTarget(UnixResolver.target(address.path()), InsecureChannelCredentials.create())
                .channelType(NioDomainSocketChannel.class, UnixDomainSocketAddress.class)
                .eventLoopGroup(UnixLoop.GROUP)
                // Set for every kind of channel, and warned of at each connect by those that do not have it.
                .withOption(ChannelOption.SO_KEEPALIVE, null);
    }

    /** Java's own Unix sockets, which every system has that has any; gRPC's shared threads know those of Linux only. Never shut down: daemons. */
    private static final class UnixLoop {
        static final EventLoopGroup GROUP = new MultiThreadIoEventLoopGroup(
                1, new DefaultThreadFactory("pausewatch-unix", true), NioIoHandler.newFactory());
    }

    private static ChannelCredentials tls(Config config) {
        TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
        config.tlsCa().ifPresent(ca -> builder.trustManager(authorities(ca)));
        config.tlsKeyPair().ifPresent(pair -> {
            try {
                builder.keyManager(
                        new ByteArrayInputStream(read(Setting.TLS_CERT, pair.cert())),
                        new ByteArrayInputStream(read(Setting.TLS_KEY, pair.key())));
            } catch (IOException impossible) {
                throw new UncheckedIOException(impossible);
            }
        });
        return builder.build();
    }

    private static TrustManager[] authorities(Path ca) {
        try {
            KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
            trusted.load(null, null);
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            for (Certificate authority :
                    factory.generateCertificates(new ByteArrayInputStream(read(Setting.TLS_CA, ca)))) {
                trusted.setCertificateEntry(Integer.toString(trusted.size()), authority);
            }
            if (trusted.size() == 0) {
                throw unusable(Setting.TLS_CA, ca, null);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(trusted);
            return trust.getTrustManagers();
        } catch (GeneralSecurityException | IOException wrong) {
            throw unusable(Setting.TLS_CA, ca, wrong);
        }
    }

    private static byte[] read(Setting setting, Path path) {
        try {
            return Files.readAllBytes(path);
        } catch (IOException unreadable) {
            throw new ConfigException(setting.key() + " " + path + ": cannot be read", unreadable);
        }
    }

    private static ConfigException unusable(Setting setting, Path path, @Nullable Exception cause) {
        return new ConfigException(setting.key() + " " + path + ": no certificate in PEM", cause);
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
