package advise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/rng"
)

// Speed is how fast a codec works, in bytes of dense float32 gradient a second.
// 0: it takes no time.
type Speed struct {
	Encode float64 `yaml:"encode" json:"encode"`
	Decode float64 `yaml:"decode" json:"decode"`
}

// Speeds are the speeds of codecs, by spec text. Codecs that are not in it
// take no time.
type Speeds map[string]Speed

// LoadSpeeds reads a table of speeds, a YAML file:
//
//	qsgd(bits=4): {encode: 2e9, decode: 5e9}
func LoadSpeeds(file string) (Speeds, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var read Speeds
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&read); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w; want codecs with encode and decode, as in 'qsgd(bits=4): {encode: 2e9, decode: 5e9}'", file, err)
	}
	out := Speeds{}
	for spec, s := range read {
		if _, err := compress.Parse(spec); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for field, x := range map[string]float64{"encode": s.Encode, "decode": s.Decode} {
			if !(x >= 0) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("%s: %s: %s is %v; want bytes a second, finite, or 0 for no time", file, spec, field, x)
			}
		}
		out[experiments.Canonical("codec", spec)] = s
	}
	return out, nil
}

// Measure times codecs on this machine, one core: the fastest of seven goes over a
// matrix of a million normal values, as what else the machine does can only make
// them slower.
func Measure(codecs []string) (Speeds, error) {
	const rows, cols = 1024, 1024
	g := make([]float32, rows*cols)
	k := rng.New(1, "advise")
	for i := range g {
		g[i] = float32(k.Norm(uint64(i)))
	}
	sum := make([]float32, len(g))
	out := Speeds{}
	for _, spec := range codecs {
		f, err := compress.Parse(spec)
		if err != nil {
			return nil, err
		}
		if _, raw := f.(compress.Raw); raw {
			continue
		}
		c, err := f.New(compress.Block{Name: "measured", Role: "weight", Rows: rows, Cols: cols, World: 1, Peer: -1, Seed: 1})
		if err != nil {
			return nil, fmt.Errorf("codec %s: %w", spec, err)
		}
		var b []byte
		var encode, decode []time.Duration
		for step := range 7 {
			start := time.Now()
			if b, err = c.Append(b[:0], g, compress.Step{N: step, Seed: 1}); err != nil {
				return nil, fmt.Errorf("codec %s: %w", spec, err)
			}
			encode = append(encode, time.Since(start))
			start = time.Now()
			if err := c.AddTo(sum, 1, b, compress.From{Step: step}); err != nil {
				return nil, fmt.Errorf("codec %s: %w", spec, err)
			}
			decode = append(decode, time.Since(start))
		}
		rate := func(d []time.Duration) float64 { return 4 * float64(len(g)) / slices.Min(d).Seconds() }
		out[experiments.Canonical("codec", spec)] = Speed{rate(encode), rate(decode)}
	}
	return out, nil
}
