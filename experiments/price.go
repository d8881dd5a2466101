package experiments

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// A run is priced where another run of the same trajectory is there: its programs
// run again on the virtual cluster with nothing in their frames, for the times and
// bytes of its own network and devices, and what was learned is taken over.

// Files that a run leaves for those that are priced from it.
const (
	sizesFile = "sizes.gz"  // train.Sizes; only of runs that are Timeless and were made in one go
	dataFile  = "data.json" // what the data set was like
)

// Priceable says whether the folder is that of a finished run which others of the
// same trajectory can be priced from.
func Priceable(folder string) bool {
	var s Status
	if err := readJSON(filepath.Join(folder, "status.json"), &s); err != nil || s.Check(folder) != nil || s.State != "done" {
		return false
	}
	for _, name := range []string{sizesFile, dataFile, "model.safetensors"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// outline is a data set of which only the geometry is known.
type outline struct {
	Name   string     `json:"name"`
	Sample sgd.Sample `json:"sample"`
	Train  int        `json:"train"` // samples
	Test   int        `json:"test"`
	Hash   uint64     `json:"hash"`
	Note   string     `json:"note,omitempty"`
}

func outlineOf(d sgd.Dataset) outline {
	return outline{d.Name, d.Train.Sample(), d.Train.Len(), d.Test.Len(), d.Hash, d.Note}
}

// dataset is the data set with as many samples, none of which can be drawn.
func (o outline) dataset() sgd.Dataset {
	return sgd.Dataset{Name: o.Name, Hash: o.Hash, Note: o.Note, Train: blank{o, o.Train}, Test: blank{o, o.Test}}
}

type blank struct {
	of outline
	n  int
}

var errBlank = errors.New("only the size of the data set is known here, no sample of it")

func (b blank) Len() int                         { return b.n }
func (b blank) Sample() sgd.Sample               { return b.of.Sample }
func (b blank) Batch(sgd.Draw, *sgd.Batch) error { return errBlank }

// Scales implements sgd.Scaling: the run that is known has drawn what it did.
func (b blank) Scales() bool { return b.of.Sample.H == b.of.Sample.W && b.of.Sample.H > 1 }

// RecordedData is the outline of a run's data set.
func RecordedData(folder string) (sgd.Dataset, error) {
	var o outline
	if err := readJSON(filepath.Join(folder, dataFile), &o); err != nil {
		return sgd.Dataset{}, err
	}
	return o.dataset(), nil
}

// RecordedSizes reads the sizes of a run's payloads; nil if it has no record of
// them.
func RecordedSizes(folder string) (*wire.Sizes, error) {
	b, err := regular.ReadFile(filepath.Join(folder, sizesFile), regular.Any)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := wire.ReadSizes(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, sizesFile), err)
	}
	return s, nil
}

