package pipeline

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/registry"
)

// all are the schedules by spec text: each with its defaults, and with three stages on a
// device where there may be several.
func all(t *testing.T) map[string]Schedule {
	t.Helper()
	out := map[string]Schedule{}
	for _, name := range Schedules.Names() {
		for _, spec := range []string{name, name + "(chunks=3)"} {
			s, err := Schedules.Parse(spec)
			if err == nil {
				out[spec] = s
			} else if spec == name {
				t.Fatal(err)
			}
		}
	}
	return out
}

var even = Times{Forward: []float64{1}, Inputs: []float64{1}, Weights: []float64{1}}

// Every plan is proved, at all numbers of devices and micro-batches that a schedule takes;
// the others are refused with what it wants. Plans are data: made again, they are the same.
func TestPlansAreProved(t *testing.T) {
	for spec, s := range all(t) {
		planned := 0
		for devices := 1; devices <= 7; devices++ {
			for micros := 1; micros <= 22; micros++ {
				p, err := s.Plan(devices, micros)
				if err != nil {
					if !strings.Contains(err.Error(), fmt.Sprint(micros)) || micros%devices == 0 && micros >= 2*devices {
						t.Errorf("%s on %d devices, %d micro-batches: %v", spec, devices, micros, err)
					}
					continue
				}
				planned++
				if err := Verify(p); err != nil {
					t.Errorf("%s on %d devices, %d micro-batches: %v", spec, devices, micros, err)
				}
				if again, _ := s.Plan(devices, micros); !reflect.DeepEqual(p, again) {
					t.Errorf("%s on %d devices, %d micro-batches: another plan the second time", spec, devices, micros)
				}
				if len(p.Devices) != devices || p.Micros != micros {
					t.Errorf("%s: %d devices and %d micro-batches, want %d and %d", spec, len(p.Devices), p.Micros, devices, micros)
				}
			}
		}
		if planned < 60 {
			t.Errorf("%s plans for %d numbers only", spec, planned)
		}
		for _, n := range [][2]int{{0, 1}, {1, 0}, {-1, 5}} {
			if _, err := s.Plan(n[0], n[1]); err == nil {
				t.Errorf("%s plans for %d devices and %d micro-batches", spec, n[0], n[1])
			}
		}
	}
}

//go:embed testdata/orders.txt
var orders string

// Plans are those of torch.distributed.pipelining 2.15, cell by cell; testdata/orders.py
// made the file. The last row of its 1F1B names forward passes by one more than it does, so
// of that row the kinds are compared.
func TestPlansArePyTorchs(t *testing.T) {
	met := 0
	for block := range strings.SplitSeq(strings.TrimSpace(orders), "\n") {
		if strings.Contains(block, ",") {
			continue
		}
		met++
		var spec string
		var devices, micros int
		if _, err := fmt.Sscan(block, &spec, &devices, &micros); err != nil {
			t.Fatal(err)
		}
		_, rows, _ := strings.Cut(orders, block+"\n")
		rows = strings.Join(strings.SplitN(rows, "\n", devices+1)[:devices], "\n")
		want, err := ReadCSV(strings.NewReader(rows))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Schedules.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Plan(devices, micros)
		if err != nil {
			t.Errorf("%s: %v", block, err)
			continue
		}
		for d := range devices {
			g, w := fmt.Sprint(got.Devices[d]), fmt.Sprint(want.Devices[d])
			if spec == "1f1b" && d == devices-1 {
				kinds := func(r rune) rune {
					if strings.ContainsRune("FB", r) {
						return r
					}
					return -1
				}
				g, w = strings.Map(kinds, g), strings.Map(kinds, w)
			}
			if g != w {
				t.Errorf("%s, device %d:\n%s\nPyTorch has\n%s", block, d, g, w)
			}
		}
	}
	if met < 20 {
		t.Errorf("%d plans only", met)
	}
}

