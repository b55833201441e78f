package dev.pausewatch;

import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The address of a coordinator, as one string: {@code host:port}, {@code http://host[:port]}, {@code
 * https://host[:port]}, {@code unix:PATH} (also {@code unix:///PATH}). A host is a name of ASCII letters, digits,
 * {@code -}, {@code _} and {@code .}, an IPv4 address, or an IPv6 address in brackets and without a zone. The addresses
 * of several replicas are separated by commas. An address that is printed and parsed again is equal.
 */
public sealed interface Address {
    /** The default: {@code 127.0.0.1:7420}. */
    Address DEFAULT = new Tcp("127.0.0.1", 7420, false);

    /**
     * A TCP address.
     *
     * @param host a name or an IP address; an IPv6 one in brackets
     * @param port 1 to 65535
     * @param tls whether to speak TLS; otherwise plain text
     */
    record Tcp(String host, int port, boolean tls) implements Address {
        @Override
        public String toString() {
            return (tls ? "https://" : "") + authority();
        }

        String authority() {
            return host + ":" + port;
        }

        /** Decided by the text alone, without a resolver: what another name resolves to may change. */
        boolean isLoopback() {
            return host.equalsIgnoreCase("localhost")
                    || host.equals("[::1]")
                    || host.matches("127(\\.(25[0-5]|2[0-4]\\d|1?\\d?\\d)){3}");
        }
    }

    /**
     * A Unix socket.
     *
     * @param path a relative path starts at the working directory
     */
    record Unix(Path path) implements Address {
        @Override
        public String toString() {
            return "unix:" + path;
        }
    }

    /**
     * The addresses of the replicas of one coordinator.
     *
     * @param each 2 to 16 different addresses, all with TLS or all without
     */
    record Replicas(List<Tcp> each) implements Address {
        private static final int MOST = 16;

        /** @throws ConfigException there are too few or too many addresses, one is repeated, or only some have TLS */
        public Replicas {
            each = List.copyOf(each);
            String text = text(each);
            if (each.size() < 2 || each.size() > MOST) {
                throw malformed(text, "a list has 2 to " + MOST + " addresses, not " + each.size());
            }
            if (Set.copyOf(each).size() < each.size()) {
                throw malformed(text, "an address is named twice");
            }
            if (each.stream().map(Tcp::tls).distinct().count() > 1) {
                throw malformed(text, "either all addresses of a list begin with https://, or none");
            }
        }

        @Override
        public String toString() {
            return text(each);
        }

        private static String text(List<Tcp> each) {
            return each.stream().map(Tcp::toString).collect(Collectors.joining(","));
        }
    }

    /** The address of each replica; this address itself if there is only one. */
    default List<? extends Address> each() {
        return List.of(this);
    }

    /**
     * Reads an address.
     *
     * @throws ConfigException the text is not a valid address; the message says why, and how to write one
     */
    static Address parse(String text) {
        if (text.startsWith("unix:")) {
            return parseUnix(text, text.substring("unix:".length()));
        }
        return text.indexOf(',') < 0 ? parseOne(text) : parseList(text);
    }

    private static Address parseList(String text) {
        List<Tcp> each = new ArrayList<>();
        for (String entry : text.split(",", -1)) {
            if (entry.isEmpty()) {
                throw malformed(text, "an entry of the list is empty");
            }
            if (entry.startsWith("unix:")) {
                throw malformed(text, "a list has no unix: address");
            }
            each.add(parseOne(entry));
        }
        return new Replicas(each);
    }

    private static Tcp parseOne(String text) {
        int end = text.indexOf("://");
        if (end < 0) {
            return parseTcp(text, text, 0, false);
        }
        String rest = text.substring(end + 3);
        String bare = rest.endsWith("/") ? rest.substring(0, rest.length() - 1) : rest;
        return switch (text.substring(0, end)) {
            case "http" -> parseTcp(text, bare, 80, false);
            case "https" -> parseTcp(text, bare, 443, true);
            default -> throw malformed(text, "the scheme \"" + text.substring(0, end) + "\" is unknown");
        };
    }

    private static Address parseUnix(String text, String path) {
        // unix:///PATH has an empty host, like file:///PATH; unix://HOST/PATH would mean another machine.
        if (path.startsWith("//")) {
            path = path.substring(2);
            if (!path.startsWith("/")) {
                throw malformed(text, "unix:// must be followed by an absolute path");
            }
        }
        if (path.isEmpty()) {
            throw malformed(text, "the path is missing");
        }
        try {
            return new Unix(Path.of(path));
        } catch (InvalidPathException invalid) {
            throw malformed(text, path.indexOf('\0') < 0 ? invalid.getReason() : "a path has no NUL");
        }
    }

    private static Tcp parseTcp(String text, String bare, int defaultPort, boolean tls) {
        if (bare.isEmpty()) {
            throw malformed(text, "the host is missing");
        }
        if (bare.matches(".*[/?#@].*")) {
            throw malformed(text, "there is more in it than a host and a port");
        }
        int colon = bare.indexOf(':', Math.max(0, bare.lastIndexOf(']')));
        String host = colon < 0 ? bare : bare.substring(0, colon);
        if (host.isEmpty()) {
            throw malformed(text, "the host is missing");
        }
        checkHost(text, host);
        if (colon >= 0) {
            return new Tcp(host, parsePort(text, bare.substring(colon + 1)), tls);
        }
        if (defaultPort == 0) {
            throw new ConfigException(
                    "address \"" + text + "\": the port is missing; write host:port, for example " + DEFAULT);
        }
        return new Tcp(host, defaultPort, tls);
    }

    private static void checkHost(String text, String host) {
        if (host.startsWith("[")) {
            if (!isIpv6(host)) {
                throw malformed(text, "in the brackets is no IPv6 address, or one with a zone");
            }
        } else if (!host.matches("[A-Za-z0-9._-]+")) {
            throw malformed(text, "a host is a name of ASCII letters, digits, - _ and ., or an IP address");
        }
    }

    /** Does not use a resolver. */
    private static boolean isIpv6(String host) {
        try {
            return host.matches("\\[[0-9A-Fa-f:.]+]") && new URI("http://" + host + "/").getHost() != null;
        } catch (URISyntaxException invalid) {
            return false;
        }
    }

    /** There is one way to write each number. */
    private static int parsePort(String text, String port) {
        int number = port.matches("[1-9][0-9]{0,4}") ? Integer.parseInt(port) : 0;
        if (number < 1 || number > 65_535) {
            throw malformed(text, "the port is not a number from 1 to 65535");
        }
        return number;
    }

    private static ConfigException malformed(String text, String problem) {
        return new ConfigException("address \"" + text + "\": " + problem
                + "; write host:port, http://host:port, https://host:port or unix:PATH");
    }
}
