// Package regular reads files that somebody else may have put there: it waits for no
// pipe, reads no device without end, and takes no more memory than was said. It shows text
// of others, bounded too, and without what a terminal would act on.
package regular

import (
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
)

const (
	// Text bounds files that people write: 16 MiB.
	Text = 16 << 20
	// Any bounds nothing: a regular file has an end.
	Any = math.MaxInt64 - 1
)

// ReadFile reads a regular file of at most most bytes. A pipe, a device or a socket is
// refused at once.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, path, most)
}

// open opens a regular file.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe that nobody writes to, too
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file (%v); want a file with text or data", path, info.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Mapping is a file in memory, which stays as long as this can be reached.
type Mapping struct{ b []byte }

// ReadText reads what may come through a pipe too, at most most bytes.
func ReadText(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, path, most)
}

func bounded(f *os.File, path string, most int64) ([]byte, error) {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > most {
		return nil, tooLong(path, most)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, tooLong(path, most)
	}
	return b, err
}

func tooLong(path string, most int64) error {
	return fmt.Errorf("%s is longer than the %d bytes that such a file may have", path, most)
}
