package pausewatch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc/credentials"
)

// tlsFiles is TLS with the certificates in files, which are read again for each connection, so that renewed certificates
// are used.
//
//  1. While the files cannot be used, such as during their replacement, the last usable certificates are used.
//  2. An open connection is not touched.
type tlsFiles struct {
	// The credentials of the first certificates; ClientHandshake uses the current ones.
	credentials.TransportCredentials
	*certificates
}

// certificates are the present contents of the files, shared by all addresses of a client.
type certificates struct {
	// nil: the default logger.
	logger *slog.Logger

	mu sync.Mutex
	// The paths; empty: not given.
	ca, cert, key string
	// The contents of the files from which secure was made.
	text   tlsText
	secure credentials.TransportCredentials
	// The last problem that was logged.
	problem string
}

// tlsText has the contents of the files.
type tlsText struct{ ca, cert, key string }

// newTLSFiles reads the files that are given: the certificate with its key, or neither.
func newTLSFiles(s settings, logger *slog.Logger) (credentials.TransportCredentials, error) {
	c := &certificates{logger: logger, ca: s.TLSCA, cert: s.TLSCert, key: s.TLSKey}
	text, err := c.read()
	if err == nil {
		c.secure, err = c.parse(text)
	}
	if err != nil {
		return nil, err
	}
	c.text = text
	// Absolute paths name the same files even if the program changes its working directory.
	for _, path := range []*string{&c.ca, &c.cert, &c.key} {
		if absolute, err := filepath.Abs(*path); err == nil && *path != "" {
			*path = absolute
		}
	}
	return tlsFiles{c.secure, c}, nil
}

func (f tlsFiles) ClientHandshake(ctx context.Context, authority string, connection net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return f.current().ClientHandshake(ctx, authority, connection)
}

func (f tlsFiles) Clone() credentials.TransportCredentials {
	return tlsFiles{f.TransportCredentials.Clone(), f.certificates}
}

// current returns the credentials of the files as they are now.
func (c *certificates) current() credentials.TransportCredentials {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := c.read()
	if err == nil && text != c.text {
		var next credentials.TransportCredentials
		if next, err = c.parse(text); err == nil {
			c.text, c.secure = text, next
		}
	}
	if err != nil {
		c.warn(err)
	} else {
		c.problem = ""
	}
	return c.secure
}

func (c *certificates) warn(err error) {
	if err.Error() == c.problem {
		return
	}
	c.problem = err.Error()
	logger := c.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("pausewatch: the TLS files cannot be used: connections use the previous ones. Correct the file; the next connection reads it again", "error", err)
}

func (c *certificates) read() (text tlsText, err error) {
	if text.ca, err = contents(c.ca, c.text.ca); err != nil {
		return text, fmt.Errorf("TLS CA: %w", err)
	}
	if text.cert, err = contents(c.cert, c.text.cert); err == nil {
		text.key, err = contents(c.key, c.text.key)
	}
	if err != nil {
		return text, fmt.Errorf("TLS certificate %s with key %s: %w", c.cert, c.key, err)
	}
	return text, nil
}

// contents reads a file. previous is its contents as read before, which are returned for a pipe: it can be read only
// once.
func contents(path, previous string) (string, error) {
	if path == "" {
		return "", nil
	}
	if previous != "" {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return previous, nil
		}
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

func (c *certificates) parse(text tlsText) (credentials.TransportCredentials, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(text.ca)) {
			return nil, fmt.Errorf("TLS CA %s: there is no PEM certificate in it", c.ca)
		}
	}
	if c.cert != "" {
		certificate, err := tls.X509KeyPair([]byte(text.cert), []byte(text.key))
		if err != nil {
			return nil, fmt.Errorf("TLS certificate %s with key %s: %w", c.cert, c.key, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return credentials.NewTLS(config), nil
}
