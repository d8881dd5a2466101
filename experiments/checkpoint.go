package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// The folder checkpoint of a run holds two generations:
//
//	state-….safetensors  a state, with its version and the start of its hash
//	manifest.json        names the state that counts
//	older.json           the manifest before that one: --resume --allow-older goes on
//	                     from it where the newer checkpoint is damaged
//	first                there while the first state is written, which no manifest names
const (
	manifestFile = "manifest.json"
	olderFile    = "older.json"
	firstFile    = "first"
)

// manifest names the checkpoint that counts. It is written last, so a crash
// leaves the old checkpoint or the new one.
type manifest struct {
	Version  int        `json:"version"`
	File     string     `json:"file"`
	Bytes    int        `json:"bytes"`
	SHA256   string     `json:"sha256"`
	Hash     string     `json:"config_hash"`
	Counters counters   `json:"counters"`
	Metrics  metricsSum `json:"metrics"`
	// Decides is what the run was made of.
	Decides []decided `json:"decides"`
	Self    string    `json:"manifest_sha256"` // of the manifest without this
}

func (m manifest) sum() string {
	m.Self = ""
	b, _ := json.Marshal(m)
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// damageError says that a file of a checkpoint is not what was written.
type damageError struct {
	path  string
	cause string
	older int // step of the checkpoint before; 0: there is none
}

func (e *damageError) Error() string {
	way := "remove the folder of the run to start over"
	if e.older > 0 {
		way = fmt.Sprintf("--resume --allow-older goes on from the checkpoint before it, of step %d; or %s", e.older, way)
	}
	return fmt.Sprintf("%s is damaged: %s; %s", e.path, e.cause, way)
}

// readManifest reads a manifest that is, byte for byte, as it was written.
func readManifest(path string) (*manifest, error) {
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, &damageError{path: path, cause: err.Error()}
	}
	again, err := json.MarshalIndent(m, "", "  ")
	if err != nil || m.Self != m.sum() || !bytes.Equal(b, append(again, '\n')) {
		return nil, &damageError{path: path, cause: "it is not what was written"}
	}
	return &m, nil
}

// states lists the state files of a checkpoint's folder.
func states(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "state-*.safetensors"))
	return list
}

// checkpointAt is the step of the checkpoint of a run's folder, 0 without one, and what
// is wrong if that cannot be told.
func checkpointAt(path string) (step int, damage error) {
	m, err := countingManifest(filepath.Join(path, "checkpoint"))
	if m != nil {
		step = m.Version
	}
	return step, err
}

// countingManifest reads the manifest that counts; nil, nil if there is no checkpoint.
// Damage comes with the step of the checkpoint before.
func countingManifest(dir string) (*manifest, error) {
	path := filepath.Join(dir, manifestFile)
	m, err := readManifest(path)
	if errors.Is(err, fs.ErrNotExist) {
		left := states(dir)
		if _, first := os.Stat(filepath.Join(dir, firstFile)); len(left) == 0 || first == nil {
			return nil, nil
		}
		err = &damageError{path: path, cause: fmt.Sprintf("it is missing beside %s", filepath.Base(left[0]))}
	}
	return m, withOlder(dir, err)
}

// withOlder adds to an error about damage the step of the checkpoint before, if a run can
// go on from it.
func withOlder(dir string, err error) error {
	if d := (*damageError)(nil); errors.As(err, &d) {
		f := folder{path: filepath.Dir(dir)}
		if m, err := readManifest(filepath.Join(dir, olderFile)); err == nil && f.checkMetrics(m) == nil {
			d.older = m.Version
		}
	}
	return err
}

