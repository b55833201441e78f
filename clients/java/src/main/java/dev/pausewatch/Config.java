package dev.pausewatch;

import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.ManagedChannelBuilder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * How a {@link Client} connects, and its deadlines. An argument overrides the environment, which overrides the config file:
 *
 * <pre>{@code
 * Config config = Config.fromEnv().deadline(Duration.ofSeconds(1)).build();
 * }</pre>
 *
 * <p>A built config is complete and consistent. Its {@link #toString()} contains no secrets.
 */
public final class Config {
    private static final Duration DEFAULT_DEADLINE = Duration.ofSeconds(5);
    /** Not a {@link Setting}: the config file has no such key. */
    private static final String TOKEN_FILE = "PAUSEWATCH_TOKEN_FILE";

    private static final Set<Setting> TLS_FILES = EnumSet.of(Setting.TLS_CA, Setting.TLS_CERT, Setting.TLS_KEY);

    private final Address address;
    private final Optional<String> threadId;
    private final Optional<String> token;
    private final Optional<Supplier<String>> tokenSource;
    private final Optional<Path> tlsCa;
    private final Optional<KeyPair> tlsKeyPair;
    private final Duration deadline;
    private final int retries;
    private final Optional<ChannelCredentials> credentials;
    private final List<ClientInterceptor> interceptors;
    private final Consumer<ManagedChannelBuilder<?>> customizer;
    private final Consumer<Link> onLink;

    /** The certificate of this client, and its key. */
    record KeyPair(Path cert, Path key) {}

    private Config(Builder builder) {
        address = builder.get(Setting.ADDRESS).map(Address::parse).orElse(Address.DEFAULT);
        threadId = builder.get(Setting.THREAD_ID);
        token = builder.get(Setting.TOKEN);
        tokenSource = Optional.ofNullable(builder.chosenSource);
        tlsCa = builder.path(Setting.TLS_CA);
        tlsKeyPair = builder.keyPair();
        deadline = builder.deadline;
        retries = builder.retries;
        credentials = Optional.ofNullable(builder.credentials);
        interceptors = List.copyOf(builder.interceptors);
        customizer = builder.customizer;
        onLink = builder.onLink;
        checkTls(builder);
        if (token.isPresent() || tokenSource.isPresent()) {
            checkToken();
        }
    }

    /**
     * Builds from the arguments, then the environment, then the config file. Without {@code PAUSEWATCH_THREAD_ID}, the
     * environment's thread is that of the agent that started this program: {@code CODEX_THREAD_ID}, then {@code
     * CLAUDE_CODE_SESSION_ID}.
     */
    public static Builder fromEnv() {
        return new Builder(System::getenv);
    }

    /** Builds from the arguments only. */
    public static Builder builder() {
        return new Builder(variable -> null);
    }

    /** As {@link #fromEnv()}, with another environment. */
    static Builder fromEnv(UnaryOperator<String> environment) {
        return new Builder(environment);
    }

    /** The address of the coordinator. Default: {@code 127.0.0.1:7420}. */
    public Address address() {
        return address;
    }

    /** The thread of {@link Client#hold()}; empty if none is set. */
    public Optional<String> threadId() {
        return threadId;
    }

    /** The deadline of a call, retries included. Default: 5 s. */
    public Duration deadline() {
        return deadline;
    }

    /** The maximum number of retries of a call within its deadline. Default: as many as fit. */
    public int retries() {
        return retries;
    }

    Optional<String> token() {
        return token;
    }

    Optional<Supplier<String>> tokenSource() {
        return tokenSource;
    }

    Optional<ChannelCredentials> credentials() {
        return credentials;
    }

    List<ClientInterceptor> interceptors() {
        return interceptors;
    }

    Consumer<ManagedChannelBuilder<?>> customizer() {
        return customizer;
    }

    Consumer<Link> onLink() {
        return onLink;
    }

    Optional<Path> tlsCa() {
        return tlsCa;
    }

    Optional<KeyPair> tlsKeyPair() {
        return tlsKeyPair;
    }

    @Override
    public String toString() {
        return "Config[address=" + address + ", threadId=" + threadId.orElse("none")
                + ", token=" + (token.isPresent() || tokenSource.isPresent() ? "set" : "none") + ", tlsCa=" + tlsCa
                + ", tlsKeyPair=" + tlsKeyPair
                + ", deadline=" + deadline + ", retries=" + retries + "]";
    }

    private void checkTls(Builder builder) {
        if (address.each().stream().anyMatch(each -> each instanceof Address.Tcp tcp && tcp.tls())) {
            return;
        }
        if (credentials.isPresent()) {
            throw new ConfigException("credentials are given, but " + address
                    + " is in plain text; use an https:// address, or give none");
        }
        for (Setting setting : TLS_FILES) {
            if (builder.get(setting).isPresent()) {
                String advice = address instanceof Address.Tcp tcp
                        ? "write https://" + tcp.authority()
                        : "use an https:// address";
                throw new ConfigException(setting.key() + " is set, but " + address + " is in plain text; " + advice
                        + ", or leave " + setting.key() + " (" + setting.variable() + ") out");
            }
        }
    }

    private void checkToken() {
        if (token.isPresent() && !Tokens.isToken(token.get())) {
            throw new ConfigException(
                    "the token has characters that are not allowed: use visible ASCII without spaces");
        }
        for (Address each : address.each()) {
            if (each instanceof Address.Tcp tcp && !tcp.tls() && !tcp.isLoopback()) {
                throw new ConfigException("a token is not sent in plain text to " + tcp + "; write https://"
                        + tcp.authority() + ", or use a loopback address or a Unix socket");
            }
        }
    }

    /** Builds a {@link Config} from arguments. */
    public static final class Builder {
        private final UnaryOperator<String> environment;
        private final Map<Setting, String> arguments = new EnumMap<>(Setting.class);
        private @Nullable Supplier<String> tokenSource;
        private @Nullable ChannelCredentials credentials;
        private final List<ClientInterceptor> interceptors = new ArrayList<>();
        private Consumer<ManagedChannelBuilder<?>> customizer = builder -> {};
        private Consumer<Link> onLink = link -> {};
        private Map<Setting, String> chosen = Map.of();
        private @Nullable Supplier<String> chosenSource;
        private Duration deadline = DEFAULT_DEADLINE;
        private int retries = Integer.MAX_VALUE;

        private Builder(UnaryOperator<String> environment) {
            this.environment = environment;
        }

        /** The address of the coordinator: see {@link Address}. */
        public Builder address(String address) {
            return set(Setting.ADDRESS, address);
        }

        /** The thread of {@link Client#hold()}. */
        public Builder threadId(String threadId) {
            return set(Setting.THREAD_ID, threadId);
        }

        /**
         * The token, sent with every call as {@code authorization: Bearer …}; in plain text only to a loopback address or a Unix
         * socket.
         */
        public Builder token(String token) {
            return set(Setting.TOKEN, token);
        }

        /**
         * A function that returns the token, for a token that is replaced before it expires. It is called for every attempt of a
         * call, and again while a watch or a deadline is open (at least once a minute); the stream then continues with the new
         * token. If it throws, the call ends with {@link UnauthenticatedException}. Any thread may call it, that of the client
         * too: it must return at once, so it should cache a token that it gets from elsewhere. In the environment, {@code
         * PAUSEWATCH_TOKEN_FILE} names a file that is read each time.
         */
        public Builder tokenSource(Supplier<String> source) {
            tokenSource = source;
            return this;
        }

        /**
         * A PEM file of the authorities to trust, instead of those of this Java installation. It is read again for each connection,
         * so that it can be replaced while the program runs; while it is invalid, the last valid contents are used,
         * with a warning.
         */
        public Builder tlsCa(Path ca) {
            return set(Setting.TLS_CA, ca.toString());
        }

        /**
         * PEM files of this client's certificate, followed by its chain, and of its PKCS #8 key without a password, for mutual
         * TLS. They can be replaced as that of {@link #tlsCa}.
         */
        public Builder tlsKeyPair(Path cert, Path key) {
            return set(Setting.TLS_CERT, cert.toString()).set(Setting.TLS_KEY, key.toString());
        }

        /**
         * Credentials of gRPC, only with an https address, instead of files: {@code TlsChannelCredentials.newBuilder()} accepts
         * streams of PEM, and trust and key managers.
         */
        public Builder credentials(ChannelCredentials credentials) {
            this.credentials = credentials;
            return this;
        }

        /** Adds gRPC interceptors around every call and every stream; the one added last is the outermost. */
        public Builder interceptors(ClientInterceptor... interceptors) {
            this.interceptors.addAll(List.of(interceptors));
            return this;
        }

        /**
         * A function that changes the channel's builder before the channel is created. It runs after all settings of this library
         * and overrides them.
         */
        public Builder channel(Consumer<ManagedChannelBuilder<?>> customizer) {
            this.customizer = customizer;
            return this;
        }

        /**
         * A listener that is called when the deadlines of the client are connected, when they are disconnected, and when the
         * disconnect grace has passed since: one change at a time, on a thread of this library, where code may block.
         */
        public Builder onLink(Consumer<Link> onLink) {
            this.onLink = onLink;
            return this;
        }

        /**
         * The deadline of a call, retries included; the server receives it too. A watch has none, except for its first answer.
         */
        public Builder deadline(Duration deadline) {
            this.deadline = deadline;
            return this;
        }

        /** The maximum number of retries of a call. With 0, a call reports at once that no coordinator runs. */
        public Builder retries(int retries) {
            this.retries = retries;
            return this;
        }

        /**
         * Resolves the settings that were not given, and checks that they are consistent.
         *
         * @throws ConfigException they are not; the text says what to do
         */
        public Config build() {
            if (deadline.isZero() || deadline.isNegative()) {
                throw new ConfigException("deadline " + deadline + ": must be above 0");
            }
            if (retries < 0) {
                throw new ConfigException("retries " + retries + ": must be 0 or more");
            }
            Map<Setting, String> variables = new EnumMap<>(Setting.class);
            for (Setting setting : Setting.values()) {
                setting.variables().stream()
                        .map(environment)
                        .filter(value -> value != null && !value.isEmpty())
                        .findFirst()
                        .ifPresent(value -> variables.put(setting, value));
            }
            chosen = over(over(arguments, variables), ConfigFile.load(environment));
            if (credentials != null) {
                if (arguments.keySet().stream().anyMatch(TLS_FILES::contains)) {
                    throw new ConfigException("credentials and TLS files are given; give one of them");
                }
                chosen.keySet().removeAll(TLS_FILES);
            }
            chosenSource = source(variables);
            if (chosenSource != null) {
                chosen.remove(Setting.TOKEN);
            }
            return new Config(this);
        }

        /** The token source of the arguments, else of the environment; null: there is none in either. */
        private @Nullable Supplier<String> source(Map<Setting, String> variables) {
            String file = environment.apply(TOKEN_FILE);
            boolean isFile = file != null && !file.isEmpty() && !hides(arguments, variables);
            if (tokenSource != null
                    ? arguments.containsKey(Setting.TOKEN)
                    : isFile && variables.containsKey(Setting.TOKEN)) {
                throw new ConfigException("a token, and a token source or " + TOKEN_FILE + " are set; set one of them");
            }
            if (tokenSource != null) {
                return tokenSource;
            }
            return isFile && !arguments.containsKey(Setting.TOKEN)
                    ? Tokens.file(ConfigFile.path(TOKEN_FILE, file))
                    : null;
        }

        /**
         * The settings of {@code upper}, completed by those of {@code lower}. Secure settings stay with their address: a
         * plaintext address that overrides settings for TLS (an https address, or files) inherits only the thread from them,
         * because they belong to another coordinator.
         */
        private static Map<Setting, String> over(Map<Setting, String> upper, Map<Setting, String> lower) {
            Map<Setting, String> both = new EnumMap<>(Setting.class);
            both.putAll(lower);
            if (hides(upper, lower)) {
                both.keySet().retainAll(EnumSet.of(Setting.THREAD_ID));
            }
            both.putAll(upper);
            return both;
        }

        private static boolean hides(Map<Setting, String> upper, Map<Setting, String> lower) {
            boolean isPlain = upper.containsKey(Setting.ADDRESS) && !isEncrypted(upper);
            boolean isForTls = isEncrypted(lower)
                    || lower.containsKey(Setting.TLS_CA)
                    || lower.containsKey(Setting.TLS_CERT)
                    || lower.containsKey(Setting.TLS_KEY);
            return isPlain && isForTls;
        }

        private static boolean isEncrypted(Map<Setting, String> settings) {
            return settings.getOrDefault(Setting.ADDRESS, "").startsWith("https://");
        }

        private Builder set(Setting setting, String value) {
            arguments.put(setting, value);
            return this;
        }

        private Optional<String> get(Setting setting) {
            return Optional.ofNullable(chosen.get(setting));
        }

        private Optional<Path> path(Setting setting) {
            return get(setting).map(value -> ConfigFile.path(setting.key(), value));
        }

        private Optional<KeyPair> keyPair() {
            Optional<Path> cert = path(Setting.TLS_CERT);
            Optional<Path> key = path(Setting.TLS_KEY);
            if (cert.isPresent() != key.isPresent()) {
                Setting missing = cert.isPresent() ? Setting.TLS_KEY : Setting.TLS_CERT;
                Setting present = cert.isPresent() ? Setting.TLS_CERT : Setting.TLS_KEY;
                throw new ConfigException(
                        present.key() + " is set without " + missing.key() + "; set " + missing.variable() + " too");
            }
            return cert.map(path -> new KeyPair(path, key.orElseThrow()));
        }
    }
}