// A device waits as long as the closed forms say (arXiv 2006.09503, 2104.04473, 2401.10241,
// and the table of DualPipe's page), with passes of unlike length.
func TestIdleTimes(t *testing.T) {
	const f, b, w = 1.25, 1.5, 0.75
	for _, c := range []struct {
		spec string
		want func(p float64) float64
	}{
		{"gpipe", func(p float64) float64 { return (p - 1) * (f + b + w) }},
		{"1f1b", func(p float64) float64 { return (p - 1) * (f + b + w) }},
		{"bfs(chunks=3)", func(p float64) float64 { return (p - 1) * (f + b + w) }}, // a stage is a third of a device's work
		{"interleaved(chunks=3)", func(p float64) float64 { return (p - 1) * (f + b + w) }},
		{"zbh1", func(p float64) float64 { return (p - 1) * (f + b - w) }},
	} {
		s := Schedules.MustParse(c.spec)
		for devices := 1; devices <= 8; devices++ {
			p, err := s.Plan(devices, 3*devices)
			if err != nil {
				t.Fatal(err)
			}
			cost, err := Price(p, Times{Forward: []float64{f}, Inputs: []float64{b}, Weights: []float64{w}})
			if err != nil {
				t.Fatal(err)
			}
			for d, got := range cost.Wait {
				if want := c.want(float64(devices)); math.Abs(got-want) > 1e-6 {
					t.Errorf("%s: device %d of %d waits for %v, want %v", c.spec, d, devices, got, want)
				}
			}
		}
	}
	for _, spec := range []string{"zbh2", "zbv"} {
		for devices := 1; devices <= 8; devices++ {
			p, err := Schedules.MustParse(spec).Plan(devices, 3*devices)
			if err != nil {
				t.Fatal(err)
			}
			cost, err := Price(p, even)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Max(cost.Idle) > 1e-6 {
				t.Errorf("%s on %d devices: they idle for %v, want never where F = B = W", spec, devices, cost.Idle)
			}
		}
	}
	// Where an overlapped pair takes as long as its passes one by one, F&B is 3.
	for devices := 1; devices <= 6; devices++ {
		p, err := DualPipeV{}.Plan(devices, 3*devices)
		if err != nil {
			t.Fatal(err)
		}
		cost, err := Price(p, even)
		if err != nil {
			t.Fatal(err)
		}
		if want := float64(devices-1) * (3 + 2 - 3); math.Abs(cost.Wait[0]-want) > 1e-6 {
			t.Errorf("dualpipev on %d devices: it waits for %v, want %v", devices, cost.Wait[0], want)
		}
		times := even
		times.Hidden = 1
		hidden, err := Price(p, times)
		if err != nil {
			t.Fatal(err)
		}
		if devices > 1 && !(hidden.Seconds < cost.Seconds) {
			t.Errorf("dualpipev on %d devices: passes that hide behind others save nothing", devices)
		}
	}
}

// What a device holds at most is what papers say, in micro-batches of a stage.
func TestHeldActivations(t *testing.T) {
	for _, c := range []struct {
		spec string
		want func(p, s, m int) int
	}{
		{"gpipe", func(_, _, m int) int { return m }},
		{"1f1b", func(p, s, m int) int { return min(m, p-s) }},
		{"bfs", func(_, _, m int) int { return 2 * m }},
		{"interleaved", func(p, s, _ int) int { return 2*(p-s-1) + p + 1 }},
		{"interleaved(chunks=3)", func(p, s, _ int) int { return 2*(p-s-1) + 2*p + 1 }},
		{"zbh1", func(p, _, _ int) int { return p }},       // as 1f1b's first
		{"zbh2", func(p, _, _ int) int { return 2*p - 1 }}, // twice
		{"zbv", func(p, _, _ int) int { return 2 * p }},    // of half a device's layers
		{"dualpipev", func(p, _, _ int) int { return 2*p + 1 }},
	} {
		for devices := 2; devices <= 6; devices++ {
			p, err := Schedules.MustParse(c.spec).Plan(devices, 4*devices)
			if err != nil {
				t.Fatal(err)
			}
			cost, err := Price(p, even)
			if err != nil {
				t.Fatal(err)
			}
			for s, got := range cost.Held {
				if want := c.want(devices, s, 4*devices); got != want {
					t.Errorf("%s: device %d of %d holds %d, want %d", c.spec, s, devices, got, want)
				}
			}
		}
	}
}

