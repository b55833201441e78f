package dev.pausewatch;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import io.grpc.util.AdvancedTlsX509KeyManager;
import java.net.Socket;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.Optional;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.X509ExtendedTrustManager;

/**
 * TLS with the files of a {@link Config}, which are read again for each handshake, so that certificates can be renewed
 * while this program runs. In a handshake, the server is verified first: the files are read then, and the key manager
 * uses the same contents. Java's own trust manager verifies everything, including host names.
 */
final class Tls extends X509ExtendedTrustManager {
    private static final System.Logger LOG = System.getLogger(Tls.class.getName());

    private final TlsFiles files;
    private final AdvancedTlsX509KeyManager keys = new AdvancedTlsX509KeyManager();
    private TlsFiles.Contents good;
    private X509ExtendedTrustManager trust;
    /** The problem at the last handshake; empty: there was none. */
    private String problem = "";

    private Tls(TlsFiles files) {
        this.files = files;
        good = files.read(Optional.empty());
        trust = good.trust();
        good.identity().ifPresent(this::show);
    }

    /** @throws ConfigException a file cannot be read or used */
    static ChannelCredentials credentials(Config config) {
        Tls tls = new Tls(new TlsFiles(config.tlsCa(), config.tlsKeyPair()));
        TlsChannelCredentials.Builder builder =
                TlsChannelCredentials.newBuilder().trustManager(tls);
        config.tlsKeyPair().ifPresent(pair -> builder.keyManager(tls.keys));
        return builder.build();
    }

    /** The trust manager of the present files; if one of them is invalid, that of the last valid files. */
    private synchronized X509ExtendedTrustManager renewed() {
        try {
            TlsFiles.Contents now = files.read(Optional.of(good));
            if (!now.equals(good)) {
                X509ExtendedTrustManager renewed = now.trust();
                now.identity().ifPresent(this::show);
                trust = renewed;
                good = now;
            }
            problem = "";
        } catch (ConfigException wrong) {
            String now = wrong.getMessage() + " (" + wrong.getCause() + ")";
            if (!now.equals(problem)) {
                problem = now;
                LOG.log(
                        System.Logger.Level.WARNING,
                        now + "; still using the last good certificates. Fix the file: it is read for each connection");
            }
        }
        return trust;
    }

    private void show(TlsFiles.Identity identity) {
        keys.updateIdentityCredentials(identity.chain(), identity.key());
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) throws CertificateException {
        renewed().checkServerTrusted(chain, type, engine);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) throws CertificateException {
        renewed().checkServerTrusted(chain, type, socket);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
        renewed().checkServerTrusted(chain, type);
    }

    @Override
    public synchronized X509Certificate[] getAcceptedIssuers() {
        return trust.getAcceptedIssuers();
    }

    /** This is a client. */
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) {
        throw new UnsupportedOperationException();
    }

    /** This is a client. */
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) {
        throw new UnsupportedOperationException();
    }

    /** This is a client. */
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) {
        throw new UnsupportedOperationException();
    }
}
