package coding

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// Every table that comes with gradlab says what it was measured on and how, names
// codecs there are, and is as it would be written. Rates of a device itself, without the
// speed of a core, are held to where they are from: see study grace.
func TestCommittedTables(t *testing.T) {
	if !slices.Contains(hardware.Codecs(), Default) {
		t.Fatalf("no table %s in %v", Default, hardware.Codecs())
	}
	for _, name := range hardware.Codecs() {
		table, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if table.Name != name || table.Processor == "" || table.Date == "" || table.Command == "" {
			t.Errorf("%s: %s, %s, %s, %s", name, table.Name, table.Processor, table.Date, table.Command)
		}
		core := table.FLOPS > 0
		if core && (table.FLOPS < 1e9 || table.Memory < 1e9) || !core && table.Spread == 0 {
			t.Errorf("%s: %s, %s, %s, %g FLOP/s, %g B/s", name, table.Name, table.Date, table.Command, table.FLOPS, table.Memory)
		}
		for _, r := range table.Rates {
			f, err := compress.Parse(r.Codec)
			if err != nil || compress.Spec(f) != r.Codec || core && !slices.Equal(r.Elements, Sizes) {
				t.Errorf("%s: %s at %v: %v", name, r.Codec, r.Elements, err)
			}
			for i := range r.Elements { // 10 µs to 0.01 ns an element
				if s := r.Encode[i] + r.Decode[i]; core && (!(s > 0.01) || s > 1e4) || !(s > 0) {
					t.Errorf("%s: %s takes %g ns an element", name, r.Codec, s)
				}
			}
		}
		again, err := hardware.ReadCodecs(name, table.Text())
		if err != nil || !bytes.Equal(again.Text(), table.Text()) {
			t.Errorf("%s is not what would be written: %v", name, err)
		}
	}
}

// Every family with its defaults can be priced by the table that bills where
// nothing is said, in every way it is used.
func TestDefaultTableKnowsEveryFamily(t *testing.T) {
	table, err := Load(Default)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBook(Speed{FLOPS: table.FLOPS}, nil, table)
	for _, name := range compress.Families.Names() {
		f, err := compress.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range []compress.Block{{Role: "weight", Rows: 100, Cols: 70, World: 4}, {Role: "bias", Rows: 1, Cols: 3000, World: 4}} {
			block.Peer = -1
			ranks := []int{0}
			if _, road, err := compress.NewExchange(f, block); err == nil && road != compress.RoadGather {
				ranks = append(ranks, 4)
			}
			for _, r := range ranks {
				for _, decode := range []bool{false, true} {
					if d := b.Price(timing.Coding{Codec: f, Block: block, Ranks: r, Decode: decode}); d < 0 || b.Err() != nil {
						t.Fatalf("%s, %d ranks: %v, %v", name, r, d, b.Err())
					}
				}
			}
		}
	}
}

// Times lie on lines between sizes, grow at the last rate above them, and keep a
// fixed part below.
func TestSeconds(t *testing.T) {
	r := hardware.CodecRate{Elements: []int{100, 1000, 10000}, Encode: []float64{10, 2, 1}, Decode: []float64{1, 1, 1}}
	for n, ns := range map[int]float64{100: 1000, 1000: 2000, 550: 1500, 5500: 6000, 10000: 10000, 30000: 30000, 10: 900, 0: 0} {
		if got := 1e9 * r.Seconds(n, false); math.Abs(got-ns) > 1e-6 {
			t.Errorf("%d elements take %g ns, want %g", n, got, ns)
		}
		if got := 1e9 * r.Seconds(n, true); math.Abs(got-float64(n)) > 1e-6 {
			t.Errorf("%d elements take %g ns to decode", n, got)
		}
	}
	one := hardware.CodecRate{Elements: []int{1}, Encode: []float64{4}, Decode: []float64{0}}
	if s := one.Seconds(250, false); math.Abs(s-1e-6) > 1e-15 {
		t.Errorf("a flat rate makes %g", s)
	}
}

