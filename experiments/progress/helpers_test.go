package progress

import (
	"bytes"
	"sync"

	"github.com/vbauerster/mpb/v8/decor"
)

// locked is a buffer for several goroutines.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func statistics(width int) decor.Statistics { return decor.Statistics{AvailableWidth: width} }
