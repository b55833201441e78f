package pausewatch

import (
	"os"
	"path/filepath"
	"strings"
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

func TestAnOptionGoesBeforeTheEnvironmentBeforeTheFile(t *testing.T) {
	home := clean(t)
	write(t, filepath.Join(home, ".config/pausewatch/config.toml"), "address = \"file:1\"\nthread_id = \"file\"\ntoken = \"file\"\n")
	t.Setenv("PAUSEWATCH_ADDRESS", "environment:1")
	t.Setenv("PAUSEWATCH_THREAD_ID", "environment")
	t.Setenv("PAUSEWATCH_TLS_CA", "") // Empty is not set.
	got, err := findSettings(settings{Address: "option:1"}, "")
	want := settings{Address: "option:1", ThreadID: "environment", Token: "file"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestTheThreadIsItsOwnVariableThenCodexThenClaudeThenTheFile(t *testing.T) {
	home := clean(t)
	write(t, filepath.Join(home, ".config/pausewatch/config.toml"), "thread_id = \"file\"\n")
	names := []string{"PAUSEWATCH_THREAD_ID", "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"}
	for _, name := range names {
		t.Setenv(name, "of "+name)
	}
	check := func(given, want string) {
		t.Helper()
		if got, err := findSettings(settings{ThreadID: given}, ""); err != nil || got.ThreadID != want {
			t.Errorf("got %q, %v; want %q", got.ThreadID, err, want)
		}
	}
	check("option", "option")
	for _, name := range names {
		check("", "of "+name)
		t.Setenv(name, "") // Empty is not set.
	}
	check("", "file")
}

func TestAnAddressInPlainTextHasNothingOfWhatIsForTLS(t *testing.T) {
	rest := "thread_id = \"t\"\ntoken = \"fleet\"\n"
	for _, forTLS := range []string{"address = \"https://fleet:1\"\n", "tls_ca = \"/ca\"\n"} {
		file := write(t, filepath.Join(clean(t), "fleet.toml"), rest+forTLS)
		got, err := findSettings(settings{Address: "127.0.0.1:1"}, file)
		if want := (settings{Address: "127.0.0.1:1", ThreadID: "t"}); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", forTLS, got, err, want)
		}
		t.Setenv("PAUSEWATCH_ADDRESS", "unix:/p.sock")
		t.Setenv("PAUSEWATCH_TOKEN", "ours")
		got, err = findSettings(settings{}, file)
		if want := (settings{Address: "unix:/p.sock", ThreadID: "t", Token: "ours"}); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", forTLS, got, err, want)
		}
	}
	file := write(t, filepath.Join(clean(t), "fleet.toml"), rest+"tls_ca = \"/ca\"\n")
	got, err := findSettings(settings{Address: "https://other:1"}, file)
	want := settings{Address: "https://other:1", ThreadID: "t", Token: "fleet", TLSCA: "/ca"}
	if err != nil || got != want {
		t.Errorf("over TLS: got %+v, %v; want %+v", got, err, want)
	}
}

func TestWithNothingGivenTheAddressIsTheDefault(t *testing.T) {
	clean(t)
	if got, err := findSettings(settings{}, ""); err != nil || got != (settings{Address: DefaultAddress}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTheConfigFileIsLookedForInItsPlaces(t *testing.T) {
	home := clean(t)
	write(t, filepath.Join(home, ".config/pausewatch/config.toml"), `thread_id = "home"`)
	xdg := filepath.Join(home, "xdg")
	write(t, filepath.Join(xdg, "pausewatch/config.toml"), `thread_id = "xdg"`)
	variable := write(t, filepath.Join(home, "variable.toml"), `thread_id = "variable"`)
	named := write(t, filepath.Join(home, "named.toml"), `thread_id = "named"`)
	look := func(named, want string) {
		t.Helper()
		if got, err := loadSettings(named); err != nil || got.ThreadID != want {
			t.Errorf("got %q, %v; want %q", got.ThreadID, err, want)
		}
	}
	look("", "home")
	t.Setenv("XDG_CONFIG_HOME", "relative")
	look("", "home")
	t.Setenv("XDG_CONFIG_HOME", xdg)
	look("", "xdg")
	t.Setenv("PAUSEWATCH_CONFIG", variable)
	look("", "variable")
	look(named, "named")
}

func TestANamedConfigFileMustBeThere(t *testing.T) {
	home := clean(t)
	if _, err := loadSettings(""); err != nil {
		t.Errorf("the usual one may be missing: %v", err)
	}
	t.Setenv("PAUSEWATCH_CONFIG", filepath.Join(home, "missing.toml"))
	if _, err := loadSettings(""); err == nil || !strings.Contains(err.Error(), "missing.toml") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsEmptyInAConfigFileIsNotSet(t *testing.T) {
	got, err := parseSettings([]byte("address = \"\"\nthread_id = \"\"\ntoken = \"\"\n"))
	if err != nil || got != (settings{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestThePartOfTheServerIsPassedOver(t *testing.T) {
	got, err := parseSettings([]byte("thread_id = \"t\"\n[serve]\nlisten = [7]\n"))
	if err != nil || got.ThreadID != "t" {
		t.Errorf("got %q, %v", got.ThreadID, err)
	}
}

func TestWhatIsWrongInAConfigFileIsNamedWithItsLine(t *testing.T) {
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