// Prices follow the device's speed, the number of ranks where an exchange decodes
// what each sends, and the codec that is chosen for a block.
func TestBook(t *testing.T) {
	one := func(codec, block string, ranks int, encode, decode float64) hardware.CodecRate {
		return hardware.CodecRate{Codec: codec, Block: block, Ranks: ranks, Elements: []int{1}, Encode: []float64{encode}, Decode: []float64{decode}}
	}
	table := &hardware.CodecTable{Name: "test", FLOPS: 1e10, Memory: 1e10, Rates: []hardware.CodecRate{
		one("sign", "matrix", 0, 10, 20), one("sign", "vector", 0, 30, 40), one("cltk(keep=0.01)", "matrix", 2, 10, 20), one("cltk(keep=0.01)", "matrix", 8, 10, 80),
		one("feedback(bysize(sign,raw,limit=10))", "weight matrix", 0, 50, 60),
	}}
	matrix := compress.Block{Role: "weight", Rows: 10, Cols: 100}
	for _, c := range []struct {
		codec  string
		speed  Speed
		ranks  int
		decode bool
		want   time.Duration
	}{
		{"sign", Speed{FLOPS: 1e10}, 0, false, 10_000},
		{"sign", Speed{FLOPS: 1e11}, 0, true, 2_000},
		{"sign", Speed{Times: 4, Memory: 1, FLOPS: 1}, 0, true, 5_000},
		{"sign", Speed{Memory: 2e10, FLOPS: 1}, 0, true, 10_000},
		{"bysize(large=sign,small=raw,limit=10)", Speed{FLOPS: 1e10}, 0, false, 10_000},
		{"feedback(bysize(large=sign,small=raw,limit=10))", Speed{FLOPS: 1e10}, 0, false, 50_000},
		{"cltk", Speed{FLOPS: 1e10}, 2, true, 20_000},
		{"cltk", Speed{FLOPS: 1e10}, 8, true, 80_000},
		{"cltk", Speed{FLOPS: 1e10}, 12, true, 120_000},
		{"cltk", Speed{FLOPS: 1e10}, 12, false, 10_000},
	} {
		f, err := compress.Parse(c.codec)
		if err != nil {
			t.Fatal(err)
		}
		b := NewBook(c.speed, nil, table)
		if got := b.Price(timing.Coding{Codec: f, Block: matrix, Ranks: c.ranks, Decode: c.decode}); got != c.want || b.Err() != nil {
			t.Errorf("%+v: %v, %v", c, got, b.Err())
		}
		// What it used prices alike, as a run that is made again finds it.
		text := (&Record{Key: "measured", Tables: b.Used()}).Text()
		rec, err := ReadRecord("codecs.yaml", text)
		if err != nil || rec.Key != "measured" {
			t.Fatalf("%v\n%s", err, text)
		}
		again := NewBook(c.speed, nil, rec.Tables...)
		if got := again.Price(timing.Coding{Codec: f, Block: matrix, Ranks: c.ranks, Decode: c.decode}); got != c.want || again.Err() != nil {
			t.Errorf("from the record %+v: %v, %v", c, got, again.Err())
		}
	}
	b := NewBook(Speed{}, nil, table)
	b.Price(timing.Coding{Codec: compress.TernGrad{}, Block: matrix})
	if err := b.Err(); err == nil || !strings.Contains(err.Error(), "terngrad") || !strings.Contains(err.Error(), "device.codec=free") {
		t.Errorf("a codec that is in no table: %v", err)
	}
}

