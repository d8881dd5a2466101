package store

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Field is something that can be asked of a run by name: a figure of its
// result, a fact about it, or a key of its configuration.
type Field struct {
	Name, Doc string
	Kind      Kind
	get       func(*Run) (any, bool) // string, float64, uint64, bool or time.Time
}

// Kind says what a field holds and how it is shown.
type Kind int

// Kinds of fields: text; numbers; shares between 0 and 1; numbers of bytes;
// seconds; instants; how many times something is; true or false; whole numbers.
const (
	Text Kind = iota
	Number
	Share
	Bytes
	Seconds
	Instant
	Ratio
	Bool
	Whole
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"text", "number", "share", "bytes", "seconds", "instant", "ratio", "bool", "whole"}[k]
}

// Numeric reports whether values of this kind can be averaged.
func (k Kind) Numeric() bool { return k != Text && k != Instant && k != Bool }

func result(f func(*experiments.Result) (float64, bool)) func(*Run) (any, bool) {
	return func(r *Run) (any, bool) {
		if r.Result == nil {
			return nil, false
		}
		x, ok := f(r.Result)
		return x, ok && !math.IsNaN(x) && !record.Diverged(x)
	}
}

func amount(f func(*experiments.Result) float64) func(*Run) (any, bool) {
	return result(func(r *experiments.Result) (float64, bool) { return f(r), true })
}

// count is a whole number of a result.
func count(f func(*experiments.Result) uint64) func(*Run) (any, bool) {
	return func(r *Run) (any, bool) {
		if r.Result == nil {
			return nil, false
		}
		return f(r.Result), true
	}
}

// learned is an amount that runs without weights do not have.
func learned(f func(*experiments.Result) float64) func(*Run) (any, bool) {
	get := amount(f)
	return func(r *Run) (any, bool) {
		x, ok := get(r)
		return x, ok && !r.Config.Weightless
	}
}

func text(f func(*Run) string) func(*Run) (any, bool) {
	return func(r *Run) (any, bool) { s := f(r); return s, s != "" }
}

// FieldOf is a field of one's own: a number that f takes from the result of a run.
// NaN is a number that the run does not know.
func FieldOf(name string, kind Kind, f func(*experiments.Result) float64) Field {
	return Field{Name: name, Kind: kind, get: amount(f)}
}

// facts are the fields that are no keys of the configuration.
var facts = slices.Concat(before, metricFields(sgd.KnownMetrics()), behind)

// metricFields are those of metrics: their values at the end, and then their best ones with
// the updates that these were at.
func metricFields(metrics []sgd.Metric) (out []Field) {
	for _, m := range metrics {
		kind := Number
		if m.Unit == sgd.Share {
			kind = Share
		}
		out = append(out, Field{m.Column(), m.Doc() + ", at the end; none if it is not finite", kind, metricOf(func(r *experiments.Result) (float64, bool) { return r.Values.Of(m) })})
	}
	for i, m := range metrics {
		at := func(r *experiments.Result) (record.Best, bool) { b, ok := r.Best[m.Name]; return b, ok }
		out = append(out, Field{m.BestColumn(), m.Doc() + ", at the best of all evaluations", out[i].Kind, metricOf(func(r *experiments.Result) (float64, bool) {
			b, ok := at(r)
			return b.Value, ok
		})}, Field{m.StepColumn(), "update of that evaluation", Whole, metricOf(func(r *experiments.Result) (uint64, bool) {
			b, ok := at(r)
			return uint64(b.Step), ok
		})})
	}
	return out
}

// metricOf is what a result knows of a metric, and runs without weights do not.
func metricOf[V float64 | uint64](f func(*experiments.Result) (V, bool)) func(*Run) (any, bool) {
	return func(r *Run) (any, bool) {
		if r.Result == nil || r.Config.Weightless {
			return nil, false
		}
		x, ok := f(r.Result)
		return x, ok
	}
}

