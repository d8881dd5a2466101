package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	_ "github.com/gradlab/gradlab/sgd/external" // model=external
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train"
	_ "github.com/gradlab/gradlab/sgd/train/gossip"      // its modes
	_ "github.com/gradlab/gradlab/sgd/train/mean"        // likewise
	_ "github.com/gradlab/gradlab/sgd/train/replicas"    // likewise
	_ "github.com/gradlab/gradlab/sgd/train/sandblaster" // likewise
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// Places holds the folders data are looked for in.
type Places struct {
	Dir   string // --data-dir or GRADLAB_DATA_DIR
	Cache string // the user's cache; "": the default
	Shelf *Shelf // data sets opened before; nil: none

	Memory     int64 // bytes that a run may take; 0: what the machine has, or this process is granted of it
	NoDownload bool  // data that are not here are an error
	// Warn, if set, is told of samples that are left out because they cannot be
	// read. Several goroutines may call it at a time.
	Warn func(string)

	Codecs *coding.Meter  // measures codecs that no table has; nil: that is an error
	Rates  *coding.Record // of the run that is made again; nil: of none
}

// Build makes the job of a configuration: data opened, model built, everything
// checked against everything else. The error of a configuration that cannot run is a *Error.
func (r *Resolved) Build(at Places, progress func(data.Progress)) (*train.Job, error) {
	ds, err := r.Open(at, progress)
	if err != nil {
		return nil, err
	}
	j, _, err := r.Assemble(ds, at)
	return j, err
}

// imageNet is the number of training samples by which runs without weights count
// their epochs.
const imageNet = 1_281_167

// Open opens the data set of a configuration, from the shelf if it is there; of a run
// without weights, one that has a size alone. progress, unless nil, hears of downloads.
func (r *Resolved) Open(at Places, progress func(data.Progress)) (sgd.Dataset, error) {
	c := r.config
	if c.Weightless {
		p, err := r.timingProfile()
		if err != nil {
			return sgd.Dataset{}, &Error{fmt.Errorf("key \"weightless\": %w", err)}
		}
		return p.Samples(imageNet), nil
	}
	return at.Shelf.get(c, func() (sgd.Dataset, error) {
		ds, err := value[data.Set](r, "data").Open(data.Options{
			Dir: at.Dir, Cache: at.Cache, Seed: c.Seed, Augment: c.Augment,
			Limit: c.TrainLimit, TestLimit: c.TestLimit, Download: !at.NoDownload, KeepDecoded: true, Progress: progress,
			Unreadable: c.Unreadable, Warn: at.Warn, Validation: c.Validation,
		})
		if err != nil {
			return sgd.Dataset{}, err
		}
		ds.Name = c.Data
		if c.Validation > 0 {
			ds.Note = strings.TrimPrefix(fmt.Sprintf("%s; accuracy is that on %d training samples held out (validation=%v), not on the test set", ds.Note, ds.Test.Len(), c.Validation), "; ")
		}
		return ds, nil
	})
}

// Assemble makes the job over a data set, checked against everything else, and what
// prices its codecs. The error of a configuration that cannot run is a *Error.
func (r *Resolved) Assemble(ds sgd.Dataset, at Places) (*train.Job, *CodecPrices, error) {
	model, err := r.ModelFor(ds.Train)
	if err != nil {
		return nil, nil, &Error{err}
	}
	timing, err := r.timing()
	if err != nil {
		return nil, nil, &Error{err}
	}
	prices, err := r.CodecPrices(at)
	if err != nil {
		return nil, nil, &Error{err}
	}
	timing.Codec = prices.timing()
	j := &train.Job{Model: model, Data: ds, Timing: timing, Run: r.config.runID()}
	if err := r.job(j); err != nil {
		return nil, nil, &Error{err}
	}
	if err := fits(r.config, j, at); err != nil {
		return nil, nil, &Error{err}
	}
	j.Prepare()
	if err := j.Check(); err != nil {
		return nil, nil, &Error{err}
	}
	if _, err := r.Plan(j.World() - j.Workers); err != nil {
		return nil, nil, err
	}
	if err := prices.Err(); err != nil { // the check asked for every price
		return nil, nil, &Error{err}
	}
	return j, prices, nil
}

// job gives a job what the keys say.
func (r *Resolved) job(j *train.Job) (err error) {
	c := r.config
	r.fill(j)
	if c.BNGroup == 0 {
		j.NormGroup = c.Workers
	}
	j.Gap, j.NoiseScale, j.LogOrder = r.IsObserved(Gap), r.IsObserved(NoiseScale), r.IsObserved(OrderLog)
	ema := value[Average](r, "ema")
	j.EMA, j.EMAEvery = ema.Decay, max(1, ema.Every)
	if err := r.elastic(j); err != nil {
		return err
	}
	goal, err := c.Goal(j.Model.Metrics())
	if err != nil {
		return err
	}
	if c.Until == UntilTarget {
		j.Until = goal
	}
	if c.OnNet().Ranks != RanksHere {
		j.Here = 1
	}
	if j.Updates = c.Steps; j.Updates == 0 {
		if j.Updates, err = j.UpdatesIn(c.Epochs); err != nil {
			return fmt.Errorf("key \"batch_schedule\": %w", err)
		}
	}
	return nil
}

