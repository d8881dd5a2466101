package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/store"
)

// Watch keeps what the folders say: it reads them again and again, finished
// runs once. It is safe for concurrent use.
type Watch struct {
	paths []string

	reading sync.Mutex // held while folders are read
	seen    store.Seen

	mu      sync.Mutex
	entries map[string]entry
	version uint64        // of the rows; grows with every change
	gone    uint64        // version at which a run was last removed
	changed chan struct{} // closed when it does
	trouble error         // folders that could not be read
}

// entry is a run with its curve so far. Entries are replaced, never changed.
type entry struct {
	key     string
	run     *store.Run
	curve   store.Curve
	next    int64 // where metrics.jsonl goes on
	row     Row
	version uint64 // at which the row came to be
}

// Row is what the table shows of a run.
type Row struct {
	Key       string    `json:"key"`
	Recipe    string    `json:"recipe"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Error     string    `json:"error,omitempty"`
	Step      int       `json:"step"`
	Epoch     float64   `json:"epoch"`
	Seconds   float64   `json:"seconds"` // on the run's clock
	Virtual   bool      `json:"virtual"`
	Loss      float64   `json:"loss"` // of training
	LR        float64   `json:"lr"`
	Test      string    `json:"test"` // the last evaluation, by the metric that runs are compared by; "" before
	Staleness float64   `json:"staleness"`
	Bytes     float64   `json:"bytes"` // that had crossed the network at the last evaluation
	Started   time.Time `json:"started"`
	Updated   time.Time `json:"updated"`
}

// NewWatch watches the runs at or below paths. Nothing is known before the
// first Refresh.
func NewWatch(paths ...string) *Watch {
	return &Watch{paths: paths, entries: map[string]entry{}, changed: make(chan struct{})}
}

// Run refreshes until the context ends.
func (w *Watch) Run(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			w.Refresh()
		}
	}
}

// Refresh reads the folders. What cannot be read is left out and told by
// Trouble.
func (w *Watch) Refresh() {
	w.reading.Lock()
	defer w.reading.Unlock()
	runs, err := w.seen.Find(w.paths...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = err
	version := w.version + 1
	news := false
	seen := map[string]bool{}
	for _, r := range runs {
		k := key(r.Folder)
		seen[k] = true
		old, known := w.entries[k]
		if known && old.run.State == r.State && old.run.Updated.Equal(r.Updated) && r.State != store.Running {
			continue
		}
		e := entry{key: k, run: r, version: old.version, row: old.row}
		e.follow(old)
		if row := e.summary(); !known || row != old.row {
			e.row, e.version, news = row, version, true
		}
		w.entries[k] = e
	}
	for k := range w.entries {
		if !seen[k] {
			delete(w.entries, k)
			w.gone, news = version, true
		}
	}
	if news {
		w.version = version
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// follow reads what the run told since.
func (e *entry) follow(old entry) {
	if old.run != nil && !e.run.Started.Equal(old.run.Started) {
		old = entry{} // a new leg, which wrote the file anew
	}
	c, next, err := e.run.Follow(old.next)
	if err != nil {
		e.curve, e.next = old.curve, old.next
		return
	}
	if next < old.next { // it was cut, and read from its start
		old.curve = store.Curve{}
	}
	e.curve.Progress = append(slices.Clip(old.curve.Progress), c.Progress...)
	e.curve.Evals = append(slices.Clip(old.curve.Evals), c.Evals...)
	e.next = next
}

func (e *entry) summary() Row {
	r := Row{Key: e.key, Recipe: e.run.Recipe, Name: e.run.Name, State: e.run.State, Error: e.run.Error, Step: e.run.Step,
		Virtual: e.run.Virtual(), Started: e.run.Started, Updated: e.run.Updated}
	if n := len(e.curve.Progress); n > 0 {
		p := e.curve.Progress[n-1]
		r.Step, r.Epoch, r.Seconds, r.Loss, r.LR, r.Staleness = p.Step, p.Epoch, p.Seconds, p.Loss, p.LR, p.StalenessMean
	}
	if n := len(e.curve.Evals); n > 0 {
		v := e.curve.Evals[n-1]
		r.Step, r.Epoch, r.Seconds = max(r.Step, v.Step), max(r.Epoch, v.Epoch), max(r.Seconds, v.Seconds)
		r.Bytes = float64(e.run.Crossed(v.BytesUp, v.BytesDown))
		m := e.run.Goal().Metric
		if x, ok := v.Values[m.Name]; ok {
			r.Test = m.Head() + " " + progress.Value(m, x)
		}
	}
	return r
}

// Rows returns the rows that changed after version since, the youngest run
// first. They are all there are, and all is true, if since is 0 or runs have
// been removed after it. changed is closed when there is more.
func (w *Watch) Rows(since uint64) (rows []Row, all bool, version uint64, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all = since == 0 || since < w.gone
	rows = []Row{}
	for _, e := range w.sorted() {
		if all || e.version > since {
			rows = append(rows, e.row)
		}
	}
	return rows, all, w.version, w.changed
}

// Version grows with every change of a run.
func (w *Watch) Version() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version
}

// sorted are the entries, the youngest first.
func (w *Watch) sorted() []entry {
	es := slices.Collect(maps.Values(w.entries))
	slices.SortFunc(es, func(a, b entry) int {
		if c := b.run.Started.Compare(a.run.Started); c != 0 {
			return c
		}
		return strings.Compare(a.run.Folder, b.run.Folder)
	})
	return es
}

func (w *Watch) all() []entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	es := w.sorted()
	slices.Reverse(es)
	return es
}

func (w *Watch) find(key string) (entry, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[key]
	return e, ok
}

// Trouble is what the last refresh could not read.
func (w *Watch) Trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// key names a folder in addresses.
func key(folder string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(folder)))
	return hex.EncodeToString(sum[:8])
}