// keepSizes writes the sizes that a whole run noted, or takes away those of an
// earlier leg.
func (f *folder) keepSizes(s *wire.Sizes, whole bool) error {
	if s == nil || !whole || !s.Whole() {
		if err := os.Remove(f.file(sizesFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		return err
	}
	return writeFile(f.file(sizesFile), b.Bytes())
}

// source is the run that another one is priced from.
type source struct {
	folder string
	result Result
	sizes  *wire.Sizes
	data   sgd.Dataset
	params []byte // model.safetensors
	evals  map[moment]record.Eval
	told   map[int]record.Progress // by step
	ranks  map[int]record.RankReport
	err    error // something that a priced run needs is not there
}

// moment tells the evaluations of a run apart.
type moment struct {
	step int
	last bool
}

// openSource reads the run that r is to be priced from.
func openSource(folder string, r *config.Resolved) (*source, error) {
	s := &source{folder: folder, evals: map[moment]record.Eval{}, told: map[int]record.Progress{}, ranks: map[int]record.RankReport{}}
	text, err := regular.ReadFile(filepath.Join(folder, "config.yaml"), regular.Any)
	if err != nil {
		return nil, err
	}
	of, unknown, err := config.ParseConfig(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", folder, err)
	case len(unknown) > 0 || of.Trajectory() != r.Trajectory():
		return nil, fmt.Errorf("it learns something else than the run in %s", folder)
	case !r.Timeless() || !of.Timeless():
		return nil, errors.New("what it learns depends on times")
	case !Priceable(folder):
		return nil, fmt.Errorf("the run in %s is not done, or has no record of its payloads' sizes", folder)
	}
	if err := readJSON(filepath.Join(folder, "result.json"), &s.result); err != nil {
		return nil, err
	}
	if s.data, err = RecordedData(folder); err != nil {
		return nil, err
	}
	if s.sizes, err = RecordedSizes(folder); err != nil {
		return nil, err
	}
	if s.params, err = regular.ReadFile(filepath.Join(folder, "model.safetensors"), regular.Any); err != nil {
		return nil, err
	}
	text, err = regular.ReadFile(filepath.Join(folder, metricsFile), regular.Any)
	if err != nil {
		return nil, err
	}
	for _, m := range ParseMetrics(text) {
		if m.Eval != nil {
			s.evals[moment{m.Eval.Step, m.Eval.Last}] = *m.Eval
		}
		if m.Progress != nil {
			s.told[m.Progress.Step] = *m.Progress
		}
	}
	var ranks []record.RankReport
	if err := readJSON(filepath.Join(folder, "ranks.json"), &ranks); err != nil {
		return nil, err
	}
	for _, told := range ranks {
		s.ranks[told.Rank] = told
	}
	return s, nil
}

// build makes the job of a run: one that is trained, which notes the sizes of its
// payloads if others may need them, or one that is priced, beside its source.
func (o Options) build(of *config.Resolved, at config.Places) (*train.Job, *config.CodecPrices, *source, error) {
	if o.From == "" {
		ds, err := of.Open(at, Downloads(o.Display))
		if err != nil {
			return nil, nil, nil, err
		}
		j, prices, err := of.Assemble(ds, at)
		if err == nil && of.Timeless() {
			j.Sizes = &wire.Sizes{}
		}
		return j, prices, nil, err
	}
	s, err := openSource(o.From, of)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("it cannot be priced: %w; --train-all trains it", err)
	}
	j, prices, err := of.Assemble(s.data, at)
	if err != nil {
		return nil, nil, nil, err
	}
	j.Weightless, j.Sizes = true, s.sizes
	j.Prepare()
	if err := j.Check(); err != nil {
		return nil, nil, nil, fmt.Errorf("it cannot be priced: %w; --train-all trains it", err)
	}
	return j, prices, s, nil
}

// learned is a sink that adds what the source learned to what a priced run tells
// of its times.
type learned struct {
	*source
	to *recorder
}

// Progress implements train.Sink.
func (l learned) Progress(p record.Progress) {
	was, ok := l.told[p.Step]
	if !ok {
		l.lacks("report", p.Step)
	}
	p.Loss, p.GapMean = was.Loss, was.GapMean
	p.NoiseScale, p.NoiseTrace, p.NoiseSquare = was.NoiseScale, was.NoiseTrace, was.NoiseSquare
	l.to.Progress(p)
}

// Eval implements train.Sink.
func (l learned) Eval(e record.Eval) {
	was, ok := l.evals[moment{e.Step, e.Last}]
	if !ok {
		l.lacks("evaluation", e.Step)
	}
	e.Values, e.Spread, e.Averaged = was.Values, was.Spread, was.Averaged
	l.to.Eval(e)
}

// Checkpoint implements train.Sink: there is nothing to keep.
func (l learned) Checkpoint(int, *checkpoint.State) error { return nil }

// Order implements train.OrderSink.
func (l learned) Order(lines []byte) error { return l.to.Order(lines) }

func (l learned) lacks(what string, step int) {
	if l.err == nil {
		l.err = fmt.Errorf("the run in %s, which this one is priced from, has no %s of step %d; --train-all trains it", l.folder, what, step)
	}
}

// credit puts into a priced run's result what the data set, which it has not seen,
// says of the source's.
func (s *source) credit(r *Result) {
	r.PricedFrom, r.Note = s.folder, s.result.Note
	r.Chance, r.TestSamples = s.result.Chance, s.result.TestSamples
}

// stopped says whether a priced run was ended before its source was.
func (s *source) stopped(obs *train.Observer) bool { return obs.Final.Step < s.result.Steps }

// complete fills in what the source learned, once a priced run has ended.
func (s *source) complete(obs *train.Observer) error {
	if s.err != nil {
		return s.err
	}
	st, err := checkpoint.Decode(s.params, obs.Job.Model.Layout())
	if err != nil {
		return fmt.Errorf("%s: %w", s.folder, err)
	}
	obs.Params, obs.SHA256 = st.Vectors["param"], train.Hash(st.Vectors["param"])
	if obs.SHA256 != s.result.ParamsSHA256 {
		return fmt.Errorf("%s: model.safetensors is not what result.json says it is", s.folder)
	}
	last := s.evals[moment{obs.Final.Step, true}]
	obs.Final.Values, obs.Final.Spread = last.Values, last.Spread
	for i := range obs.Reports {
		r := &obs.Reports[i]
		r.Zeroed, r.Gap = s.ranks[r.Rank].Zeroed, s.ranks[r.Rank].Gap
	}
	return nil
}
