package pausewatch

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"pausewatch.dev/clients/go/internal/vectors"
)

func ms(milliseconds int64) time.Duration { return time.Duration(milliseconds) * time.Millisecond }

// An option that is empty is not given, so "" is tried on what reads addresses and tokens.
func TestVectorsOfAddressesAndTokens(t *testing.T) {
	file := vectors.Read[struct {
		About            string
		AddressesTaken   []string `json:"addresses_taken"`
		AddressesRefused []string `json:"addresses_refused"`
		TokensTaken      []string `json:"tokens_taken"`
		TokensRefused    []string `json:"tokens_refused"`
	}](t, "../vectors/addresses.json")
	addresses := func(given []string, taken bool) {
		for _, address := range given {
			if _, err := splitAddresses(address); (err == nil) != taken {
				t.Errorf("address %q: %v", address, err)
			}
		}
	}
	tokens := func(given []string, taken bool) {
		for _, token := range given {
			err := checkToken(token)
			if (err == nil) != taken {
				t.Errorf("token %q: %v", token, err)
			}
			if err != nil && token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("the token is in the error: %v", err)
			}
		}
	}
	addresses(file.AddressesTaken, true)
	addresses(file.AddressesRefused, false)
	tokens(file.TokensTaken, true)
	tokens(file.TokensRefused, false)
	if min(len(file.AddressesTaken), len(file.AddressesRefused), len(file.TokensTaken), len(file.TokensRefused)) == 0 {
		t.Error("no cases")
	}
}

func TestVectorsOfSettings(t *testing.T) {
	// The keys are those of the config file.
	type given struct {
		Address  *string `json:"address"`
		ThreadID *string `json:"thread_id"`
		Token    *string `json:"token"`
		TLSCA    *string `json:"tls_ca"`
	}
	file := vectors.Read[struct {
		About string
		Cases []struct {
			Name        string
			Files       map[string]string
			Environment map[string]string
			ConfigFile  string `json:"config_file"`
			Options     given
			Expect      map[string]*string
			Error       []string
		}
	}](t, "../vectors/settings.json")
	set := func(value *string) string {
		if value == nil {
			return ""
		}
		return *value
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			clean(t)
			t.Setenv("HOME", "")
			dir := t.TempDir()
			for name, text := range c.Files {
				write(t, filepath.Join(dir, name), text)
			}
			for name, value := range c.Environment {
				t.Setenv(name, strings.ReplaceAll(value, "$DIR", dir))
			}
			if c.ConfigFile != "" {
				c.ConfigFile = filepath.Join(dir, c.ConfigFile)
			}
			o := c.Options
			named := settings{Address: set(o.Address), ThreadID: set(o.ThreadID), Token: set(o.Token), TLSCA: set(o.TLSCA)}
			got, err := findSettings(named, c.ConfigFile, slog.Default())
			found := map[string]string{"address": got.Address, "thread_id": got.ThreadID, "token": got.Token, "tls_ca": got.TLSCA}
			if len(c.Error) > 0 {
				if err == nil {
					_, err = NewClient(func(all *options) { all.settings, all.configFile = named, c.ConfigFile })
				}
				isRefused(t, err, c.Error)
				return
			}
			if err != nil || len(c.Expect) == 0 {
				t.Fatalf("%v, %d expected", err, len(c.Expect))
			}
			for key, want := range c.Expect {
				if value, known := found[key]; !known || value != set(want) {
					t.Errorf("%s: got %q, want %q", key, value, set(want))
				}
			}
		})
	}
	if len(file.Cases) == 0 {
		t.Error("no cases")
	}
}

// isRefused checks the text of an error.
func isRefused(t *testing.T, err error, parts []string) {
	t.Helper()
	if err == nil {
		t.Fatal("taken")
	}
	text := strings.ToLower(err.Error())
	for _, part := range parts {
		if !strings.Contains(text, strings.ToLower(part)) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("the token is in the error: %s", text)
	}
}

func codeOf(t *testing.T, name string) (code codes.Code) {
	t.Helper()
	quoted, err := json.Marshal(name)
	check(t, err)
	check(t, code.UnmarshalJSON(quoted))
	return code
}