// ModelFor is what is trained, on samples like those of a source.
func (r *Resolved) ModelFor(from sgd.Source) (sgd.Model, error) {
	c := r.config
	if c.Weightless {
		if c.Init != "none" {
			return nil, &Error{errors.New("key \"init\": with weightless=true there are no weights to begin with; use init=none")}
		}
		p, err := r.timingProfile()
		if err != nil {
			return nil, &Error{fmt.Errorf("key \"weightless\": %w", err)}
		}
		return p.Model(), nil
	}
	spec, err := r.modelSpec()
	if err != nil {
		return nil, err
	}
	model, err := spec.New(from.Sample())
	if err != nil {
		return nil, &Error{fmt.Errorf("key \"model\": %w", err)}
	}
	if model, err = starting(c, model); err != nil {
		return nil, &Error{fmt.Errorf("key \"init\": %w", err)}
	}
	if model, err = computeAs(c, model); err != nil {
		return nil, &Error{err}
	}
	if c.Timing != ownLayers {
		other, times, err := r.timedModel(from)
		if err != nil {
			return nil, &Error{fmt.Errorf("key \"timing\": %w", err)}
		}
		model = timedAs{model, other, times}
	}
	return model, nil
}

// timingProfile is the profile that key timing names.
func (r *Resolved) timingProfile() (*profile.Profile, error) {
	switch t := r.values["timing"].(type) {
	case profile.Spec:
		return t.Profile(), nil
	case string:
		if t != ownLayers {
			return ProfileOf(t)
		}
	}
	return nil, fmt.Errorf("wants key \"timing\" to name a profile (gradlab list profiles), a file of layers or the folder of a run, not %q", r.config.Timing)
}

// computeAs applies the keys that say how a model computes.
func computeAs(c Config, m sgd.Model) (sgd.Model, error) {
	precision, err := nn.ParsePrecision(c.Precision)
	if err != nil {
		return nil, fmt.Errorf("key \"precision\": %w", err)
	}
	o := nn.Options{Precision: precision, LossScale: c.LossScale, NoWinograd: !c.Winograd}
	if o == (nn.Options{}) {
		return m, nil
	}
	net, ok := m.(*nn.Net)
	if !ok {
		if precision == nn.Float32 && c.LossScale == 0 {
			return m, nil // without convolutions
		}
		return nil, fmt.Errorf("keys \"precision\" and \"loss_scale\": model %s computes in float32 only; set precision=float32", c.Model)
	}
	if net, err = net.With(o); err != nil {
		return nil, fmt.Errorf("key \"loss_scale\": %w", err)
	}
	return net, nil
}

// timing is what the virtual clock bills for computing.
func (r *Resolved) timing() (_ timing.Timing, err error) {
	c := r.config
	slow := value[timing.Slow](r, "device.slow")
	if n := slow.Workers(); n > c.Workers {
		return timing.Timing{}, fmt.Errorf("key \"device.slow\": %s is %d slow workers, of %d there are", c.DeviceSlow, n, c.Workers)
	}
	law := value[timing.Law](r, "device.law")
	if t, ok := law.(timing.Trace); ok {
		if law, err = t.Load(); err != nil {
			return timing.Timing{}, fmt.Errorf("key \"device.law\": %w", err)
		}
	}
	flops := c.DeviceFLOPS
	if c.Device != "none" {
		p, err := r.timingProfile()
		if err != nil {
			return timing.Timing{}, fmt.Errorf("key \"device\": %w", err)
		}
		d, err := hardware.Load(hardware.Device, c.Device)
		if err != nil {
			return timing.Timing{}, fmt.Errorf("key \"device\": %w", err)
		}
		flops, _ = d.FLOPS(p)
	}
	if c.Workers > 1 {
		flops /= 1 + c.Constants.Overhead
	}
	return timing.Timing{FLOPS: flops, Step: c.Constants.Step, Call: c.Constants.Call, Input: c.Constants.Input, Law: law, Slow: slow,
		Apply: float64(c.Constants.Apply)}, nil
}

// starting is model with the first weights that key init names.
func starting(c Config, m sgd.Model) (sgd.Model, error) {
	if c.Init == "none" {
		return m, nil
	}
	p, ok := m.(sgd.Portable)
	if !ok {
		return nil, fmt.Errorf("model %s has no layers whose weights a file could hold", c.Model)
	}
	b, err := regular.ReadFile(c.Init, regular.Any)
	if err != nil {
		return nil, fmt.Errorf("the file of first weights cannot be read: %w", err)
	}
	if m, err = p.From(b); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Init, err)
	}
	return m, nil
}

