package config

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// Resolved is a configuration of which every key is right, by itself and beside the others,
// with its texts read into values. [Config.Resolve] makes it, and nothing else; whatever needs
// a right configuration is a method of it, or takes one. It does not change.
type Resolved struct {
	config Config
	values map[string]any // of keys that are text, and of durations, by key
}

// Config returns the configuration, with its texts in canonical form.
func (r *Resolved) Config() Config { return r.config }

// value returns the value that the text of a key was read into; the zero value of another
// type, or where the text is wrong.
func value[T any](r *Resolved, key string) T {
	v, _ := r.values[key].(T)
	return v
}

// Resolve checks everything that can be checked without data. Its error is an *[Error] that
// names every key that is wrong.
func (c Config) Resolve() (*Resolved, error) { return c.resolve(nil) }

// resolve is Resolve where the texts of a recipe are read.
func (c Config) resolve(t *texts) (*Resolved, error) {
	if t == nil {
		t = &texts{}
	}
	r := &Resolved{c, map[string]any{}}
	errs := r.read(t)
	speedKnown(r)
	for _, check := range []func(*Resolved) error{
		checkSteps, checkUntil, checkFIFO, checkObserved, checkElastic, checkEmulate, checkWeightless, checkFaults, checkShared, checkDropout,
	} {
		errs = append(errs, check(r))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &Error{err}
	}
	return r, nil
}

// read reads the text of each key, writes it in canonical form, and checks each key by itself.
func (r *Resolved) read(t *texts) (errs []error) {
	v := reflect.ValueOf(&r.config).Elem()
	for _, k := range allKeys() {
		f := v.Field(k.field)
		if k.Name == constantsKey {
			continue
		}
		if l, ok := k.language(); ok {
			x, err := t.parse(k, formatValue(f))
			if err == nil {
				r.values[k.Name], err = x, setValue(f, l.text(x))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("key %q: %w", k.Name, err))
			}
		}
		if err := k.inRange(f); err != nil {
			errs = append(errs, fmt.Errorf("key %q: %w", k.Name, err))
		} else if k.tag.Get("unit") == "duration" {
			r.values[k.Name], _ = time.ParseDuration(f.String())
		}
	}
	return append(errs, r.config.Constants.wrong("key %q: %w", constantsKey+".")...)
}

// fill gives a job the values of the keys that name a field of it by tag job.
func (r *Resolved) fill(j *train.Job) {
	from, to := reflect.ValueOf(r.config), reflect.ValueOf(j).Elem()
	for _, k := range allKeys() {
		name := k.tag.Get("job")
		if name == "" {
			continue
		}
		v := from.Field(k.field)
		if x, ok := r.values[k.Name]; ok {
			v = reflect.ValueOf(x)
		}
		to.FieldByName(name).Set(v)
	}
}

// Ranks is how many workers and servers a run has, which needs no data.
func (r *Resolved) Ranks() (workers, servers int) {
	var j train.Job
	r.fill(&j)
	return j.Workers, j.World() - j.Workers
}

// Timeless is [Config.Timeless].
func (r *Resolved) Timeless() bool {
	return timeless(r.config, r.mode(), value[staleness.Spec](r, "policy"))
}

// Trajectory is [Config.Trajectory].
func (r *Resolved) Trajectory() string {
	return trajectory(r.config, r.mode(), value[observed](r, "observe"))
}

// mode is nil where its text is wrong.
func (r *Resolved) mode() train.Mode { return value[train.Mode](r, "mode") }

// traits are those of the mode by itself, whatever stands beside it.
func traits(m train.Mode) (t train.Traits) {
	if m != nil {
		t = m.Traits(&train.Job{Mode: m})
	}
	return t
}

// Topology is the plan by which ranks sum.
func (r *Resolved) Topology() collective.Topology { return value[collective.Topology](r, "topology") }

// IsObserved reports whether key observe lists a word.
func (r *Resolved) IsObserved(word string) bool { return value[observed](r, "observe").has(word) }

// IsElastic reports whether the run goes on when workers leave it or join it.
func (r *Resolved) IsElastic() bool { return r.elasticity() != Elastic{} }

// MaxRestarts returns how many times in all ranks are started again.
func (r *Resolved) MaxRestarts() int { return r.elasticity().MaxRestarts }

// elasticity returns the options of key elastic; none of a run that is not elastic.
func (r *Resolved) elasticity() Elastic { return value[Elastic](r, "elastic") }

func checkSteps(r *Resolved) error {
	if r.config.Steps == 0 && r.config.Epochs == 0 {
		return errors.New("keys \"steps\" and \"epochs\" are both 0: nothing to do")
	}
	return nil
}

