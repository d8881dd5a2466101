package advise

import (
	"embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"sync"
)

//go:embed evidence/*.csv
var shippedFiles embed.FS

// Trial is a training with a way, beside the same without it: what is known of how a
// way learns. A way is a codec, as learnsAs names it, or a mode, as Option.Way does.
type Trial struct {
	Task      string // "ResNet-50 on ImageNet"
	Kind      string // of task, as profiles have it; "" counts for all kinds
	Workers   int
	Optimizer string
	Way       string
	// Value is what was measured with the way, as Measure says, and Without what was
	// measured without it: "error" is a share, "loss" the logarithm of a perplexity,
	// "samples" how many were taken to a target.
	Measure        string
	Value, Without float64
	// Log is the natural logarithm of the updates to an accuracy, each of as many
	// samples, in units of those without the way; at most logNever.
	Log float64
	// Spread is the standard deviation of Log.
	Spread float64
	Source string
}

// logNever stands for a way that does not arrive: twenty times the updates.
var logNever = math.Log(20)

// exponents of learning curves: an error falls as a power of the number of updates.
// They turn what was lost after as many updates into updates. A half is a middle of
// what networks for images show; for the loss of language models a tenth (Kaplan et
// al. 2020, section 4, have 0.08 to 0.1 over data and steps).
var exponents = map[string]float64{"error": 0.5, "loss": 0.1}

// Shipped are the trials that come with gradlab.
var Shipped = sync.OnceValues(func() ([]Trial, error) {
	files, err := shippedFiles.ReadDir("evidence")
	if err != nil {
		return nil, err
	}
	var out []Trial
	for _, f := range files {
		r, err := shippedFiles.Open("evidence/" + f.Name())
		if err != nil {
			return nil, err
		}
		rows, err := csv.NewReader(r).ReadAll()
		r.Close()
		if err != nil {
			return nil, fmt.Errorf("evidence %s: %w", f.Name(), err)
		}
		for i, row := range rows[1:] {
			t, err := trial(row)
			if err != nil {
				return nil, fmt.Errorf("evidence %s, line %d: %w", f.Name(), i+2, err)
			}
			out = append(out, t)
		}
	}
	return out, nil
})

// trial reads a row: task, kind, workers, optimizer, way, measure, value, raw,
// spread, source.
func trial(row []string) (Trial, error) {
	t := Trial{Task: row[0], Kind: row[1], Optimizer: row[3], Way: wayText(row[4]), Source: row[9]}
	var err error
	if t.Workers, err = strconv.Atoi(row[2]); err != nil {
		return t, err
	}
	var x [3]float64
	for i, text := range row[6:9] {
		if text == "never" {
			x[i] = math.Inf(1)
		} else if x[i], err = strconv.ParseFloat(text, 64); err != nil {
			return t, err
		}
	}
	value, raw, spread := x[0], x[1], x[2]
	if !(value > 0 && raw > 0 && spread >= 0) {
		return t, fmt.Errorf("value %g, raw %g and spread %g must be above 0", value, raw, spread)
	}
	exponent := 1.0
	if row[5] != "samples" {
		if exponent = exponents[row[5]]; exponent == 0 {
			return t, fmt.Errorf("unknown measure %q", row[5])
		}
	}
	// What ended better than without the way counts as equal: a way is chosen for
	// its steps, and a lucky run proves no more.
	t.Measure, t.Value, t.Without = row[5], value, raw
	t.Log = min(max(0, math.Log(value/raw)/exponent), logNever)
	t.Spread = math.Sqrt2 * spread / exponent
	return t, nil
}
