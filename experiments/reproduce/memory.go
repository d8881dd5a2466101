package reproduce

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
)

// memory keeps what was measured in a file, so that a study that was interrupted
// goes on where it was.
type memory struct {
	mu    sync.Mutex
	known map[string]float64
}

// remembered is a line of the file. Program tells builds apart: another one may
// measure something else.
type remembered struct {
	Program string  `json:"program"`
	Config  string  `json:"config"`
	Value   float64 `json:"value"`
}

const memoryFile = "measured.jsonl"

// program identifies the build, as far as it can be.
var program = sync.OnceValue(func() string {
	revision, dirty := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changed"
			}
		}
	}
	return revision + dirty
})

// get looks up what was measured with a configuration.
func (m *memory) get(dir, config string) (float64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string]float64{}
		if f, err := os.Open(filepath.Join(dir, memoryFile)); err == nil {
			defer f.Close()
			for sc := bufio.NewScanner(f); sc.Scan(); {
				var r remembered
				if json.Unmarshal(sc.Bytes(), &r) == nil && r.Program == program() {
					m.known[r.Config] = r.Value
				}
			}
		}
	}
	v, ok := m.known[config]
	return v, ok
}

// put remembers it.
func (m *memory) put(dir, config string, value float64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[config] = value
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, memoryFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	line, _ := json.Marshal(remembered{program(), config, value})
	if _, err := f.Write(append(line, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
