package coding

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// machine is a meter of a machine that is so many times as slow as the table's, on which one
// codec takes so many times as long again in each measurement; behind the last 1.
func machine(t *testing.T, slow float64, spec string, times ...float64) (m *Meter, table *hardware.CodecTable) {
	t.Helper()
	table, err := Load(Default)
	if err != nil {
		t.Fatal(err)
	}
	m = NewMeter("")
	m.Measure = func(f compress.Family) (*hardware.CodecRate, error) {
		r := *table.Find(compress.Spec(f), "matrix", 0)
		by := slow
		if r.Codec == spec {
			x := 1.0
			if len(times) > 0 {
				x, times = times[0], times[1:]
			}
			by *= x
		}
		i := slices.Index(r.Elements, 262144)
		r.Elements, r.Encode, r.Decode = r.Elements[i:i+1], []float64{by * r.Encode[i]}, []float64{by * r.Decode[i]}
		return &r, nil
	}
	return m, table
}

// A codec that takes eleven times as long as in the table of rates is told from it on any
// machine, and one that is as it was, or was disturbed, is not. It is measured once.
func TestBesideATable(t *testing.T) {
	t.Parallel()
	const spec = "topk(keep=0.01)"
	f, err := compress.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, slow := range []float64{0.5, 1, 30} {
		for _, c := range []struct {
			times []float64
			want  float64
		}{{nil, 1}, {[]float64{11, 12, 13, 1}, 11}, {[]float64{11, 1.5}, 1.5}, {[]float64{0.01}, 0.01}} {
			m, table := machine(t, slow, spec, c.times...)
			for range 2 {
				if got, err := m.Beside(table, f); err != nil || got < 0.99*c.want || got > 1.01*c.want {
					t.Errorf("on a machine %g times as slow, %v times as long: %g, %v", slow, c.times, got, err)
				}
			}
		}
	}
	m, table := machine(t, 1, spec)
	m.Measure = func(compress.Family) (*hardware.CodecRate, error) { return nil, errors.New("no such thing") }
	if _, err := m.Beside(table, f); err == nil {
		t.Error("a codec that cannot be measured was")
	}
	table.Rates = nil
	if times, err := m.Beside(table, f); err != nil || times != 0 {
		t.Errorf("a codec that no table has: %g, %v", times, err)
	}
}

// What was billed by the table that comes with gradlab is held against this build, and what
// was billed otherwise is not.
func TestMisfitIsOfWhatWasBilled(t *testing.T) {
	t.Parallel()
	const spec = "topk(keep=0.01)"
	slow := []float64{11, 11, 11, 11}
	price := func(b *Book, specs ...string) string {
		t.Helper()
		for _, s := range specs {
			f, err := compress.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			b.Price(timing.Coding{Codec: f, Block: compress.Block{Rows: 10, Cols: 100}})
		}
		if err := b.Err(); err != nil {
			t.Fatal(err)
		}
		return b.Misfit()
	}
	m, table := machine(t, 1, spec, slow...)
	if s := price(NewBook(Speed{Times: 1}, m, table), "sign", spec); !strings.Contains(s, "in this build topk(keep=0.01) took more than 5 times as long") || !strings.Contains(s, "device.codec=here") {
		t.Error(s)
	}
	m, table = machine(t, 1, spec, slow...)
	if s := price(NewBook(Speed{Times: 1}, m, table), "sign", "bf16"); s != "" {
		t.Errorf("of others: %s", s)
	}
	if s := price(NewBook(Speed{Times: 1}, nil, table), spec); s != "" {
		t.Errorf("without a meter: %s", s)
	}
	table.Name = "mine"
	if s := price(NewBook(Speed{Times: 1}, m, table), spec); s != "" {
		t.Errorf("by another table: %s", s)
	}
	if s := (*Book)(nil).Misfit(); s != "" {
		t.Error(s)
	}
}

// The codecs of the table are measured here as they were there.
func TestOne(t *testing.T) {
	t.Parallel()
	f, err := compress.Parse("sign")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewMeter("").Measure(f)
	if err != nil || r.Codec != "sign" || len(r.Elements) != 1 || r.Elements[0] != 262144 || r.Encode[0] <= 0 || r.Decode[0] <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
