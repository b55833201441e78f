package pausewatch

import (
	"strconv"
	"strings"
	"testing"
)

func TestEveryFormOfAnAddressIsRead(t *testing.T) {
	for given, want := range map[string]address{
		"127.0.0.1:7420":             {network: "tcp", target: "127.0.0.1:7420"},
		"localhost:1":                {network: "tcp", target: "localhost:1"},
		"[::1]:7420":                 {network: "tcp", target: "[::1]:7420"},
		"http://example.com:65535":   {network: "tcp", target: "example.com:65535"},
		"http://example.com/":        {network: "tcp", target: "example.com:80"},
		"http://[::1]:7420/":         {network: "tcp", target: "[::1]:7420"},
		"https://example.com":        {network: "tcp", target: "example.com:443", tls: true},
		"https://example.com:7420/":  {network: "tcp", target: "example.com:7420", tls: true},
		"unix:/run/p.sock":           {network: "unix", target: "/run/p.sock"},
		"unix:///run/p.sock":         {network: "unix", target: "/run/p.sock"},
		"unix:p.sock":                {network: "unix", target: "p.sock"},
		"unix:/a path/with:no/sense": {network: "unix", target: "/a path/with:no/sense"},
	} {
		got, err := parseAddress(given)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", given, got, err, want)
		}
	}
}

func TestAnInvalidAddressIsAnErrorWithItsCause(t *testing.T) {
	for given, why := range map[string]string{
		"":                      "the host is missing",
		":7420":                 "the host is missing",
		"localhost":             "the port is missing",
		"[::1]":                 "the port is missing",
		"::1:7420":              "brackets",
		"[host]:7420":           "an IPv6 address without a zone",
		"[::1]x:7420":           "an IPv6 address without a zone",
		"münchen:7420":          "ASCII letters",
		"host:0":                "the port is not a number",
		"host:65536":            "the port is not a number",
		"host:port":             "",
		"host:":                 "the port is not a number",
		"http://":               "the host is missing",
		"http://host:7420/path": "only a host and a port",
		"user@host:7420":        "only a host and a port",
		"ftp://host:21":         `"ftp" is unknown`,
		"ho st:7420":            "",
		"host:7420\n":           "",
		"unix:":                 "the path is missing",
		"unix://host/p.sock":    "absolute path",
		"unix:/a\x00b":          "must not contain a NUL",
	} {
		_, err := parseAddress(given)
		if err == nil {
			t.Errorf("%q is taken", given)
			continue
		}
		if !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), strconv.Quote(given)) {
			t.Errorf("%q: %v", given, err)
		}
	}
}

func TestOnlyThisMachineIsLoopback(t *testing.T) {
	for given, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "unix:/p": true,
		"10.0.0.1:1": false, "[::]:1": false, "[::ffff:127.0.0.1]:1": false, "0.0.0.0:1": false, "example.com:1": false, "localhost.example.com:1": false,
	} {
		address, err := parseAddress(given)
		if err != nil || address.loopback() != want {
			t.Errorf("%s: %v, %v", given, address.loopback(), err)
		}
	}
}
