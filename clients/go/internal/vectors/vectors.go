// Package vectors reads clients/vectors for tests.
package vectors

import (
	"encoding/json"
	"os"
	"testing"
)

// Read reads a JSON file into a value. A key that the value does not have is an error.
func Read[T any](t testing.TB, path string) (file T) {
	t.Helper()
	text, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	decoder := json.NewDecoder(text)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file
}