// A file may state speeds alone, which then are those of the device.
func TestStatedSpeeds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "speeds.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("qsgd(bits=4): {encode: 2e9, decode: 5e9}\n")
	table, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := compress.Parse("qsgd(bits=4)")
	b := NewBook(Speed{FLOPS: 1e15}, nil, table)
	for _, ranks := range []int{0, 8} {
		if d := b.Price(timing.Coding{Codec: f, Block: compress.Block{Rows: 1000, Cols: 1000}, Ranks: ranks, Decode: true}); d != 800*time.Microsecond || b.Err() != nil {
			t.Errorf("%d ranks: %v, %v", ranks, d, b.Err())
		}
	}
	rec, err := ReadRecord("codecs.yaml", (&Record{Tables: b.Used()}).Text())
	if err != nil || len(rec.Tables) != 1 || rec.Tables[0].FLOPS != 0 {
		t.Errorf("recorded: %+v, %v", rec, err)
	}
	for text, want := range map[string]string{
		"qsgdd: {encode: 2e9}": "qsgd", "bf16: {encode: .nan}": "encode is NaN", "bf16: {decode: .inf}": "decode is +Inf",
		"bf16: {encode: -1}": "encode is -1", "bf16: {encod: 2e9}": "encode and decode", "bf16: 3": "encode and decode",
		"name: x\nflops: 1e9\nmemory: 0\nrates: [{codec: raw, block: any, ranks: 0, elements: [1], encode: [1], decode: [1]}]":              "flops and memory",
		"name: x\nflops: 1e9\nmemory: 1\nrates: [{codec: raw, block: any, ranks: 0, elements: [2, 1], encode: [1, 1], decode: [1, 1]}]":     "rising",
		"name: x\nflops: 1e9\nmemory: 1\nrates: [{codec: raw, block: any, ranks: 0, elements: [1], encode: [.inf], decode: [1]}]":           "finite",
		"name: x\nflops: 1e9\nmemory: 1\nrates: [{codec: raw, block: any, ranks: 0, elements: [1], encode: [1], decode: [1], spread: 0.5}]": "a median over the least",
		"name: x\nflops: 1e9\nmemory: 1\nload: -1\nrates: []":                                                                               "load is a number of processes",
		"name: x\nflops: 1e9\nmemory: 1\nrates: [{codec: raw, element: [1]}]":                                                               "field element not found",
	} {
		write(text)
		if _, err := Load(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	write("")
	if table, err := Load(file); err != nil || len(table.Rates) != 0 {
		t.Errorf("an empty file: %+v %v", table, err)
	}
}

// A meter measures what is asked for once, keeps it, and finds it again. How long
// anything takes is not asked here.
func TestMeterKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rates")
	f, err := compress.Parse("feedback(topk(keep=0.3))")
	if err != nil {
		t.Fatal(err)
	}
	prices := func(m *Meter) (out []time.Duration, b *Book) {
		b = NewBook(Speed{Times: 1}, m)
		for _, n := range []int{10, 100, 900} {
			out = append(out, b.Price(timing.Coding{Codec: f, Block: compress.Block{Rows: 1, Cols: n}}))
		}
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		return out, b
	}
	notes := 0
	m := NewMeter(dir)
	m.doubt = math.Inf(1) // this machine may be busy
	m.Note = func(string, ...any) { notes++ }
	first, b := prices(m)
	if again, _ := prices(m); !slices.Equal(first, again) || notes != 1 {
		t.Errorf("%v, then %v; %d notes", first, again, notes)
	}
	later := NewMeter(dir)
	later.doubt = math.Inf(1)
	later.Note = func(string, ...any) { t.Error("measured again") }
	if again, _ := prices(later); !slices.Equal(first, again) {
		t.Errorf("%v, from the file %v", first, again)
	}
	used := b.Used()
	if len(used) != 1 || used[0].Processor == "" || used[0].FLOPS <= 0 || len(used[0].Rates) != 1 {
		t.Fatalf("%+v", used)
	}
	// Larger blocks want more sizes, and leave smaller ones their prices.
	b = NewBook(Speed{Times: 1}, m)
	b.Price(timing.Coding{Codec: f, Block: compress.Block{Rows: 1, Cols: 10000}})
	if again, _ := prices(m); !slices.Equal(first, again) || notes != 2 {
		t.Errorf("%v, after more sizes %v; %d notes", first, again, notes)
	}
}

