package pausewatch

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultAddress is the address where a coordinator listens by default.
const DefaultAddress = "127.0.0.1:7420"

// address is a coordinator's address: `host:port`, `http://host[:port]`, `https://host[:port]`, `unix:PATH` or
// `unix:///PATH`. All clients and the server accept exactly the same forms.
type address struct {
	// "tcp" or "unix".
	network string
	// host:port, or the path of the socket. A relative path is resolved against the working directory at each connect.
	target string
	tls    bool
}

// maxAddresses is far above any useful number of replicas.
const maxAddresses = 16

// splitAddresses returns the address of each replica, as written: one, or 2 to 16 separated by commas. All must
// differ, and all or none must use TLS. A text that begins with unix: is a single address, because a path may contain
// commas.
func splitAddresses(text string) ([]string, error) {
	entries := []string{text}
	if !strings.HasPrefix(text, "unix:") {
		entries = strings.Split(text, ",")
	}
	if len(entries) == 1 {
		_, err := parseAddress(text)
		return entries, err
	}
	malformed := func(format string, arguments ...any) ([]string, error) {
		return nil, fmt.Errorf("address %q: "+format, append([]any{text}, arguments...)...)
	}
	if len(entries) > maxAddresses {
		return malformed("it has %d addresses; allowed: up to %d", len(entries), maxAddresses)
	}
	known := make(map[address]bool, len(entries))
	for _, entry := range entries {
		if entry == "" {
			return malformed("an entry of the list is empty; write HOST:PORT,HOST:PORT")
		}
		if strings.HasPrefix(entry, "unix:") {
			return malformed("a list has no unix: address")
		}
		parsed, err := parseAddress(entry)
		switch {
		case err != nil:
			return malformed("entry %w", err)
		case known[parsed]:
			return malformed("%s is named twice", entry)
		}
		known[parsed] = true
	}
	encrypted := 0
	for parsed := range known {
		if parsed.tls {
			encrypted++
		}
	}
	if encrypted != 0 && encrypted != len(known) {
		return malformed("either all addresses of a list begin with https://, or none")
	}
	return entries, nil
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
			return address{}, malformed("the path must not contain a NUL")
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
		return address{}, malformed("only a host and a port are allowed")
	}
	host, port, hasPort := cutPort(bare)
	if problem := hostProblem(host); problem != "" {
		return address{}, malformed(problem)
	}
	if !hasPort {
		if defaultPort == "" {
			return address{}, fmt.Errorf("address %q: the port is missing; write host:port, for example %s", text, DefaultAddress)
		}
		port = defaultPort
	}
	if !isPort(port) {
		return address{}, malformed("the port is not a number from 1 to 65535")
	}
	return address{network: "tcp", target: net.JoinHostPort(strings.Trim(host, "[]"), port), tls: scheme == "https"}, nil
}

// cutPort cuts at the last colon, unless that is in brackets.
func cutPort(bare string) (host, port string, found bool) {
	colon := strings.LastIndexByte(bare, ':')
	if colon <= strings.LastIndexByte(bare, ']') {
		return bare, "", false
	}
	return bare[:colon], bare[colon+1:], true
}

// hostProblem returns what is wrong with a host; empty if every client and the server accept it.
func hostProblem(host string) string {
	inner, bracketed := strings.CutPrefix(host, "[")
	switch {
	case host == "":
		return "the host is missing"
	case bracketed && !isIPv6(strings.CutSuffix(inner, "]")):
		return "the brackets must contain an IPv6 address without a zone"
	case bracketed:
		return ""
	case strings.Contains(host, ":"):
		return "an IPv6 host is written in brackets"
	case strings.ContainsFunc(host, func(c rune) bool { return !isNameCharacter(c) }):
		return "a host is a name of ASCII letters, digits, - _ and ., or an IP address"
	default:
		return ""
	}
}

func isIPv6(text string, closed bool) bool {
	ip, err := netip.ParseAddr(text)
	return closed && err == nil && ip.Is6() && ip.Zone() == ""
}

func isNameCharacter(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.", c)
}

// isPort accepts exactly one spelling of each number from 1 to 65535.
func isPort(text string) bool {
	number, err := strconv.ParseUint(text, 10, 16)
	return err == nil && number > 0 && strconv.FormatUint(number, 10) == text
}

// loopback reports whether data sent to this address stays on this machine.
func (a address) loopback() bool {
	if a.network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(a.target)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	// No client treats an IPv4-mapped IPv6 address as loopback.
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback() && !ip.Is4In6()
}
