package experiments

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// platter is a disk whose power can fail after any operation. What a program does to it is
// done to the machine's disk, too, so that the program can read it. What was written to a
// file and not synced may be there in part or as rubbish after that, and what happened to a
// folder's entries and was not synced may have happened or not, one by one: as much as
// POSIX allows.
//
// Names are paths below root.
type platter struct {
	machine
	root           string
	deaf, deafDirs bool // what is to be synced is not: a defect

	names   map[string]*inode // as programs see them
	durable map[string]*inode // as they are after a failure at the least
	pending []entry
	outages []outage
}

type inode struct{ written, synced []byte }

// entry is a change of a folder: a name that is given to a file, one that is taken from it,
// or both at once.
type entry struct {
	gives string // "": none
	file  *inode
	takes string // "": none
}

// outage is what a failure after an operation begins from.
type outage struct {
	durable map[string]*inode
	pending []entry
	files   map[*inode]inode
	saved   int // checkpoints that were said to be there
}

func newPlatter(root string) *platter {
	return &platter{root: root, names: map[string]*inode{}, durable: map[string]*inode{}}
}

// name is what the platter calls a file.
func (p *platter) name(path string) string {
	rel, err := filepath.Rel(p.root, path)
	if err != nil {
		panic(err)
	}
	return rel
}

func (p *platter) did(e ...entry) {
	for _, e := range e {
		p.pending = append(p.pending, e)
		delete(p.names, e.takes)
		if e.gives != "" {
			p.names[e.gives] = e.file
		}
	}
	files := map[*inode]inode{}
	for _, f := range p.names {
		files[f] = inode{slices.Clone(f.written), slices.Clone(f.synced)}
	}
	for _, f := range p.durable {
		files[f] = inode{slices.Clone(f.written), slices.Clone(f.synced)}
	}
	p.outages = append(p.outages, outage{durable: maps.Clone(p.durable), pending: slices.Clone(p.pending), files: files})
}

type platterFile struct {
	scratch
	p *platter
	f *inode
}

func (p *platter) create(dir string) (scratch, error) {
	s, err := p.machine.create(dir)
	if err != nil {
		return nil, err
	}
	f := new(inode)
	p.did(entry{gives: p.name(s.Name()), file: f})
	return platterFile{s, p, f}, nil
}

func (p *platter) append(path string) (scratch, error) {
	s, err := p.machine.append(path)
	return platterFile{s, p, p.names[p.name(path)]}, err
}

func (f platterFile) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, max(1, len(b)/3)) { // a long write is several
		f.f.written = append(f.f.written, part...)
		f.p.did()
	}
	return f.scratch.Write(b)
}

func (f platterFile) Sync() error {
	if !f.p.deaf {
		f.f.synced = slices.Clone(f.f.written)
	}
	f.p.did()
	return f.scratch.Sync()
}

func (p *platter) rename(from, to string) error {
	p.did(entry{gives: p.name(to), file: p.names[p.name(from)], takes: p.name(from)})
	return p.machine.rename(from, to)
}

func (p *platter) remove(path string) error {
	p.did(entry{takes: p.name(path)})
	return p.machine.remove(path)
}

func (p *platter) syncDir(dir string) error {
	if !p.deafDirs {
		within := func(name string) bool { return filepath.Dir(name) == p.name(dir) }
		maps.DeleteFunc(p.durable, func(name string, _ *inode) bool { return within(name) })
		for name, f := range p.names {
			if within(name) {
				p.durable[name] = f
			}
		}
		p.pending = slices.DeleteFunc(p.pending, func(e entry) bool { return within(e.gives) || within(e.takes) })
	}
	p.did()
	return nil // it takes time on the machine's
}

// fails lays down what an outage leaves, as the key draws it.
func (m outage) fails(t *testing.T, k rng.Key, dir string) {
	t.Helper()
	left := maps.Clone(m.durable)
	for i, e := range m.pending {
		if k.IntN(uint64(i), 2) == 0 {
			continue
		}
		delete(left, e.takes)
		if e.gives != "" {
			left[e.gives] = e.file
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "checkpoint"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range slices.Sorted(maps.Keys(left)) {
		f, k := m.files[left[name]], k.With(uint64(i))
		b := f.synced
		if more := f.written[min(len(f.synced), len(f.written)):]; len(more) > 0 {
			more = slices.Clone(more[:k.IntN(0, len(more)+1)])
			if k.IntN(1, 3) == 0 { // blocks that were never written
				clear(more)
			}
			b = append(slices.Clone(b), more...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// crashes writes metrics and three checkpoints to a disk and lets its power fail after every
// operation, several times with other things lost. It counts the failures, those after which
// a checkpoint that was said to be there is not, and those after which damage is noticed.
// What is loaded has all metrics of its steps.
func crashes(t *testing.T, p *platter) (tried, older, damaged int) {
	t.Helper()
	f := &folder{path: p.root, virtual: p}
	if _, err := f.appendMetrics(0); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		from := len(p.outages)
		for _, m := range []Line{{Kind: "progress", Progress: &record.Progress{Step: n}}, {Kind: "eval", Eval: &record.Eval{Step: n}}} {
			if err := f.metric(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.saveCheckpoint(n, "hash", numbered(n), smallLayout(), counters{Up: uint64(n)}); err != nil {
			t.Fatal(err)
		}
		for i := from; i < len(p.outages); i++ {
			p.outages[i].saved = n - 1
		}
		p.did()
		p.outages[len(p.outages)-1].saved = n
	}
	base := t.TempDir()
	for i, m := range p.outages {
		for variant := range uint64(4) {
			after := &folder{path: filepath.Join(base, fmt.Sprint(i, "-", variant))}
			m.fails(t, rng.New(variant, "power").With(uint64(i)), after.path)
			s, got, err := after.loadCheckpoint("hash", smallLayout(), false)
			version := 0
			if got != nil && err == nil {
				version = got.Version
				if !reflect.DeepEqual(s, numbered(version)) || got.Counters.Up != uint64(version) {
					t.Fatalf("power fails after operation %d: a checkpoint of step %d is loaded that was never saved", i, version)
				}
				if _, _, evals, err := after.readMetrics(version); err != nil || len(evals) != version {
					t.Fatalf("power fails after operation %d: the checkpoint of step %d is loaded with %d evaluations, %v", i, version, len(evals), err)
				}
			}
			switch tried++; {
			case err != nil:
				damaged++
			case version < m.saved:
				older++
			}
			os.RemoveAll(after.path)
		}
	}
	return tried, older, damaged
}

// F12: whenever the power fails, and whatever was not synced is lost by then, torn or
// rubbish, the checkpoint is the one that was said to be there or the next. A disk that
// does not sync what it says is noticed: what is damaged is never loaded.
func TestF12TornWrites(t *testing.T) {
	t.Parallel()
	tried, older, damaged := crashes(t, newPlatter(t.TempDir()))
	if tried < 250 || older > 0 || damaged > 0 {
		t.Errorf("of %d power failures %d lose a checkpoint that was there, %d leave a damaged one", tried, older, damaged)
	}
	lies := newPlatter(t.TempDir())
	lies.deaf = true
	if tried, _, damaged := crashes(t, lies); damaged == 0 {
		t.Errorf("%d power failures of a disk that syncs no file: no damage is noticed", tried)
	}
	lies = newPlatter(t.TempDir())
	lies.deafDirs = true
	if tried, older, damaged := crashes(t, lies); older+damaged == 0 {
		t.Errorf("%d power failures of a disk that syncs no folder: nothing is lost", tried)
	}
}