func TestVectorsOfRetries(t *testing.T) {
	file := vectors.Read[struct {
		About string
		Cases []struct {
			Name         string
			Code         string
			Reason       string
			Limit        *string
			RetryAfterMs *int64 `json:"retry_after_ms"`
			Repeated     bool
			PausesMs     [][2]int64 `json:"pauses_ms"`
		}
	}](t, "../vectors/retries.json")
	for _, c := range file.Cases {
		var details []protoadapt.MessageV1
		if c.Reason != "" {
			info := &errdetails.ErrorInfo{Reason: c.Reason, Domain: domain, Metadata: map[string]string{}}
			if c.Limit != nil {
				info.Metadata["limit"] = *c.Limit
			}
			details = append(details, info)
		}
		if c.RetryAfterMs != nil {
			details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(ms(*c.RetryAfterMs))})
		}
		refusal, err := status.New(codeOf(t, c.Code), "in words").WithDetails(details...)
		check(t, err)
		t.Run(c.Name, func(t *testing.T) {
			withFake(t, func(t *testing.T, f *fake, client *Client) {
				var sent []time.Time
				f.misbehave(func(string, any) error {
					if sent = append(sent, time.Now()); len(sent) > len(c.PausesMs) && c.Repeated {
						return nil
					}
					return refusal.Err()
				})
				_, err := client.WithCallTimeout(time.Hour).GetPauseState(ctx, "t")
				if (err == nil) != c.Repeated || len(sent) != len(c.PausesMs)+1 {
					t.Fatalf("%d attempts: %v", len(sent), err)
				}
				for i, want := range c.PausesMs {
					if pause := sent[i+1].Sub(sent[i]); pause < ms(want[0]) || pause > ms(want[1]) {
						t.Errorf("pause %d is %v, want %v ms", i+1, pause, want)
					}
				}
			})
		})
	}
	if len(file.Cases) == 0 {
		t.Error("no cases")
	}
}

func TestVectorsOfRenewal(t *testing.T) {
	file := vectors.Read[struct {
		About string
		Cases []struct {
			Name  string
			TTLMs int64 `json:"ttl_ms"`
			Steps []struct {
				AtMs   int64 `json:"at_ms"`
				Answer string
				Expect struct {
					Sent  *int64
					Lease string
				}
			}
		}
	}](t, "../vectors/renewal.json")
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, ttl := time.Now(), ms(c.TTLMs)
				ctx, cancel := context.WithCancel(t.Context())
				status := newLeaseStatus(ttl)
				var sent atomic.Int64
				answers := make(chan error)
				go renewLease(ctx, status, ttl, start, func() error {
					sent.Add(1)
					select {
					case err := <-answers:
						return err
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				for i, step := range c.Steps {
					time.Sleep(time.Until(start.Add(ms(step.AtMs))))
					synctest.Wait()
					if step.Answer != "" {
						select {
						case answers <- answerOf(t, step.Answer):
						default:
							t.Fatalf("step %d: no renewal is under way", i)
						}
						synctest.Wait()
					}
					if step.Expect.Sent != nil && sent.Load() != *step.Expect.Sent {
						t.Errorf("step %d: %d renewals, want %d", i, sent.Load(), *step.Expect.Sent)
					}
					if lease, _ := status.read(); step.Expect.Lease != "" && lease.String() != step.Expect.Lease {
						t.Errorf("step %d: %v, want %s", i, lease, step.Expect.Lease)
					}
				}
				cancel()
				status.end(Released)
			})
		})
	}
	if len(file.Cases) == 0 {
		t.Error("no cases")
	}
}

// answerOf is the end of a renewal: "ok", a reason of a closed elicitation, or a code.
func answerOf(t *testing.T, answer string) error {
	t.Helper()
	switch {
	case answer == "ok":
		return nil
	case strings.HasPrefix(answer, "ELICITATION_"):
		return fromStatus(status.Convert(refuse(codes.NotFound, answer)))
	default:
		return fromStatus(status.New(codeOf(t, answer), "in words"))
	}
}
