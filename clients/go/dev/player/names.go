package main

import "sync"

// names holds objects by the names that steps gave them.
type names[T any] struct {
	mu    sync.Mutex
	named map[string]T
}

func (n *names[T]) put(name string, thing T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.named == nil {
		n.named = make(map[string]T)
	}
	n.named[name] = thing
}

func (n *names[T]) get(name string) (T, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	thing, ok := n.named[name]
	return thing, ok
}

func (n *names[T]) take(name string) (T, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	thing, ok := n.named[name]
	delete(n.named, name)
	return thing, ok
}

func (n *names[T]) drain() map[string]T {
	n.mu.Lock()
	defer n.mu.Unlock()
	named := n.named
	n.named = nil
	return named
}