// checkUntil refuses a target that cannot come.
func checkUntil(r *Resolved) error {
	c := r.config
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

func checkFIFO(r *Resolved) error {
	c, by := r.config, r.config.Constants
	if by.Model == "fifo" && (c.NetworkPerHost > 1 || by.Colocate || c.NetworkRack > 0 || by.Stream > 0 || by.Reduce > 0 || by.Gather > 0 || by.Message > 0) {
		return errors.New("key \"constants.model\": fifo knows neither hosts nor racks nor limits of streams nor a cost of messages; use fair")
	}
	return nil
}

func checkObserved(r *Resolved) error {
	if c := r.config; r.IsObserved(Trace) && !c.OnNet().Traces {
		return fmt.Errorf("key \"observe\": net=%s has no virtual clock to trace; take trace out, or use net=%s", c.Net, netsThat(func(t NetTraits) bool { return t.Traces }))
	}
	return nil
}

func checkWeightless(r *Resolved) error {
	if c := r.config; c.Weightless && !c.OnNet().Virtual {
		return fmt.Errorf("key \"weightless\": on net=%s time would be real and pass with nothing done; use net=%s", c.Net, netsThat(func(t NetTraits) bool { return t.Virtual }))
	}
	return nil
}

func checkShared(r *Resolved) error {
	if c := r.config; traits(r.mode()).SharedMemory && !c.OnNet().SharedMemory {
		return fmt.Errorf("key \"mode\": workers of %s write to memory that they share, which net=%s does not give them; use net=%s",
			train.Modes.Name(r.mode()), c.Net, netsThat(func(t NetTraits) bool { return t.SharedMemory }))
	}
	return nil
}

func checkDropout(r *Resolved) error {
	_, err := r.modelSpec()
	return err
}

// checkElastic refuses nets that cannot change who takes part in a run.
func checkElastic(r *Resolved) error {
	switch c := r.config; {
	case !r.IsElastic():
	case !c.OnNet().Elastic:
		return c.OnNet().refuse(c.Net, "elastic", func(t NetTraits) bool { return t.Elastic })
	case c.Emulate:
		return errors.New("key \"elastic\": emulated NICs do not know who takes part; use net=sim, or emulate=false")
	}
	return nil
}

// checkEmulate refuses what emulated NICs and devices do not know.
func checkEmulate(r *Resolved) error {
	c := r.config
	switch {
	case !c.Emulate || r.IsElastic(): // which checkElastic refuses
		return nil
	case !c.OnNet().Emulates:
		return c.OnNet().refuse(c.Net, "emulate", func(t NetTraits) bool { return t.Emulates })
	case traits(r.mode()).SharedMemory:
		return fmt.Errorf("key \"emulate\": devices of their own share no memory, which mode %s is about; use mode adpsgd or agp", train.Modes.Name(r.mode()))
	}
	def := Default()
	for _, k := range []string{"constants.stream", "network.per_host", "constants.colocate", "network.rack", "constants.model", "constants.reduce", "constants.gather"} {
		if got, want := c.Get(k), def.Get(k); got != want {
			return fmt.Errorf("key %q: with emulate=true every rank is alone behind its NIC; want %s, not %s", k, want, got)
		}
	}
	return nil
}

// checkFaults refuses faults on a net on which nothing can carry them out.
func checkFaults(r *Resolved) error {
	c := r.config
	if _, timed := value[nemesis.Schedule](r, "faults").Split(); len(timed) > 0 && c.OnNet().Faults == FaultsNone {
		why := c.OnNet().Why["faults"]
		if why == "" {
			why = fmt.Sprintf("on net=%s nothing can carry them out; use net=%s", c.Net, netsThat(func(t NetTraits) bool { return t.Faults == FaultsAll }))
		}
		return fmt.Errorf("key \"faults\": %s: %s", timed, why)
	}
	return nil
}

// modelSpec is the model with the dropout key applied; nil where its text is wrong.
func (r *Resolved) modelSpec() (nn.Spec, error) {
	m := value[nn.Spec](r, "model")
	if m == nil || r.config.Dropout < 0 {
		return m, nil
	}
	v := reflect.New(reflect.TypeOf(m)).Elem()
	v.Set(reflect.ValueOf(m))
	f := v.FieldByName("Dropout")
	if !f.IsValid() {
		return nil, fmt.Errorf("key \"dropout\": model %s has none", r.config.Model)
	}
	f.SetFloat(r.config.Dropout)
	return v.Interface().(nn.Spec), nil
}
