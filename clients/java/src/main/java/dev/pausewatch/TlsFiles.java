package dev.pausewatch;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;
import org.jspecify.annotations.Nullable;

/**
 * PEM files (RFC 7468).
 *
 * @param ca the authorities to trust; empty: those of this Java installation
 * @param pair the certificate of this client and its key
 */
record TlsFiles(Optional<Path> ca, Optional<Config.KeyPair> pair) {
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");

    /** A certificate, followed by its chain, and its key. */
    record Identity(X509Certificate[] chain, PrivateKey key) {}

    /**
     * What the files contain now. A pipe can be read only once: for it, the contents of {@code before} are used.
     *
     * @throws ConfigException a file cannot be read
     */
    Contents read(Optional<Contents> before) {
        return new Contents(
                this,
                ca.map(path -> text(Setting.TLS_CA, path, before.flatMap(Contents::ca))),
                pair.map(own -> text(Setting.TLS_CERT, own.cert(), before.flatMap(Contents::cert))),
                pair.map(own -> text(Setting.TLS_KEY, own.key(), before.flatMap(Contents::key))));
    }

    private static String text(Setting setting, Path path, Optional<String> before) {
        if (before.isPresent() && Files.exists(path) && !Files.isRegularFile(path)) {
            return before.get();
        }
        try {
            // Every byte is valid in this encoding; a file that is not PEM is detected later.
            return Files.readString(path, StandardCharsets.ISO_8859_1);
        } catch (IOException unreadable) {
            throw new ConfigException(setting.key() + " " + path + ": cannot be read", unreadable);
        }
    }

    /** What the files contained when they were read. */
    record Contents(TlsFiles files, Optional<String> ca, Optional<String> cert, Optional<String> key) {
        /** @throws ConfigException there is no certificate among the authorities */
        X509ExtendedTrustManager trust() {
            try {
                TrustManagerFactory factory =
                        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                factory.init(ca.isPresent() ? authorities(ca.get()) : null);
                for (TrustManager each : factory.getTrustManagers()) {
                    if (each instanceof X509ExtendedTrustManager trust) {
                        return trust;
                    }
                }
                throw new GeneralSecurityException("this Java has no trust manager for X.509");
            } catch (GeneralSecurityException | IOException wrong) {
                String named = files.ca.map(path -> " " + path).orElse("");
                throw new ConfigException(Setting.TLS_CA.key() + named + ": no certificate in PEM", wrong);
            }
        }

        /** @throws ConfigException the certificate or the key is damaged, or they do not belong together */
        Optional<Identity> identity() {
            return files.pair.map(own -> {
                try {
                    X509Certificate[] chain = CertificateFactory.getInstance("X.509")
                            .generateCertificates(stream(cert.orElseThrow()))
                            .toArray(X509Certificate[]::new);
                    PrivateKey parsed = privateKey(key.orElseThrow());
                    if (chain.length == 0 || !isOf(parsed, chain[0])) {
                        throw new GeneralSecurityException("the key does not belong to the certificate");
                    }
                    return new Identity(chain, parsed);
                } catch (GeneralSecurityException | IllegalArgumentException wrong) {
                    throw new ConfigException(
                            "tls_cert " + own.cert() + " and tls_key " + own.key()
                                    + " cannot be used; they must be PEM, the key PKCS #8 and without a password",
                            wrong);
                }
            });
        }

        private static KeyStore authorities(String pem) throws GeneralSecurityException, IOException {
            KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
            trusted.load(null, null);
            for (Certificate authority : CertificateFactory.getInstance("X.509").generateCertificates(stream(pem))) {
                trusted.setCertificateEntry(Integer.toString(trusted.size()), authority);
            }
            if (trusted.size() == 0) {
                throw new GeneralSecurityException("there is none");
            }
            return trusted;
        }

        private static PrivateKey privateKey(String pem) throws GeneralSecurityException {
            Matcher found = KEY.matcher(pem);
            if (!found.find()) {
                throw new GeneralSecurityException("there is no PEM of a private key");
            }
            PKCS8EncodedKeySpec encoded =
                    new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(found.group(1)));
            @Nullable InvalidKeySpecException wrong = null;
            for (String algorithm : new String[] {"EC", "RSA", "EdDSA"}) {
                try {
                    return KeyFactory.getInstance(algorithm).generatePrivate(encoded);
                } catch (InvalidKeySpecException another) {
                    wrong = another;
                }
            }
            throw new GeneralSecurityException("the key is of no known algorithm", wrong);
        }

        private static boolean isOf(PrivateKey key, X509Certificate certificate) throws GeneralSecurityException {
            Signature signature = Signature.getInstance(
                    switch (key.getAlgorithm()) {
                        case "EC" -> "SHA256withECDSA";
                        case "RSA" -> "SHA256withRSA";
                        default -> "EdDSA";
                    });
            signature.initSign(key);
            byte[] signed = signature.sign();
            signature.initVerify(certificate.getPublicKey());
            return signature.verify(signed);
        }

        private static InputStream stream(String pem) {
            return new ByteArrayInputStream(pem.getBytes(StandardCharsets.ISO_8859_1));
        }
    }
}
