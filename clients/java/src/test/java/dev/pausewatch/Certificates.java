package dev.pausewatch;

import java.io.IOException;
import java.io.Writer;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Base64;
import java.util.Date;
import org.bouncycastle.asn1.x500.X500Name;
import org.bouncycastle.asn1.x509.BasicConstraints;
import org.bouncycastle.asn1.x509.Extension;
import org.bouncycastle.asn1.x509.GeneralName;
import org.bouncycastle.asn1.x509.GeneralNames;
import org.bouncycastle.cert.X509CertificateHolder;
import org.bouncycastle.cert.jcajce.JcaX509v3CertificateBuilder;
import org.bouncycastle.operator.OperatorException;
import org.bouncycastle.operator.jcajce.JcaContentSignerBuilder;

/** An authority made for one test, and what it signs, as PEM files. */
final class Certificates {
    private static final X500Name AUTHORITY = new X500Name("CN=authority of a test");

    private final Path directory;
    private final KeyPair authority = keyPair("EC");
    private int serial;

    /** A certificate and its key. */
    record Signed(Path cert, Path key) {}

    Certificates(Path directory) {
        this.directory = directory;
    }

    Path authority() throws GeneralSecurityException, IOException, OperatorException {
        return write(
                "authority.pem",
                "CERTIFICATE",
                signed(AUTHORITY, authority, true).getEncoded());
    }

    Signed signed(String name) throws GeneralSecurityException, IOException, OperatorException {
        return signed(name, "EC");
    }

    /** {@code algorithm}: of the key. A real server refuses the EC keys that Java writes: they lack the public part. */
    Signed signed(String name, String algorithm) throws GeneralSecurityException, IOException, OperatorException {
        KeyPair keys = keyPair(algorithm);
        X509CertificateHolder certificate = signed(new X500Name("CN=" + name), keys, false);
        PrivateKey key = keys.getPrivate();
        return new Signed(
                write(name + ".pem", "CERTIFICATE", certificate.getEncoded()),
                write(name + "-key.pem", "PRIVATE KEY", key.getEncoded()));
    }

    private X509CertificateHolder signed(X500Name subject, KeyPair keys, boolean isAuthority)
            throws IOException, OperatorException {
        Instant now = Instant.now();
        JcaX509v3CertificateBuilder builder = new JcaX509v3CertificateBuilder(
                AUTHORITY,
                BigInteger.valueOf(++serial),
                Date.from(now.minus(1, ChronoUnit.HOURS)),
                Date.from(now.plus(1, ChronoUnit.HOURS)),
                subject,
                keys.getPublic());
        builder.addExtension(Extension.basicConstraints, true, new BasicConstraints(isAuthority));
        builder.addExtension(
                Extension.subjectAlternativeName,
                false,
                new GeneralNames(new GeneralName(GeneralName.iPAddress, "127.0.0.1")));
        return builder.build(new JcaContentSignerBuilder("SHA256withECDSA").build(authority.getPrivate()));
    }

    private Path write(String name, String type, byte[] content) throws IOException {
        Path path = directory.resolve(name);
        try (Writer writer = Files.newBufferedWriter(path)) {
            writer.write("-----BEGIN " + type + "-----\n");
            writer.write(Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content));
            writer.write("\n-----END " + type + "-----\n");
        }
        return path;
    }

    private static KeyPair keyPair(String algorithm) {
        try {
            return KeyPairGenerator.getInstance(algorithm).generateKeyPair();
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