// elastic gives the job what the configuration says of workers that leave and join.
func (r *Resolved) elastic(j *train.Job) error {
	if e := r.elasticity(); r.IsElastic() {
		j.Elastic, j.MinWorkers = true, e.MinWorkers
		j.OnResize, _ = train.ParseOnResize(e.OnResize)
	}
	moves, err := value[nemesis.Schedule](r, "faults").Moves(world(j.Workers, 0, j.Seed))
	if err != nil {
		return fmt.Errorf("key \"faults\": %w", err)
	}
	slices.SortStableFunc(moves, func(a, b nemesis.Move) int {
		return cmp.Or(cmp.Compare(a.Before, b.Before), cmp.Compare(a.Turn, b.Turn))
	})
	for _, m := range moves {
		if m.Joins {
			j.Joins = append(j.Joins, train.Joining{Worker: m.Worker, Step: m.Before, Turn: m.Turn})
		} else {
			j.Leaves = append(j.Leaves, train.Departure{Worker: m.Worker, Step: m.Before, Turn: m.Turn})
		}
	}
	return nil
}

// onProcesses refuses a plan that real processes cannot be made to follow.
func onProcesses(net string, plan []nemesis.Act, w nemesis.World) error {
	for _, a := range plan {
		switch {
		case a.What != nemesis.Killing && a.What != nemesis.Pausing && a.What != nemesis.Joining:
			return fmt.Errorf("on net=%s only kill, rejoin and pause can be carried out, not what happens to links; use net=sim", net)
		case a.Rank == w.Observer():
			return fmt.Errorf("on net=%s the observer is the process that carries faults out, and does not strike itself; name a worker or a server, or use net=sim", net)
		}
	}
	return nil
}

// World is what key faults may name in a job.
func World(j *train.Job) nemesis.World { return world(j.Workers, j.World()-j.Workers, j.Seed) }

func world(workers, servers int, seed uint64) nemesis.World {
	return nemesis.World{Workers: workers, Servers: servers, Key: rng.New(seed, "faults")}
}

// Plan is what key faults comes to with so many servers.
func (r *Resolved) Plan(servers int) ([]nemesis.Act, error) {
	s := value[nemesis.Schedule](r, "faults")
	if len(s) == 0 {
		return nil, nil
	}
	w := world(r.config.Workers, servers, r.config.Seed)
	plan, err := s.Plan(w)
	if err == nil && !r.IsElastic() && slices.ContainsFunc(plan, func(a nemesis.Act) bool { return a.What == nemesis.Joining }) {
		err = errors.New("fault rejoin: a process comes back into a run with elastic=on only")
	}
	if err == nil && r.config.OnNet().Faults == FaultsOfProcesses {
		err = onProcesses(r.config.Net, plan, w)
	}
	if err != nil {
		return nil, &Error{fmt.Errorf("key \"faults\": %w", err)}
	}
	return plan, nil
}

// timedModel is what the virtual clock bills a model as: a profile or, on the samples
// there are, another model; and its side over theirs.
func (r *Resolved) timedModel(data sgd.Source) (m sgd.Model, times float64, err error) {
	if s, ok := r.values["timing"].(nn.Spec); ok {
		m, err = s.New(data.Sample())
		return m, 1, err
	}
	p, err := r.timingProfile()
	if err != nil {
		return nil, 0, err
	}
	return p.Model(), float64(p.Input.H) / float64(data.Sample().Shape.H), nil
}

// Shelf keeps data sets that were opened, for the runs that come after: reading
// and decoding one may take longer than a short run. The zero value is empty, nil
// keeps nothing. Runs may share one, at the same time too.
type Shelf struct {
	mu   sync.Mutex
	sets map[shelved]func() (sgd.Dataset, error)
}

// shelved is what tells data sets apart.
type shelved struct {
	data        string
	train, test int
	augment     bool
	seed        uint64 // of shuffling and augmentation
	unreadable  float64
	validation  float64
}

// get returns the data set of a configuration, from the shelf if it is there.
func (s *Shelf) get(c Config, open func() (sgd.Dataset, error)) (sgd.Dataset, error) {
	if s == nil {
		return open()
	}
	k := shelved{c.Data, c.TrainLimit, c.TestLimit, c.Augment, c.Seed, c.Unreadable, c.Validation}
	s.mu.Lock()
	once := s.sets[k]
	if once == nil {
		if s.sets == nil {
			s.sets = map[shelved]func() (sgd.Dataset, error){}
		}
		once = sync.OnceValues(open)
		s.sets[k] = once
	}
	s.mu.Unlock()
	return once()
}
