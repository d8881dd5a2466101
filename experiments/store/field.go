package store

import (
	"cmp"
	"fmt"
	"maps"
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
var facts = []Field{
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
	{"accuracy", "on the test set, at the end", Share, learned(func(r *experiments.Result) float64 { return r.Accuracy })},
	{"top5", "share of labels among the five best classes, at the end; sets of more than ten classes", Share, func(r *Run) (any, bool) {
		if r.Result == nil || r.Result.Top5 == 0 {
			return nil, false
		}
		return r.Result.Top5, true
	}},
	{"loss", "on the test set, at the end; none if it is not finite", Number, learned(func(r *experiments.Result) float64 { return r.Loss })},
	{"best_accuracy", "on the test set, at the best of all evaluations", Share, learned(func(r *experiments.Result) float64 { return r.BestAccuracy })},
	{"best_accuracy_step", "update of that evaluation", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.BestAccuracyAt) })},
	{"best_loss", "on the test set, the least of all evaluations", Number, learned(func(r *experiments.Result) float64 { return r.BestLoss })},
	{"best_loss_step", "update of that evaluation", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.BestLossAt) })},
	{"train_loss", "at the end", Number, learned(func(r *experiments.Result) float64 { return r.TrainLoss })},
	{"updates", "updates made", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.Steps) })},
	{"samples", "samples computed on", Whole, count(func(r *experiments.Result) uint64 { return uint64(r.Samples) })},
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

// FieldsOf lists every field, and behind them metric.NAME of what the runs' models measured
// besides.
func FieldsOf(runs []*Run) []Field {
	names := map[string]bool{}
	for _, r := range runs {
		if r.Result != nil {
			for name := range r.Result.Metrics {
				names[name] = true
			}
		}
	}
	out := Fields()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, measured(name))
	}
	return out
}

// measured is the field of a metric by name.
func measured(metric string) Field {
	return Field{"metric." + metric, "what the model measures besides, on the test set, at the end", Number, result(func(r *experiments.Result) (float64, bool) {
		x, known := r.Metrics[metric]
		return x, known
	})}
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
	if metric, ok := strings.CutPrefix(name, "metric."); ok {
		return measured(metric), nil
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