// before and behind are the facts around the metrics.
var before = []Field{
	{"id", "hash of the configuration", Text, text(func(r *Run) string { return r.ID })},
	{"recipe", "recipe the run came from", Text, text(func(r *Run) string { return r.Recipe })},
	{"run", "variant and axis values", Text, text(func(r *Run) string { return r.Name })},
	{"name", "given by --name or runs name", Text, text(func(r *Run) string { return r.About.Name })},
	{"tags", "given by --tag or runs tag; tags=a is every run that has a", Text, text(func(r *Run) string { return strings.Join(r.About.Tags, ",") })},
	{"note", "given by --note or runs note", Text, text(func(r *Run) string { return r.About.Note })},
	{"folder", "where the run lies", Text, text(func(r *Run) string { return r.Folder })},
	{"state", "running, done, stopped, failed, or lost: called running, but nobody writes", Text, text(func(r *Run) string { return r.State })},
	{"error", "why it failed", Text, text(func(r *Run) string { return r.Error })},
	{"host", "machine it ran on", Text, text(func(r *Run) string { s, _ := r.Env["host"].(string); return s })},
	{"cpu", "processor it ran on", Text, text(func(r *Run) string { s, _ := r.Env["cpu"].(string); return s })},
	{"started", "when", Instant, func(r *Run) (any, bool) { return r.Started, !r.Started.IsZero() }},
	{"updated", "when it last told something", Instant, func(r *Run) (any, bool) { return r.Updated, !r.Updated.IsZero() }},
	{"schema", "version of the folder's format", Whole, func(r *Run) (any, bool) { return uint64(r.Schema), true }},
	{"step", "updates made, so far if it is running", Whole, func(r *Run) (any, bool) { return uint64(r.Step), true }},
}

var behind = []Field{
	{"train_loss", "at the end", Number, learned(func(r *experiments.Result) float64 { return r.TrainLoss })},
	{"updates", "updates made", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.Steps) })},
	{"samples", "samples computed on", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.Samples) })},
	{"tokens", "tokens computed on, of texts", Whole, func(r *Run) (any, bool) {
		if r.Tokens(1) == 0 {
			return nil, false
		}
		return r.Tokens(uint64(r.Result.Samples)), true
	}},
	{"seconds", "on the net's clock: virtual on sim, else wall", Seconds, func(r *Run) (any, bool) { return r.Seconds(), r.Result != nil }},
	{"step_seconds", "seconds an update", Seconds, func(r *Run) (any, bool) {
		if r.Result == nil || r.Result.Steps == 0 {
			return nil, false
		}
		return r.Seconds() / float64(r.Result.Steps), true
	}},
	{"rate", "samples a second, on the net's clock", Number, func(r *Run) (any, bool) {
		if r.Result == nil || r.Seconds() == 0 {
			return nil, false
		}
		return float64(r.Result.Samples) / r.Seconds(), true
	}},
	{"wall_seconds", "on the wall clock", Seconds, amount(func(r *experiments.Result) float64 { return r.WallSeconds })},
	{"bytes", "that crossed the network", Bytes, count(func(r *experiments.Result) uint64 { return r.Crossed(r.BytesUp, r.BytesDown) })},
	{"bytes_up", "sent by workers", Bytes, count(func(r *experiments.Result) uint64 { return r.BytesUp })},
	{"bytes_down", "sent to workers", Bytes, count(func(r *experiments.Result) uint64 { return r.BytesDown })},
	{"compression", "bytes that codec raw would have sent, over those that were", Ratio, result(func(r *experiments.Result) (float64, bool) { return r.Compression(r.RawBytes) })},
	{"compression_bf16", "bytes that codec bf16 would have sent, over those that were", Ratio, result(func(r *experiments.Result) (float64, bool) { return r.Compression(r.BF16Bytes) })},
	{"uncompressed", "share of a gradient's bytes that the codec leaves as it is", Number, result(func(r *experiments.Result) (float64, bool) {
		if r.Uncompressed == nil {
			return 0, false
		}
		return r.Uncompressed.Share, true
	})},
	{"wire_bytes", "all that links carried; processes only", Bytes, count(func(r *experiments.Result) uint64 { return r.WireBytes })},
	{"staleness_mean", "mean staleness of applied gradients", Number, amount(func(r *experiments.Result) float64 { return r.StalenessMean })},
	{"staleness_max", "largest staleness", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.StalenessMax) })},
	{"reached", "whether the target was reached", Bool, func(r *Run) (any, bool) {
		if r.Result == nil || r.Result.Target == 0 {
			return nil, false
		}
		return r.Result.TargetReached, true
	}},
	{"target_seconds", "to the target, if it was reached", Seconds, result(func(r *experiments.Result) (float64, bool) { return r.TargetSeconds, r.TargetReached })},
	{"target_bytes", "to the target, if it was reached", Bytes, func(r *Run) (any, bool) {
		if r.Result == nil {
			return nil, false
		}
		return r.Result.TargetBytes, r.Result.TargetReached
	}},
	{"target_tokens", "to the target, if it was reached; of texts", Whole, func(r *Run) (any, bool) {
		if r.Tokens(1) == 0 {
			return nil, false
		}
		return r.Result.TargetTokens, r.Result.TargetReached
	}},
	{"params", "trainable parameters", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.Params) })},
	{"params_sha256", "of the final parameters", Text, text(func(r *Run) string {
		if r.Result == nil {
			return ""
		}
		return r.Result.ParamsSHA256
	})},
	{"ended", "target: where it was first reached, with until=target; plateau: with until=plateau", Text, text(func(r *Run) string {
		if r.Result == nil {
			return ""
		}
		return r.Result.Ended
	})},
	{"extends", "folder of the run that this one went on from (gradlab extend)", Text, text(func(r *Run) string {
		if r.Result == nil || r.Result.Extends == nil {
			return ""
		}
		return r.Result.Extends.Folder
	})},
	{"degraded", "whether something was lost", Bool, func(r *Run) (any, bool) {
		if r.Result == nil {
			return nil, false
		}
		return r.Result.Degraded, true
	}},
}

