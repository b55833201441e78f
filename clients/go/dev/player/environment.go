package main

import (
	"os"
	"sync"

	pausewatch "pausewatch.dev/clients/go"
)

// environment has the variables that a client is to find. The process has only one environment: clients are made one at
// a time.
type environment map[string]string

var environmentLock sync.Mutex

func (e environment) newClient(options []pausewatch.Option) (*pausewatch.Client, error) {
	environmentLock.Lock()
	defer environmentLock.Unlock()
	for name, value := range e {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
		defer func() { _ = os.Unsetenv(name) }()
	}
	return pausewatch.NewClient(options...)
}
