package config

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	_ "github.com/gradlab/gradlab/sgd/external" // model=external
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train"
	_ "github.com/gradlab/gradlab/sgd/train/gossip" // its modes
	"github.com/gradlab/gradlab/sgd/train/record"
	_ "github.com/gradlab/gradlab/sgd/train/replicas"    // likewise
	_ "github.com/gradlab/gradlab/sgd/train/sandblaster" // likewise
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// canonical gives spec text in its canonical form, or says what is wrong with
// it.
func canonical[T any](t *registry.Table[T]) func(text string) (string, error) {
	return func(text string) (string, error) {
		v, err := t.Parse(text)
		if err != nil {
			return text, err
		}
		return t.Spec(v), nil
	}
}

// known accepts the names of the sheets there are, and none but of a transport.
func known(kind string) func(text string) (string, error) {
	return func(text string) (string, error) {
		names := hardware.Names(kind)
		switch {
		case kind == hardware.Transport && text == "none":
			return text, fmt.Errorf("want a known name, not %q; software that takes nothing is %q (gradlab list transports)", text, idealTransport)
		case text == "none" || slices.Contains(names, text):
		case hardware.IsFile(text):
			_, err := hardware.Load(kind, text)
			return text, err
		default:
			return text, fmt.Errorf("want none or a known name, not %q; %s", text, registry.Suggest(text, names))
		}
		return text, nil
	}
}

// specs holds canonical for every key that is spec text.
var specs = map[string]func(text string) (string, error){
	"model":          canonical(nn.Models),
	"data":           canonical(data.Sets),
	"optimizer":      canonical(sgd.Optimizers),
	"schedule":       canonical(lrschedule.Specs),
	"batch_schedule": canonical(lrschedule.Batches),
	"side_schedule":  canonical(lrschedule.Sides),
	"codec":          canonical(compress.Families),
	"down_codec":     canonical(compress.Families),
	"mode":           canonical(train.Modes),
	"policy":         canonical(staleness.Policies),
	"corrector":      canonical(staleness.Correctors),
	"metric":         metricName,
	"topology":       canonical(collective.Topologies),
	"graph":          canonical(collective.Graphs),
	"outer":          canonical(sgd.Optimizers),
	"placement":      canonical(ps.Placements),
	"init": func(text string) (string, error) {
		if text == "" {
			return text, errors.New("want none or the name of a file")
		}
		return text, nil
	},
	"cluster":    known(hardware.Cluster),
	"transport":  known(hardware.Transport),
	"node":       known(hardware.Node),
	"device":     known(hardware.Device),
	"device.law": canonical(timing.Laws),
	"device.slow": func(text string) (string, error) {
		s, err := timing.ParseSlow(text)
		return s.String(), err
	},
	"observe": canonicalObserved,
	"elastic": canonical(Elasticities),
	"ema":     canonicalAverage,
	"faults":  canonicalFaults,
	"device.codec": func(text string) (string, error) {
		t, err := parseCodecTime(text)
		if err != nil {
			return text, err
		}
		return t.String(), nil
	},
	"timing": func(text string) (string, error) {
		if text == "model" || hardware.IsFile(text) {
			return text, nil
		}
		if p, err := profile.Profiles.Parse(text); err == nil {
			return profile.Profiles.Spec(p), nil
		}
		return canonical(nn.Models)(text)
	},
}

// Canonical is a key's value the way resolved configurations write it; a value
// that cannot be read stays as it is.
func Canonical(key, value string) string {
	if f := specs[key]; f != nil {
		if text, err := f(value); err == nil {
			return text
		}
	}
	return value
}