// Fields lists every field: facts and figures first, then the keys of the
// configuration. A key that shares its name with a fact does not hide it; there
// is none today.
func Fields() []Field {
	out := slices.Clone(facts)
	for _, k := range config.Keys() {
		kind := Text
		switch k.Type {
		case "int", "uint64":
			kind = Whole
		case "float64", "bandwidth", "flops":
			kind = Number
		case "duration":
			kind = Seconds
		case "bool":
			kind = Bool
		}
		out = append(out, Field{k.Name, k.Doc, kind, func(r *Run) (any, bool) {
			s := r.Config.Get(k.Name)
			switch kind {
			case Whole:
				x, err := strconv.ParseUint(s, 10, 64)
				return x, err == nil
			case Number:
				x, err := strconv.ParseFloat(s, 64)
				return x, err == nil
			case Seconds:
				d, err := time.ParseDuration(s)
				return d.Seconds(), err == nil
			case Bool:
				return s == "true", true
			}
			return s, true
		}})
	}
	return out
}

// FieldsOf lists every field, and behind them those of metrics that only some of the runs'
// models have: metric.NAME, and their best values.
func FieldsOf(runs []*Run) []Field {
	var own []sgd.Metric
	for _, m := range MetricsOf(runs) {
		if m.Column() != m.Name {
			own = append(own, m)
		}
	}
	slices.SortFunc(own, func(a, b sgd.Metric) int { return strings.Compare(a.Name, b.Name) })
	return append(Fields(), metricFields(own)...)
}

// MetricsOf lists the metrics of the runs' models, in the order of the first one that has
// each.
func MetricsOf(runs []*Run) (out []sgd.Metric) {
	for _, r := range runs {
		for _, m := range r.Metrics {
			if _, there := sgd.FindMetric(out, m.Name); !there {
				out = append(out, m)
			}
		}
	}
	return out
}

