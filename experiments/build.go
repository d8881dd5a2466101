package experiments

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/registry"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// Nets lists the places where ranks can run.
func Nets() []string { return []string{"local", "grpc", "sim"} }

// canonical rewrites a key's spec text in its canonical form, or says what is
// wrong with it.
func canonical[T any](t *registry.Table[T], key string, text *string) error {
	v, err := t.Parse(*text)
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	*text = t.Spec(v)
	return nil
}

// resolve checks everything that can be checked without data, and writes spec
// text in canonical form.
func (c *Config) resolve() error {
	errs := []error{
		canonical(nn.Models, "model", &c.Model),
		canonical(data.Sets, "data", &c.Data),
		canonical(sgd.Optimizers, "optimizer", &c.Optimizer),
		canonical(lrschedule.Specs, "schedule", &c.Schedule),
		canonical(compress.Families, "codec", &c.Codec),
		canonical(compress.Families, "down_codec", &c.DownCodec),
		canonical(train.Modes, "mode", &c.Mode),
		canonical(staleness.Policies, "policy", &c.Policy),
		canonical(staleness.Correctors, "corrector", &c.Corrector),
		canonical(collective.Topologies, "topology", &c.Topology),
		canonical(ps.Placements, "placement", &c.Placement),
	}
	if c.Timing != "model" {
		errs = append(errs, canonical(nn.Models, "timing", &c.Timing))
	}
	if !contains(Nets(), c.Net) {
		errs = append(errs, fmt.Errorf("key \"net\": want %s, not %q", strings.Join(Nets(), ", "), c.Net))
	}
	if c.Steps == 0 && c.Epochs == 0 {
		errs = append(errs, errors.New("keys \"steps\" and \"epochs\" are both 0: nothing to do"))
	}
	if _, err := c.modelSpec(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
	Dir   string // --data-dir or GRADLAB_DATA
	Cache string // the user's cache; "": the default
}

// Build makes the job of a configuration: data opened, model built, everything
// checked against everything else.
func (c Config) Build(at Places, progress func(data.Progress)) (*train.Job, error) {
	ds, err := data.Open(c.Data, data.Options{
		Dir: at.Dir, Cache: at.Cache, Seed: c.Seed, Augment: c.Augment,
		Limit: c.TrainLimit, TestLimit: c.TestLimit, Download: true, KeepDecoded: true, Progress: progress,
	})
	if err != nil {
		return nil, err
	}
	spec, err := c.modelSpec()
	if err != nil {
		return nil, err
	}
	model, err := spec.New(ds.Train.Shape(), ds.Train.Classes())
	if err != nil {
		return nil, &ConfigError{fmt.Errorf("key \"model\": %w", err)}
	}
	if c.Timing != "model" {
		timed, err := nn.Models.MustParse(c.Timing).New(ds.Train.Shape(), ds.Train.Classes())
		if err != nil {
			return nil, fmt.Errorf("key \"timing\": %w", err)
		}
		model = timedAs{model, timed.SpanFLOPs()}
	}
	j := &train.Job{
		Model: model, Data: ds,
		Optimizer: sgd.Optimizers.MustParse(c.Optimizer), Schedule: lrschedule.Specs.MustParse(c.Schedule),
		Codec: compress.Families.MustParse(c.Codec), DownCodec: compress.Families.MustParse(c.DownCodec),
		Mode: train.Modes.MustParse(c.Mode), Policy: staleness.Policies.MustParse(c.Policy),
		Corrector: staleness.Correctors.MustParse(c.Corrector), Topology: collective.Topologies.MustParse(c.Topology),
		Placement: ps.Placements.MustParse(c.Placement),
		Workers:   c.Workers, Servers: c.Servers, Batch: c.Batch, Seed: c.Seed, EvalEvery: c.EvalEvery,
		NFetch: c.NFetch, NPush: c.NPush, WarmStart: c.WarmStart, Overlap: c.Overlap, Bucket: c.Bucket,
		NonFinite: c.NonFinite, CheckpointEvery: c.CheckpointEvery,
		Timing: train.Timing{FLOPS: c.DeviceFLOPS, Jitter: c.DeviceJitter},
		Run:    c.runID(),
	}
	j.Updates = c.Steps
	if j.Updates == 0 {
		j.Updates = max(1, int(c.Epochs*float64(ds.Train.Len())/float64(j.Samples())+0.5))
	}
	j.Prepare()
	if err := j.Check(); err != nil {
		return nil, &ConfigError{err}
	}
	return j, nil
}

func (c Config) runID() uint64 {
	h := c.Hash()
	var b [8]byte
	copy(b[:], h)
	return binary.LittleEndian.Uint64(b[:])
}

// timedAs is a model whose virtual time is that of another one: the other's
// operations, spread over this one's spans in proportion.
type timedAs struct {
	sgd.Model
	flops []float64
}

// SpanFLOPs implements sgd.Model.
func (t timedAs) SpanFLOPs() []float64 {
	own := t.Model.SpanFLOPs()
	sum, other := 0.0, 0.0
	for _, f := range own {
		sum += f
	}
	for _, f := range t.flops {
		other += f
	}
	out := make([]float64, len(own))
	for i := range own {
		if sum > 0 {
			out[i] = own[i] * other / sum
		} else {
			out[i] = other / float64(len(own))
		}
	}
	return out
}

// net makes the net of a configuration whose ranks all run in this process.
func (c Config) net(start time.Duration) comm.Net {
	if c.Net == "local" {
		return &local.Net{}
	}
	latency, _ := time.ParseDuration(c.NetworkLatency)
	n := &sim.Net{Start: start, Network: &sim.Fair{Bandwidth: c.NetworkBandwidth, Latency: latency}}
	if c.NetworkModel == "fifo" {
		n.Network = &sim.FIFO{Bandwidth: c.NetworkBandwidth, Latency: latency}
	}
	return n
}