// Rates are of this build: another executable, whose codecs may be others, measures its own,
// and the rates of few builds are kept. What was measured with much spread is measured again.
func TestRatesAreOfThisBuild(t *testing.T) {
	dir := t.TempDir()
	f, err := compress.Parse("sign")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(build string, doubt float64) (measured bool, table *hardware.CodecTable) {
		m := NewMeter(dir)
		m.build, m.doubt = build, doubt
		m.Note = func(string, ...any) { measured = true }
		b := NewBook(Speed{Times: 1}, m)
		b.Price(timing.Coding{Codec: f, Block: compress.Block{Rows: 1, Cols: 100}})
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		return measured, b.Used()[0]
	}
	sure := math.Inf(1)
	for _, c := range []struct {
		build    string
		doubt    float64
		measured bool
	}{{"a", sure, true}, {"a", sure, false}, {"b", sure, true}, {"a", sure, false}, {"a", 0.5, true}} {
		measured, table := ask(c.build, c.doubt)
		if measured != c.measured || table.Build != c.build || table.Date == "" || table.Rates[0].Spread < 1 {
			t.Errorf("build %s, doubt above %v: measured %v, %+v", c.build, c.doubt, measured, table)
		}
	}
	for i := range 2 * keptBuilds {
		ask(fmt.Sprint("c", i), sure)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.yaml")); err != nil || len(files) > keptBuilds+1 {
		t.Errorf("%d builds are kept: %v", len(files), err)
	}
	if build, err := executable(); err != nil || len(build) != 12 {
		t.Errorf("executable %q: %v", build, err)
	}
}

// A size stands out beside the size before, and beside codecs of its family.
func TestRatesAreBoundedByNeighbours(t *testing.T) {
	rate := func(codec string, took ...float64) hardware.CodecRate {
		r := hardware.CodecRate{Codec: codec, Block: "vector"}
		for i, x := range took {
			r.Add(Sizes[i], x/2, x/2)
		}
		return r
	}
	m := NewMeter("")
	m.table = &hardware.CodecTable{Rates: []hardware.CodecRate{rate("qsgd(bits=4)", 10, 2, 1), rate("sign", 90, 90, 90)}}
	for _, c := range []struct {
		rate hardware.CodecRate
		want bool
	}{
		{rate("qsgd(bits=8)", 12, 3, 1.5), false}, {rate("qsgd(bits=8)", 12, 3, 4.5), true}, {rate("qsgd(bits=8)", 12, 3, 10), true},
		{rate("eden(bits=1)", 50, 20, 30), false}, {rate("eden(bits=1)", 5, 2, 7), true}, {rate("qsgd(bits=4)", 100, 90, 80), false},
	} {
		if got := m.standsOut(&c.rate, 2); got != c.want {
			t.Errorf("%+v stands out: %v", c.rate, got)
		}
	}
	wide := rate("eden(bits=1)", 5, 5, 5)
	if wide.Spread = 3; !m.standsOut(&wide, 2) {
		t.Error("a spread of 3 is believed")
	}
}

// Exchanges of every road can be measured.
func TestExchangesRun(t *testing.T) {
	v := newValues(Sizes[2])
	for spec, want := range map[string]bool{
		"feedback(powersgd(rank=2))": false, "intsum(bits=8)": false, "randomk(keep=0.1)": false, "thc": false, "cltk(keep=0.1)": true, "scatter": true, "sketch": false, "vote": true,
	} {
		f, err := compress.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		collects := false
		do, err := exchanges(f, block("matrix", Sizes[2], 8), v, &collects)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		for step := range 3 {
			if _, _, err := do(step); err != nil {
				t.Errorf("%s, step %d: %v", spec, step, err)
			}
		}
		if collects != want {
			t.Errorf("%s takes longer with more ranks: %v", spec, collects)
		}
	}
}