// With stages of unlike length GPipe takes as long as the slowest, once for each
// micro-batch, and each of the others once; what moves adds its time to every hand-over.
func TestUnlikeStages(t *testing.T) {
	p, err := GPipe{}.Plan(3, 5)
	if err != nil {
		t.Fatal(err)
	}
	cost, err := Price(p, Times{Forward: []float64{1, 4, 2}, Inputs: []float64{2, 8, 4}, Weights: []float64{0}})
	if err != nil {
		t.Fatal(err)
	}
	if want := 5*(4+8.0) + 1 + 2 + 2 + 4; cost.Seconds != want {
		t.Errorf("%v, want %v", cost.Seconds, want)
	}
	moved, err := Price(p, Times{Forward: []float64{1, 4, 2}, Inputs: []float64{2, 8, 4}, Weights: []float64{0}, Move: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if want := cost.Seconds + 4*0.5; moved.Seconds != want {
		t.Errorf("%v with moves, want %v", moved.Seconds, want)
	}
	for _, wrong := range []Times{{}, {Forward: []float64{1, 2}, Inputs: []float64{1}, Weights: []float64{1}},
		{Forward: []float64{-1}, Inputs: []float64{1}, Weights: []float64{1}}, {Forward: []float64{1}, Inputs: []float64{math.NaN()}, Weights: []float64{1}},
		{Forward: []float64{1}, Inputs: []float64{1}, Weights: []float64{1}, Hidden: 2}} {
		if _, err := Price(p, wrong); err == nil {
			t.Errorf("%+v has a price", wrong)
		}
	}
}

// What a plan can get wrong is found, and said.
func TestVerifyRefuses(t *testing.T) {
	make := func() *Plan {
		p, err := OneFOneB{}.Plan(3, 4)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for want, spoil := range map[string]func(p *Plan){
		"never does 1F3": func(p *Plan) {
			p.Devices[1] = slices.DeleteFunc(p.Devices[1], func(c Cell) bool { return c[0] == Action{1, Forward, 3} })
		},
		"by nothing: want B":               func(p *Plan) { p.Devices[2] = p.Devices[2][:len(p.Devices[2])-1] },
		"by I: want B":                     func(p *Plan) { p.Devices[2][len(p.Devices[2])-1][0].Kind = Inputs },
		"does 0F1 twice":                   func(p *Plan) { p.Devices[0] = append(p.Devices[0], Cell{{0, Forward, 1}}) },
		"stage is on device 1":             func(p *Plan) { p.Devices[0] = append(p.Devices[0], Cell{{1, Forward, 0}}) },
		"waits for ever to do":             func(p *Plan) { slices.Reverse(p.Devices[2]) },
		"there are 3 stages":               func(p *Plan) { p.Devices[0][0][0].Stage = 9 },
		"want F, B, I or W":                func(p *Plan) { p.Devices[0][0][0].Kind = 'X' },
		"want an action":                   func(p *Plan) { p.Devices[0][0] = nil },
		"0 micro-batches":                  func(p *Plan) { p.Micros = 0 },
		"want an action, or a forward and": func(p *Plan) { p.Devices[0][0] = Cell{{0, Forward, 0}, {0, Forward, 1}} },
	} {
		p := make()
		spoil(p)
		if err := Verify(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := Price(p, even); err == nil {
			t.Errorf("a plan that %s has a price", want)
		}
	}
}

// A plan written for PyTorch reads back as it was; what is no plan is refused with its place.
func TestCSV(t *testing.T) {
	for spec, s := range all(t) {
		p, err := s.Plan(4, 12)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := p.WriteCSV(&b); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadCSV(&b); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%s reads back as another plan: %v", spec, err)
		}
	}
	for text, want := range map[string]string{
		"0F0,0B0\n1F0,x":             "row 2, cell 2",
		"0F0,1B0\n1F0":               "stage 1 is on device 0",
		"0F0,0B0\n5F0":               "nothing is done with stage 1",
		"0F99999999999999999999":     "micro-batch up to",
		"(0F0)OVERLAP_F_B":           "overlaps no two",
		"(0F0;(0F1;0F2))OVERLAP_F_B": "no pass",
		"0F-1":                       "micro-batch up to",
		"\"0F0":                      "pipeline: ",
	} {
		if _, err := ReadCSV(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	p, err := ReadCSV(strings.NewReader("0UNSHARD,0F0,0SEND_F0,,1RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0\n"))
	if err != nil || fmt.Sprint(p.Devices) != "[[0F0 0B0] [1F0 1B0]]" || Verify(p) != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// Whatever ReadCSV takes can be verified, priced and written.
func FuzzReadCSV(f *testing.F) {
	f.Add("0F0,0B0\n1F0,1B0\n")
	f.Add("(0F0;1B0)OVERLAP_F_B,0I0,0W0")
	f.Add(orders)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadCSV(strings.NewReader(text))
		if err != nil {
			return
		}
		if p.Micros*len(p.Stages) > 1e6 {
			return
		}
		if cost, err := Price(p, even); err == nil {
			if err := cost.Draw(&bytes.Buffer{}, p, 80); err != nil {
				t.Error(err)
			}
		}
		var b bytes.Buffer
		if err := p.WriteCSV(&b); err != nil {
			t.Error(err)
		}
	})
}

// The picture has a line a device, as long as asked.
func TestDraw(t *testing.T) {
	for spec, s := range all(t) {
		p, err := s.Plan(4, 8)
		if err != nil {
			t.Fatal(err)
		}
		cost, err := Price(p, even)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := cost.Draw(&b, p, 100); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(b.String()) {
			if len(l) != 101 {
				t.Errorf("%s: a line of %d columns: %s", spec, len(l)-1, l)
			}
		}
	}
}

// A schedule is an option struct like all parts.
func TestSpecs(t *testing.T) {
	for spec := range all(t) {
		s := Schedules.MustParse(spec)
		if v, ok := s.(registry.Validator); ok && v.Validate() != nil {
			t.Errorf("%s: %v", spec, v.Validate())
		}
		if again := Schedules.MustParse(Schedules.Spec(s)); again != s {
			t.Errorf("%s reads back as %s", spec, Schedules.Spec(again))
		}
	}
	if _, err := Schedules.Parse("interleaved(chunks=0)"); err == nil {
		t.Error("no stages on a device")
	}
}
