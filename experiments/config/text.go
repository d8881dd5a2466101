package config

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// language reads and writes the text of one kind of value. Tag spec of a key names the
// kind.
type language struct {
	parse func(text string) (any, error)
	text  func(v any) string                             // canonical
	with  func(v any, option, value string) (any, error) // sets an option; nil: no option can be set
}

// languages holds the kinds that keys name.
var languages = map[string]language{
	"model":          table(nn.Models),
	"data":           table(data.Sets),
	"optimizer":      table(sgd.Optimizers),
	"schedule":       table(lrschedule.Specs),
	"batch_schedule": table(lrschedule.Batches),
	"side_schedule":  table(lrschedule.Sides),
	"codec":          table(compress.Families),
	"mode":           table(train.Modes),
	"policy":         table(staleness.Policies),
	"corrector":      table(staleness.Correctors),
	"topology":       table(collective.Topologies),
	"graph":          table(collective.Graphs),
	"placement":      table(ps.Placements),
	"overlap":        table(train.Overlaps),
	"law":            table(timing.Laws),
	"elasticity":     table(Elasticities),
	"average":        averages(),
	"constants":      table(Ideal),
	"net":            table(Nets),
	"metric":         named(metricNamed),
	"goal":           printed(record.ParseGoal),
	"file":           named(fileNamed),
	"cluster":        sheetNames(hardware.Cluster),
	"transport":      sheetNames(hardware.Transport),
	"node":           sheetNames(hardware.Node),
	"device":         sheetNames(hardware.Device),
	"timing":         {parse: parseTiming, text: timingText},
	"slow":           printed(timing.ParseSlow),
	"observations":   printed(parseObserved),
	"faults":         printed(nemesis.Parse),
	"codec_time":     printed(parseCodecTime),
}

// table is the language of a registry. Options of its values can be set.
func table[T any](t *registry.Table[T]) language {
	return language{
		parse: func(text string) (any, error) { return t.Parse(text) },
		text:  func(v any) string { return t.Spec(v.(T)) },
		with:  func(v any, option, value string) (any, error) { return t.With(v.(T), option, value) },
	}
}

// printed is the language of values that print as their canonical text.
func printed[T fmt.Stringer](parse func(text string) (T, error)) language {
	return language{
		parse: func(text string) (any, error) { return parse(text) },
		text:  func(v any) string { return v.(T).String() },
	}
}

// named is the language of names, which are their own text.
func named(check func(text string) error) language {
	return language{
		parse: func(text string) (any, error) { return text, check(text) },
		text:  func(v any) string { return v.(string) },
	}
}

// sheetNames is the language of the names of sheets of a kind, and of files of them. There is
// no transport of name none.
func sheetNames(kind string) language {
	return named(func(text string) error {
		names := hardware.Names(kind)
		switch {
		case kind == hardware.Transport && text == "none":
			return fmt.Errorf("want a known name, not %q; software that takes nothing is %q (gradlab list transports)", text, idealTransport)
		case text == "none" || slices.Contains(names, text):
			return nil
		case hardware.IsFile(text):
			_, err := hardware.Load(kind, text)
			return err
		}
		return fmt.Errorf("want none or a known name, not %q; %s", text, registry.Suggest(text, names))
	})
}

// metricNamed refuses what no metric is called. Models may have any others.
func metricNamed(text string) error {
	if text == sgd.First {
		return nil
	}
	m, ok := sgd.FindMetric(sgd.KnownMetrics(), text)
	if !ok {
		m.Name = text
	}
	return sgd.CheckMetrics([]sgd.Metric{m})
}

// fileNamed refuses a file without a name.
func fileNamed(text string) error {
	if text == "" {
		return errors.New("want none or the name of a file")
	}
	return nil
}

// ownLayers are the operations of the model itself, the value of key timing of that name.
const ownLayers = "model"

// parseTiming reads key timing: a profile, a model, or a word that is a file or [ownLayers].
func parseTiming(text string) (any, error) {
	if text == ownLayers || hardware.IsFile(text) {
		return text, nil
	}
	if p, err := profile.Profiles.Parse(text); err == nil {
		return p, nil
	}
	return nn.Models.Parse(text)
}

// timingText is the text of a value that parseTiming returned.
func timingText(v any) string {
	switch v := v.(type) {
	case profile.Spec:
		return profile.Profiles.Spec(v)
	case nn.Spec:
		return nn.Models.Spec(v)
	}
	return v.(string)
}

// language returns that of a key's values; ok is false where they are numbers, words of a
// list, or durations.
func (k Key) language() (l language, ok bool) {
	l, ok = languages[k.tag.Get("spec")]
	return l, ok
}

// Canonical is a key's value the way resolved configurations write it; a value
// that cannot be read stays as it is.
func Canonical(key, value string) string {
	k, _ := findKey(key)
	if l, ok := k.language(); ok {
		if v, err := l.parse(value); err == nil {
			return l.text(v)
		}
	}
	return value
}

// texts holds the values that texts of a recipe are, so that each text is read once, however
// many runs have it. Several goroutines may use one.
type texts struct {
	mu   sync.Mutex
	read map[[2]string]reading
}

// reading is the value of a text, or what is wrong with it.
type reading struct {
	value any
	err   error
}

// parse reads the text of a key; where t is nil, anew.
func (t *texts) parse(k Key, text string) (any, error) {
	l, _ := k.language()
	if t == nil {
		return l.parse(text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := [2]string{k.tag.Get("spec"), text}
	was, ok := t.read[at]
	if !ok {
		if t.read == nil {
			t.read = map[[2]string]reading{}
		}
		was.value, was.err = l.parse(text)
		t.read[at] = was
	}
	return was.value, was.err
}
