package pausewatch

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// DefaultAddress is where a coordinator listens unless told otherwise.
const DefaultAddress = "127.0.0.1:7420"

// address is where a coordinator listens: `host:port` (an IPv6 host in brackets), `http://host[:port]`,
// `https://host[:port]`, `unix:PATH` or `unix:///PATH`.
type address struct {
	// "tcp" or "unix".
	network string
	// host:port, or the path of the socket. A relative path is taken from the working directory at each connect.
	target string
	tls    bool
}

func parseAddress(text string) (address, error) {
	malformed := func(problem string) error {
		return fmt.Errorf("address %q: %s; write host:port, http://host:port, https://host:port or unix:PATH", text, problem)
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		// unix:///PATH has an empty host, as file:///PATH has; unix://HOST/PATH would mean another machine.
		if absolute, ok := strings.CutPrefix(path, "//"); ok {
			if !strings.HasPrefix(absolute, "/") {
				return address{}, malformed("unix:// must be followed by an absolute path")
			}
			path = absolute
		}
		switch {
		case path == "":
			return address{}, malformed("the path is missing")
		case strings.ContainsRune(path, 0):
			return address{}, malformed("a path has no NUL")
		}
		return address{network: "unix", target: path}, nil
	}
	scheme, bare, ok := strings.Cut(text, "://")
	defaultPort := ""
	switch {
	case !ok:
		bare = text
	case scheme == "http":
		bare, defaultPort = strings.TrimSuffix(bare, "/"), "80"
	case scheme == "https":
		bare, defaultPort = strings.TrimSuffix(bare, "/"), "443"
	default:
		return address{}, malformed(fmt.Sprintf("the scheme %q is unknown", scheme))
	}
	if bare == "" {
		return address{}, malformed("the host is missing")
	}
	if strings.ContainsAny(bare, "/?#@") {
		return address{}, malformed("there is more in it than a host and a port")
	}
	parsed, err := url.Parse("//" + bare)
	if err != nil {
		return address{}, malformed(problemOf(err))
	}
	host, port := parsed.Hostname(), parsed.Port()
	switch {
	case host == "":
		return address{}, malformed("the host is missing")
	case strings.Contains(host, ":") && !strings.HasPrefix(bare, "["):
		return address{}, malformed("an IPv6 host is written in brackets")
	case strings.HasPrefix(bare, "[") && net.ParseIP(strings.SplitN(host, "%", 2)[0]) == nil:
		return address{}, malformed("in the brackets is no IPv6 address")
	case port == "" && strings.HasSuffix(parsed.Host, ":"):
		return address{}, malformed("the port is no number from 1 to 65535")
	case port == "" && defaultPort == "":
		return address{}, fmt.Errorf("address %q: the port is missing; write host:port, for example %s", text, DefaultAddress)
	case port == "":
		port = defaultPort
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return address{}, malformed("the port is no number from 1 to 65535")
	}
	return address{network: "tcp", target: net.JoinHostPort(host, port), tls: scheme == "https"}, nil
}

// problemOf is what url.Parse found, without the text that it parsed, which is quoted anyway.
func problemOf(err error) string {
	if parse, ok := err.(*url.Error); ok {
		return parse.Err.Error()
	}
	return err.Error()
}

// loopback says whether what is sent there stays on this machine.
func (a address) loopback() bool {
	if a.network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(a.target)
	if err != nil {
		return false
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
