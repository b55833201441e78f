package pausewatch

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
)

// settings are the values that all calls share. Each is resolved separately: an [Option] overrides the environment,
// which overrides the config file; an empty value counts as not set.
//
//  1. A config file that was named must exist; the one at the default path may be missing, or in the home of another user.
//  2. An unknown key is an error with its name and line: a typing error must not silently select the default.
//  3. No error contains the token.
//  4. Secure settings stay with their address: a plaintext address that overrides settings for TLS (an https address,
//     or files) inherits only the thread from them, because they belong to another coordinator.
type settings struct {
	Address  string `toml:"address"`
	ThreadID string `toml:"thread_id"`
	Token    string `toml:"token"`
	// A file with the token. At most one of the three ways to set a token is used.
	TokenFile string      `toml:"-"`
	Tokens    tokenSource `toml:"-"`
	TLSCA     string      `toml:"tls_ca"`
	TLSCert   string      `toml:"tls_cert"`
	TLSKey    string      `toml:"tls_key"`
	// Used instead of the files.
	TLS *tls.Config `toml:"-"`
}

const settingsKeys = "address, thread_id, token, tls_ca, tls_cert or tls_key"

// findSettings completes the settings that options gave.
func findSettings(given settings, configFile string, logger *slog.Logger) (settings, error) {
	file, err := loadSettings(configFile, logger)
	if err != nil {
		return settings{}, err
	}
	return given.or(environment()).or(file).or(settings{Address: DefaultAddress}), nil
}

// environment reads the settings from variables. Without PAUSEWATCH_THREAD_ID, the thread is that of the agent that
// started this program.
func environment() settings {
	return settings{
		Address:   os.Getenv("PAUSEWATCH_ADDRESS"),
		ThreadID:  cmp.Or(os.Getenv("PAUSEWATCH_THREAD_ID"), os.Getenv("CODEX_THREAD_ID"), os.Getenv("CLAUDE_CODE_SESSION_ID")),
		Token:     os.Getenv("PAUSEWATCH_TOKEN"),
		TokenFile: os.Getenv("PAUSEWATCH_TOKEN_FILE"),
		TLSCA:     os.Getenv("PAUSEWATCH_TLS_CA"),
		TLSCert:   os.Getenv("PAUSEWATCH_TLS_CERT"),
		TLSKey:    os.Getenv("PAUSEWATCH_TLS_KEY"),
	}
}

// or completes s with the settings of other.
func (s settings) or(other settings) settings {
	if s.Address != "" && !s.isEncrypted() && other.isForTLS() {
		other = settings{ThreadID: other.ThreadID}
	}
	if s.hasToken() {
		other.Token, other.TokenFile, other.Tokens = "", "", nil
	}
	if s.TLS != nil {
		other.TLSCA, other.TLSCert, other.TLSKey = "", "", ""
	}
	tokens := s.Tokens
	if tokens == nil {
		tokens = other.Tokens
	}
	return settings{
		Address:   cmp.Or(s.Address, other.Address),
		ThreadID:  cmp.Or(s.ThreadID, other.ThreadID),
		Token:     cmp.Or(s.Token, other.Token),
		TokenFile: cmp.Or(s.TokenFile, other.TokenFile),
		Tokens:    tokens,
		TLSCA:     cmp.Or(s.TLSCA, other.TLSCA),
		TLSCert:   cmp.Or(s.TLSCert, other.TLSCert),
		TLSKey:    cmp.Or(s.TLSKey, other.TLSKey),
		TLS:       s.TLS,
	}
}

func (s settings) hasToken() bool { return s.Token != "" || s.TokenFile != "" || s.Tokens != nil }

// tokens returns the token that never changes, or the source of one that may; neither: there is no token.
func (s settings) tokens() (fixed string, source tokenSource, err error) {
	switch {
	case s.Token != "" && (s.TokenFile != "" || s.Tokens != nil) || s.TokenFile != "" && s.Tokens != nil:
		return "", nil, errors.New("more than one of token, PAUSEWATCH_TOKEN_FILE and token source is set: set only one")
	case s.Tokens != nil:
		return "", bounded(s.Tokens), nil
	case s.TokenFile != "":
		return "", bounded(tokenFile(s.TokenFile)), nil
	case s.Token != "":
		return s.Token, nil, checkToken(s.Token)
	}
	return "", nil, nil
}

func (s settings) isEncrypted() bool { return strings.HasPrefix(s.Address, "https://") }

func (s settings) isForTLS() bool {
	return s.isEncrypted() || s.TLSCA != "" || s.TLSCert != "" || s.TLSKey != ""
}

// loadSettings reads the named file, else that of PAUSEWATCH_CONFIG, else the one at the default path.
func loadSettings(named string, logger *slog.Logger) (settings, error) {
	path := named
	if path == "" {
		path = os.Getenv("PAUSEWATCH_CONFIG")
	}
	mustExist := path != ""
	base := defaultConfigDirectory()
	if path == "" && base != "" {
		path = filepath.Join(base, "pausewatch", "config.toml")
	}
	if path == "" {
		return settings{}, nil
	}
	text, err := os.ReadFile(path)
	switch {
	// A HOME of /dev/null is no directory.
	case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !mustExist:
		return settings{}, nil
	case errors.Is(err, fs.ErrPermission) && !mustExist && isOfAnotherUser(base):
		logger.Warn("pausewatch: the config file is ignored, because its directory belongs to another user: correct HOME or XDG_CONFIG_HOME", "error", err, "directory", base)
		return settings{}, nil
	case err != nil:
		return settings{}, fmt.Errorf("config file %s: %w", path, err)
	}
	file, err := parseSettings(text)
	if err != nil {
		return settings{}, fmt.Errorf("config file %s: %w", path, err)
	}
	return file, nil
}

// defaultConfigDirectory has the config files of all programs. Empty: there is none.
func defaultConfigDirectory() string {
	// The XDG base directory specification says to ignore a relative path.
	if config := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(config) {
		return config
	}
	if home := os.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}

func parseSettings(text []byte) (settings, error) {
	// Editors of Windows write a byte order mark, which the program accepts too.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var document struct {
		settings
		// The server's part of the file, which clients ignore.
		Serve any `toml:"serve"`
	}
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&document)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		first := unknown.Errors[0]
		line, _ := first.Position()
		return settings{}, fmt.Errorf("line %d: unknown key %q, expected %s", line, strings.Join(first.Key(), "."), settingsKeys)
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		return settings{}, fmt.Errorf("line %d: %w", line, wrong)
	case err != nil:
		return settings{}, err
	}
	file := document.settings
	if file.Address != "" {
		if _, err := splitAddresses(file.Address); err != nil {
			return settings{}, err
		}
	}
	return file, nil
}