// saveCheckpoint writes a state and then the manifest that points to it, keeps the
// checkpoint before and removes the one before that.
func (f *folder) saveCheckpoint(version int, hash string, s *checkpoint.State, l sgd.Layout, c counters) error {
	dir, disk := f.file("checkpoint"), f.disk()
	perm := private
	if info, err := os.Stat(f.path); err == nil {
		perm = info.Mode().Perm()
	}
	if err := os.MkdirAll(dir, perm); err != nil {
		return err
	}
	b, err := s.Encode(nil, l)
	if err != nil {
		return err
	}
	metrics, err := f.syncMetrics(version)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	m := manifest{Version: version, Bytes: len(b), SHA256: hex.EncodeToString(sum[:]), Hash: hash, Counters: c, Metrics: metrics, Decides: f.decides}
	// A version may be saved twice, and the old file counts until the manifest
	// names the new one.
	m.File = fmt.Sprintf("state-%d-%s.safetensors", version, m.SHA256[:8])
	m.Self = m.sum()
	index, older := filepath.Join(dir, manifestFile), filepath.Join(dir, olderFile)
	before, _ := readManifest(index) // what cannot be read is replaced
	if before == nil && len(states(dir)) == 0 {
		if err := writeTo(disk, filepath.Join(dir, firstFile), nil); err != nil {
			return err
		}
	}
	if err := writeTo(disk, filepath.Join(dir, m.File), b); err != nil {
		return err
	}
	if before != nil && before.Version < version {
		if err := writeJSONTo(disk, older, before); err != nil {
			return err
		}
	}
	if err := writeJSONTo(disk, index, m); err != nil {
		return err
	}
	keep := []string{m.File}
	if o, err := readManifest(older); err == nil {
		keep = append(keep, o.File)
	}
	for _, p := range states(dir) {
		if !slices.Contains(keep, filepath.Base(p)) {
			_ = disk.remove(p)
		}
	}
	_ = disk.remove(filepath.Join(dir, firstFile))
	return nil
}

// loadCheckpoint reads the checkpoint that counts, or with older, where that one is
// damaged, the one before; nil, nil if there is none. Damage is found, not loaded.
func (f *folder) loadCheckpoint(hash string, l sgd.Layout, older bool) (*checkpoint.State, *manifest, error) {
	dir := f.file("checkpoint")
	m, err := countingManifest(dir)
	if m == nil && err == nil {
		return nil, nil, nil
	}
	var s *checkpoint.State
	if err == nil {
		s, err = f.loadState(m, hash, l)
		err = withOlder(dir, err)
	}
	damage := (*damageError)(nil)
	if !older || !errors.As(err, &damage) || damage.older == 0 {
		return s, m, err
	}
	if m, err = readManifest(filepath.Join(dir, olderFile)); err != nil {
		return nil, nil, err
	}
	if s, err = f.loadState(m, hash, l); err != nil {
		return nil, nil, err
	}
	f.passed = damage
	return s, m, writeJSON(filepath.Join(dir, manifestFile), m) // it counts from now on
}

// loadState reads the state that a manifest points to, if the record up to it is whole.
func (f *folder) loadState(m *manifest, hash string, l sgd.Layout) (*checkpoint.State, error) {
	if err := m.differs(f); err != nil {
		return nil, err
	}
	if m.Hash != hash {
		return nil, fmt.Errorf("%s holds a checkpoint of another configuration (%s, not %s)", f.path, m.Hash, hash)
	}
	if m.File != filepath.Base(m.File) || !strings.HasPrefix(m.File, "state-") {
		return nil, fmt.Errorf("%s: manifest names file %q", f.path, m.File)
	}
	if err := f.checkMetrics(m); err != nil {
		return nil, err
	}
	path := f.file("checkpoint", m.File)
	b, err := regular.ReadFile(path, regular.Any)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &damageError{path: path, cause: "it is missing, and the manifest names it"}
	case err != nil:
		return nil, err
	}
	sum := sha256.Sum256(b)
	if len(b) != m.Bytes || hex.EncodeToString(sum[:]) != m.SHA256 {
		return nil, &damageError{path: path, cause: fmt.Sprintf("%d bytes with SHA-256 %x, the manifest says %d with %s", len(b), sum, m.Bytes, m.SHA256)}
	}
	s, err := checkpoint.Decode(b, l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