// MetricFields are the fields of what the runs' models measured, at the end.
func MetricFields(runs []*Run) []Field {
	all := MetricsOf(runs)
	return metricFields(all)[:len(all)]
}

// FieldNamed finds a field; the error says what there is.
func FieldNamed(name string) (Field, error) {
	all := Fields()
	var names []string
	for _, f := range all {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	if m, ok := sgd.MetricOf(strings.TrimSuffix(strings.TrimPrefix(name, "best_"), "_step")); ok {
		for _, f := range metricFields([]sgd.Metric{m}) {
			if f.Name == name {
				return f, nil
			}
		}
	}
	if h := config.Hint(name); h != "" {
		return Field{}, fmt.Errorf("runs have no field %q; %s", name, h)
	}
	if n := registry.Nearest(name, names); n != "" {
		return Field{}, fmt.Errorf("runs have no field %q; did you mean %q? `gradlab runs fields` lists all", name, n)
	}
	return Field{}, fmt.Errorf("runs have no field %q; `gradlab runs fields` lists all", name)
}

// Number is a field's value as a number: seconds, bytes or the number itself.
// Text, instants and what the run does not know are not ok.
func (f Field) Number(r *Run) (x float64, ok bool) {
	v, ok := f.get(r)
	if !ok {
		return 0, false
	}
	switch v := v.(type) {
	case float64:
		return v, true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

// Compare orders runs by the field; runs that do not know it come last.
func (f Field) Compare(a, b *Run) int {
	x, okx := f.get(a)
	y, oky := f.get(b)
	if !okx || !oky {
		switch {
		case okx:
			return -1
		case oky:
			return 1
		}
		return 0
	}
	switch x := x.(type) {
	case float64, uint64:
		return compareNumbers(x, y)
	case time.Time:
		return x.Compare(y.(time.Time))
	}
	return strings.Compare(exact(x), exact(y))
}

// compareNumbers orders numbers, each a float64 or a uint64, exactly.
func compareNumbers(a, b any) int {
	x, isFloat := a.(float64)
	y, isAlso := b.(float64)
	if isFloat && isAlso || isFloat && math.IsNaN(x) || isAlso && math.IsNaN(y) {
		return cmp.Compare(x, y)
	}
	return asBig(a).Cmp(asBig(b))
}

// asBig returns a number that is not NaN, to the last digit.
func asBig(v any) *big.Float {
	if x, ok := v.(uint64); ok {
		return new(big.Float).SetUint64(x)
	}
	return big.NewFloat(v.(float64))
}

// Value is a field's value as it is exported: string, float64, uint64, bool or
// time.Time; nil where the run does not know it.
func (f Field) Value(r *Run) any {
	if v, ok := f.get(r); ok {
		return v
	}
	return nil
}

// Show is a field's value for people, "" where the run does not know it.
func (f Field) Show(r *Run) string {
	v, ok := f.get(r)
	if !ok {
		return ""
	}
	switch v := v.(type) {
	case float64:
		if s := r.Config.Show(f.Name); s != r.Config.Get(f.Name) { // a key with a unit
			return s
		}
		return f.Format(v)
	case uint64:
		if f.Kind == Bytes {
			return progress.Bytes(v)
		}
	case time.Time:
		return v.Local().Format("2006-01-02 15:04")
	}
	return fmt.Sprint(v)
}

// Format writes a number the way this field's values are shown.
func (f Field) Format(x float64) string {
	switch f.Kind {
	case Share:
		return fmt.Sprintf("%.4f", x)
	case Bytes:
		return progress.Bytes(uint64(max(0, x)))
	case Seconds:
		return progress.Seconds(x)
	case Ratio:
		return fmt.Sprintf("%.1f×", x)
	}
	if x == math.Trunc(x) && math.Abs(x) < 1e7 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprintf("%.4g", x)
}

// exact is a value's full text, which filters compare.
func exact(v any) string {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return strings.TrimSpace(fmt.Sprint(v))
}
