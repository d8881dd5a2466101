package data

import "sync"

// Memory holds the set that was read last, so that runs that follow each other
// on one set, each with a seed of its own, read it once. The zero value is empty
// and ready; a nil Memory holds nothing. Safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	path string
	set  loaded
	hash uint64
}

// recall returns the set at path with its digest, and reads it if it is not the
// one in memory.
func (m *Memory) recall(path string, read func() (loaded, error)) (loaded, uint64, error) {
	if m == nil {
		m = &Memory{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path != path {
		l, err := read()
		if err != nil {
			return l, 0, err
		}
		m.path, m.set, m.hash = path, l, digest(l.parts[:]...)
	}
	return m.set, m.hash, nil
}
