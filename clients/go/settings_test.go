package pausewatch

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// clean gives the test an environment without settings, and a home without a config file.
func clean(t *testing.T) (home string) {
	t.Helper()
	for _, name := range []string{"ADDRESS", "THREAD_ID", "TOKEN", "TLS_CA", "TLS_CERT", "TLS_KEY", "CONFIG"} {
		t.Setenv("PAUSEWATCH_"+name, "")
	}
	for _, agent := range []string{"CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"} {
		t.Setenv(agent, "")
	}
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	return home
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAConfigFileMayBeginWithAByteOrderMark(t *testing.T) {
	clean(t)
	path := write(t, filepath.Join(t.TempDir(), "config.toml"), "\ufeffthread_id = \"t\"\n")
	if found, err := loadSettings(path, slog.Default()); err != nil || found.ThreadID != "t" {
		t.Errorf("%+v, %v", found, err)
	}
}

// As after su without "-": HOME is that of root.
func TestAConfigFileInTheHomeOfAnotherUserIsIgnoredWithAWarning(t *testing.T) {
	clean(t)
	theirs, own := t.TempDir(), t.TempDir()
	check(t, os.Chmod(theirs, 0o700))
	file := write(t, filepath.Join(own, ".config", "pausewatch", "config.toml"), "thread_id = \"t\"\n")
	check(t, os.Chmod(file, 0))
	if os.Geteuid() == 0 {
		for _, path := range []string{filepath.Dir(own), own, filepath.Join(own, ".config"), filepath.Join(own, ".config", "pausewatch"), file} {
			check(t, os.Chown(path, 65534, 65534))
		}
		check(t, syscall.Setreuid(-1, 65534))
		defer func() { check(t, syscall.Setreuid(-1, 0)) }()
	} else {
		theirs = "/root"
	}
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logged, nil))
	t.Setenv("HOME", theirs)
	if found, err := loadSettings("", logger); err != nil || found.ThreadID != "" || !strings.Contains(logged.String(), "belongs to another user") {
		t.Errorf("%+v, %v, %s", found, err, &logged)
	}
	t.Setenv("HOME", own)
	if _, err := loadSettings("", logger); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("an own file that cannot be read: %v", err)
	}
}

func TestAnErrorInAConfigFileHasItsLine(t *testing.T) {
	for text, why := range map[string]string{
		"thread_id = \"t\"\nadress = \"h:1\"\n": `line 2: unknown key "adress", expected address, thread_id, token`,
		"token = \"secret\"\n[tls]\nca = 7\n":   "line 2: unknown key \"tls\"",
		"thread_id = 7\n":                       "line 1: ",
		"thread_id = \"t\"\n= 7\n":              "line 2: ",
		"address = \"host\"\n":                  `address "host": the port is missing`,
		"token = \"secret\n":                    "line 1: ",
		"token = [\"secret\"]\n":                "line 1: ",
	} {
		_, err := parseSettings([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), why) {
			t.Errorf("%q: %v", text, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the token is in the error: %v", text, err)
		}
	}
}