// Resolve checks everything that can be checked without data, and writes spec
// text in canonical form. Its error names every key that is wrong.
func (c *Config) Resolve() error {
	errs := c.resolveKeys()
	c.speed()
	if c.Steps == 0 && c.Epochs == 0 {
		errs = append(errs, errors.New("keys \"steps\" and \"epochs\" are both 0: nothing to do"))
	}
	if err := c.checkUntil(); err != nil {
		errs = append(errs, err)
	}
	if by := c.Constants; by.Model == "fifo" && (c.NetworkPerHost > 1 || by.Colocate || c.NetworkRack > 0 || by.Stream > 0 || by.Reduce > 0 || by.Gather > 0 || by.Message > 0) {
		errs = append(errs, errors.New("key \"constants.model\": fifo knows neither hosts nor racks nor limits of streams nor a cost of messages; use fair"))
	}
	if c.IsObserved(Trace) && c.Net != "sim" {
		errs = append(errs, fmt.Errorf("key \"observe\": net=%s has no virtual clock to trace; take trace out, or use net=sim", c.Net))
	}
	if err := c.checkEmulate(); err != nil {
		errs = append(errs, err)
	}
	if c.Weightless && c.Net != "sim" {
		errs = append(errs, fmt.Errorf("key \"weightless\": on net=%s time would be real and pass with nothing done; use net=sim", c.Net))
	}
	errs = append(errs, c.checkFaults())
	if m, err := train.Modes.Parse(c.Mode); err == nil {
		if m.Traits(&train.Job{Mode: m}).SharedMemory && c.Net != "local" {
			errs = append(errs, fmt.Errorf("key \"mode\": workers of %s write to memory that they share, which net=%s does not give them; use net=local", train.Modes.Name(m), c.Net))
		}
	}
	if _, err := c.modelSpec(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// resolveKeys checks each key by itself, and writes its spec text in canonical form.
func (c *Config) resolveKeys() []error {
	var errs []error
	v := reflect.ValueOf(c).Elem()
	for _, k := range Keys() {
		if f := specs[k.Name]; f != nil {
			text, err := f(v.Field(k.field).String())
			if err != nil {
				errs = append(errs, fmt.Errorf("key %q: %w", k.Name, err))
			}
			v.Field(k.field).SetString(text)
		}
		if k.Name == constantsKey {
			continue
		}
		if err := k.inRange(v.Field(k.field)); err != nil {
			errs = append(errs, fmt.Errorf("key %q: %w", k.Name, err))
		}
	}
	errs = append(errs, c.Constants.wrong("key %q: %w", constantsKey+".")...)
	return errs
}

// metricName refuses what no metric is called. Models may have any others.
func metricName(text string) (string, error) {
	if text == sgd.First {
		return text, nil
	}
	return text, sgd.CheckMetrics([]sgd.Metric{metricCalled(text)})
}

// metricCalled is the metric of a name, whose direction is known only if the metric is.
func metricCalled(name string) sgd.Metric {
	if m, ok := sgd.FindMetric(sgd.KnownMetrics(), name); ok {
		return m
	}
	return sgd.Metric{Name: name}
}

// Goal is what keys target and metric say, of a model with these metrics.
func (c Config) Goal(metrics []sgd.Metric) (record.Goal, error) {
	goal := c.Target
	if goal.Metric.Name == "" && c.Metric != sgd.First && len(metrics) > 0 {
		m, ok := sgd.FindMetric(metrics, c.Metric)
		if !ok {
			return record.Goal{}, fmt.Errorf("key \"metric\": %w", record.NoMetric(c.Metric, metrics))
		}
		goal.Metric = m
	}
	goal, err := goal.Among(metrics)
	if err != nil {
		return record.Goal{}, fmt.Errorf("key \"target\": %w", err)
	}
	return goal, nil
}

// checkUntil refuses a target that cannot come.
func (c *Config) checkUntil() error {
	if name := c.Target.Metric.Name; name != "" && name != c.Metric {
		return fmt.Errorf("key \"metric\": target=%s is of %s, and metric=%s says that runs are compared by another; leave one of the two out", c.Target, name, c.Metric)
	}
	goal := c.Target
	if m, ok := sgd.FindMetric(sgd.KnownMetrics(), c.Metric); ok {
		goal.Metric = m
	}
	if err := goal.Check(); err != nil {
		return fmt.Errorf("key \"target\": %w", err)
	}
	switch {
	case c.Until == UntilEnd:
	case c.Until == UntilTarget && !c.Target.Asked():
		return errors.New("key \"until\": until=target needs a target, the value on the test set at which the run ends; add target=0.95, or target=loss<=1.9")
	case c.Until == UntilTarget && c.Target.OfBest:
		return fmt.Errorf("key \"until\": with target=%s no run knows where it ends, as others may reach more; give a value, such as target=0.95", c.Target)
	case c.Weightless:
		return errors.New("key \"until\": a run with weightless=true learns nothing that could end it; use until=end")
	case c.EvalEvery == 0:
		return errors.New("key \"until\": with eval_every=0 only the end is evaluated; add eval_every=50, the updates between evaluations")
	}
	return nil
}

// modelSpec is the model with the dropout key applied.
func (c Config) modelSpec() (nn.Spec, error) {
	m, err := nn.Models.Parse(c.Model)
	if err != nil || c.Dropout < 0 {
		return m, nil // a parse error is told elsewhere
	}
	v := reflect.New(reflect.TypeOf(m)).Elem()
	v.Set(reflect.ValueOf(m))
	f := v.FieldByName("Dropout")
	if !f.IsValid() {
		return nil, fmt.Errorf("key \"dropout\": model %s has none", c.Model)
	}
	f.SetFloat(c.Dropout)
	return v.Interface().(nn.Spec), nil
}

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
// checked against everything else.
func (c Config) Build(at Places, progress func(data.Progress)) (*train.Job, error) {
	ds, err := c.Open(at, progress)
	if err != nil {
		return nil, err
	}
	j, _, err := c.Assemble(ds, at)
	return j, err
}

// CheckAll refuses runs that cannot work, and runs that would be the same under two
// names, all of them at once, before one has begun. Data are the business of each run.
func CheckAll(runs []Run, at Places, progress func(data.Progress)) error {
	var errs []error
	var same checkSame
	var bad refused
	BuildAll(runs, at, progress, func(r Run, j *train.Job, err error) {
		if err == nil {
			if err := same.add(r, j); err != nil {
				errs = append(errs, err)
			}
		}
		if wrong := (*Error)(nil); errors.As(err, &wrong) {
			bad.add(r.Name, err)
		}
	})
	return errors.Join(append(errs, bad.err())...)
}

// BuildAll makes the job of every run, one after the other, and opens each data
// set once. The error of a configuration that cannot run is a *Error.
func BuildAll(runs []Run, at Places, progress func(data.Progress), each func(Run, *train.Job, error)) {
	if at.Shelf == nil {
		at.Shelf = &Shelf{}
	}
	for _, r := range runs {
		j, err := r.Config.Build(at, progress)
		each(r, j, err)
	}
}

// imageNet is the number of training samples by which runs without weights count
// their epochs.
const imageNet = 1_281_167

// Open opens the data set of a configuration, from the shelf if it is there; of a run
// without weights, one that has a size alone. progress, unless nil, hears of downloads.
func (c Config) Open(at Places, progress func(data.Progress)) (sgd.Dataset, error) {
	if err := c.Resolve(); err != nil {
		return sgd.Dataset{}, &Error{err}
	}
	if c.Weightless {
		p, err := c.timingProfile()
		if err != nil {
			return sgd.Dataset{}, &Error{fmt.Errorf("key \"weightless\": %w", err)}
		}
		return p.Samples(imageNet), nil
	}
	return at.Shelf.get(c, func() (sgd.Dataset, error) {
		ds, err := data.Open(c.Data, data.Options{
			Dir: at.Dir, Cache: at.Cache, Seed: c.Seed, Augment: c.Augment,
			Limit: c.TrainLimit, TestLimit: c.TestLimit, Download: !at.NoDownload, KeepDecoded: true, Progress: progress,
			Unreadable: c.Unreadable, Warn: at.Warn, Validation: c.Validation,
		})
		if c.Validation > 0 {
			ds.Note = strings.TrimPrefix(fmt.Sprintf("%s; accuracy is that on %d training samples held out (validation=%v), not on the test set", ds.Note, testLen(ds), c.Validation), "; ")
		}
		return ds, err
	})
}

// testLen is the number of samples that are evaluated.
func testLen(ds sgd.Dataset) int {
	if ds.Test == nil { // it could not be opened
		return 0
	}
	return ds.Test.Len()
}

// Assemble makes the job over a data set, checked against everything else, and what
// prices its codecs. The error of a configuration that cannot run is a *Error.
func (c Config) Assemble(ds sgd.Dataset, at Places) (*train.Job, *CodecPrices, error) {
	if err := c.Resolve(); err != nil { // a configuration may be written in Go
		return nil, nil, &Error{err}
	}
	model, err := c.ModelFor(ds.Train)
	if err != nil {
		return nil, nil, &Error{err}
	}
	timing, err := c.timing()
	if err != nil {
		return nil, nil, &Error{err}
	}
	prices, err := c.CodecPrices(at)
	if err != nil {
		return nil, nil, &Error{err}
	}
	timing.Codec = prices.timing()
	cycle, _ := time.ParseDuration(c.Cycle)
	j := &train.Job{
		Model: model, Data: ds,
		Optimizer: sgd.Optimizers.MustParse(c.Optimizer), Schedule: lrschedule.Specs.MustParse(c.Schedule),
		Codec: compress.Families.MustParse(c.Codec), DownCodec: compress.Families.MustParse(c.DownCodec),
		Mode: train.Modes.MustParse(c.Mode), Policy: staleness.Policies.MustParse(c.Policy),
		Corrector: staleness.Correctors.MustParse(c.Corrector), Topology: collective.Topologies.MustParse(c.Topology),
		Placement: ps.Placements.MustParse(c.Placement),
		Outer:     sgd.Optimizers.MustParse(c.Outer), Graph: collective.Graphs.MustParse(c.Graph),
		Workers: c.Workers, Node: c.NetworkPerHost, Servers: c.Servers, Batch: c.Batch, Accumulate: c.Accumulate, Batches: lrschedule.Batches.MustParse(c.BatchSchedule), Sides: lrschedule.Sides.MustParse(c.SideSchedule), Seed: c.Seed, EvalEvery: c.EvalEvery,
		Overlap: c.Overlap, Bucket: c.Bucket, Cycle: cycle, Priority: c.Priority, Partition: c.Partition,
		NormGroup: c.BNGroup,
		NonFinite: c.NonFinite, CheckpointEvery: c.CheckpointEvery, Gap: c.IsObserved(Gap), NoiseScale: c.IsObserved(NoiseScale), LogOrder: c.IsObserved(OrderLog),
		Timing: timing, Weightless: c.Weightless, Run: c.runID(), Threads: c.Threads,
	}
	if c.BNGroup == 0 {
		j.NormGroup = c.Workers
	}
	j.EMA, j.EMAEvery = c.average()
	if err := c.elastic(j); err != nil {
		return nil, nil, &Error{err}
	}
	goal, err := c.Goal(model.Metrics())
	if err != nil {
		return nil, nil, &Error{err}
	}
	if c.Until == UntilTarget {
		j.Until = goal
	}
	if c.Processes() {
		j.Here = 1
	}
	if j.Updates = c.Steps; j.Updates == 0 {
		if j.Updates, err = j.UpdatesIn(c.Epochs); err != nil {
			return nil, nil, &Error{fmt.Errorf("key \"batch_schedule\": %w", err)}
		}
	}
	if err := c.fits(j, at); err != nil {
		return nil, nil, &Error{err}
	}
	j.Prepare()
	if err := j.Check(); err != nil {
		return nil, nil, &Error{err}
	}
	if _, err := c.Plan(j); err != nil {
		return nil, nil, err
	}
	if err := prices.Err(); err != nil { // the check asked for every price
		return nil, nil, &Error{err}
	}
	return j, prices, nil
}

// ModelFor is what is trained, on samples like those of a source.
func (c Config) ModelFor(from sgd.Source) (sgd.Model, error) {
	if err := c.Resolve(); err != nil {
		return nil, &Error{err}
	}
	if c.Weightless {
		if c.Init != "none" {
			return nil, &Error{errors.New("key \"init\": with weightless=true there are no weights to begin with; use init=none")}
		}
		p, err := c.timingProfile()
		if err != nil {
			return nil, &Error{fmt.Errorf("key \"weightless\": %w", err)}
		}
		return p.Model(), nil
	}
	spec, err := c.modelSpec()
	if err != nil {
		return nil, err
	}
	model, err := spec.New(from.Shape(), from.Classes())
	if err != nil {
		return nil, &Error{fmt.Errorf("key \"model\": %w", err)}
	}
	if model, err = c.starting(model); err != nil {
		return nil, &Error{fmt.Errorf("key \"init\": %w", err)}
	}
	if model, err = c.computeAs(model); err != nil {
		return nil, &Error{err}
	}
	if c.Timing != "model" {
		other, times, err := c.timedModel(from)
		if err != nil {
			return nil, &Error{fmt.Errorf("key \"timing\": %w", err)}
		}
		model = timedAs{model, other, times}
	}
	return model, nil
}

// timingProfile is the profile that key timing names.
func (c Config) timingProfile() (*profile.Profile, error) {
	p, err := ProfileOf(c.Timing)
	if err != nil && !hardware.IsFile(c.Timing) {
		return nil, fmt.Errorf("wants key \"timing\" to name a profile (gradlab list profiles), a file of layers or the folder of a run, not %q", c.Timing)
	}
	return p, err
}

// computeAs applies the keys that say how a model computes.
func (c Config) computeAs(m sgd.Model) (sgd.Model, error) {
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
func (c Config) timing() (timing.Timing, error) {
	slow, err := timing.ParseSlow(c.DeviceSlow)
	if err != nil {
		return timing.Timing{}, fmt.Errorf("key \"device.slow\": %w", err)
	}
	if n := slow.Workers(); n > c.Workers {
		return timing.Timing{}, fmt.Errorf("key \"device.slow\": %s is %d slow workers, of %d there are", c.DeviceSlow, n, c.Workers)
	}
	law := timing.Laws.MustParse(c.DeviceLaw)
	if t, ok := law.(timing.Trace); ok {
		if law, err = t.Load(); err != nil {
			return timing.Timing{}, fmt.Errorf("key \"device.law\": %w", err)
		}
	}
	flops := c.DeviceFLOPS
	if c.Device != "none" {
		p, err := c.timingProfile()
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

func (c Config) runID() uint64 {
	h := c.everyKey()
	var b [8]byte
	copy(b[:], h)
	return binary.LittleEndian.Uint64(b[:])
}

// Place puts workers, and so many servers behind them, on virtual hosts: the host of
// each rank.
func (c Config) Place(servers int) []int {
	perHost := max(1, c.NetworkPerHost)
	hosts := (c.Workers + perHost - 1) / perHost
	var place []int
	for w := range c.Workers {
		place = append(place, w/perHost)
	}
	for s := range servers {
		if c.Constants.Colocate {
			place = append(place, s%hosts)
		} else {
			place = append(place, hosts+s/perHost)
		}
	}
	return place
}

// LongestWait is how long a rank of a run on a real clock waits for another that lives:
// for replicas that warm up, a straggler's steps, or the observer, who evaluates
// before it lets go on from a mark. The dead are noticed by other means.
const LongestWait = 24 * time.Hour

// NewNet makes the net of a configuration whose ranks all run in this process, so many
// of them servers. A virtual clock begins at start.
func (c Config) NewNet(servers int, start time.Duration) (comm.Net, error) {
	if c.Net == "sim" {
		return c.VirtualNet(servers, start)
	}
	if err := c.Resolve(); err != nil {
		return nil, &Error{err}
	}
	return c.Emulated(&local.Net{Deadline: LongestWait}), nil
}

// VirtualNet makes the virtual cluster of a configuration, whatever its net is, with so many
// servers. Its clock begins at start.
func (c Config) VirtualNet(servers int, start time.Duration) (*sim.Net, error) {
	if err := c.Resolve(); err != nil {
		return nil, &Error{err}
	}
	latency, message := c.delays()
	plan, err := c.plan(servers)
	if err != nil {
		return nil, err
	}
	n := &sim.Net{Start: start, Faults: plan, Network: &sim.Fair{
		Bandwidth: c.carried(), Latency: latency, Message: message,
		Place: c.Place(servers), Inside: c.NetworkInside, Bridge: float64(c.Constants.Bridge), Stream: c.stream(), Rack: c.NetworkRack, Oversubscription: c.NetworkOversub,
	}}
	if c.Constants.Model == "fifo" {
		n.Network = &sim.FIFO{Bandwidth: c.carried(), Latency: latency}
	}
	return n, nil
}
