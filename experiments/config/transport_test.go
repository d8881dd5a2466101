package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// A transport sets its keys; what a cluster or the user says of them stays, and another
// transport takes back what the one before set.
func TestTransports(t *testing.T) {
	t.Parallel()
	r, err := ParseRecipe("test", "test.yaml", []byte("constants.share: 0.5\ntransport: mpi-tcp\ncluster: big-basin\n"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	c := runs[0].Config
	if c.Constants.Share != 0.5 || c.Constants.Reduce != 1.5e9 || c.DeviceLaw != "lognormal(sigma=0.064)" || c.Constants.Overhead != 0.027 {
		t.Errorf("share %g, reduce %g, law %s, overhead %g", c.Constants.Share, c.Constants.Reduce, c.DeviceLaw, c.Constants.Overhead)
	}
	c = Default()
	for _, name := range []string{"mpi-tcp", "nccl-rdma", "ideal"} {
		if err := c.Set("transport", name); err != nil {
			t.Fatal(err)
		}
	}
	if c != Default() {
		t.Errorf("what a transport set stays: %+v", c)
	}
}

// A simulated recipe that names no transport is on transport unknown, and draws from it. A
// known cluster's devices were rated with their software, and other nets have their own.
// What a cluster's file says is over that, and a run's folder says which it was.
func TestUnsaidTransport(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("keys: {constants.share: 1, constants.step: 0s, network.bandwidth: 10Gbps}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(own, []byte("keys: {transport: grpc}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ over, want string }{
		{"", "unknown 0.63 1ms"},
		{"net=sim", "unknown 0.63 1ms"},
		{"transport=ideal", "ideal 1 0s"},
		{"transport=nccl-tcp", "nccl-tcp 0.96 1ms"},
		{"constants.share=1", "unknown 1 1ms"},
		{"net=local", "ideal 1 0s"},
		{"net=grpc", "ideal 1 0s"},
		{"cluster=abci", "ideal 1 0s"},
		{"cluster=none", "unknown 0.63 1ms"},
		{"cluster=" + file, "unknown 1 0s"},
		{"cluster=" + own, "grpc 0.57 1ms"},
	} {
		runs := mustRuns(t, "steps: 1\n", strings.Fields(c.over)...)
		again := mustRuns(t, string(runs[0].Config.YAML()))
		resolved, err := ResolvedRecipe("", runs)
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]Run{"typed": runs[0], "of its folder": again[0], "resolved": mustRuns(t, string(resolved))[0]} {
			if got := fmt.Sprint(r.Config.Transport, " ", r.Config.Constants.Share, " ", r.Config.Constants.Step); got != c.want {
				t.Errorf("%s, %s: %s, want %s", c.over, name, got, c.want)
			}
		}
	}
	both := mustRuns(t, "steps: 1\nnet: [local, sim]\n")
	if both[0].Config.Transport != "ideal" || both[1].Config.Transport != "unknown" {
		t.Errorf("along an axis of nets: %s and %s", both[0].Config.Transport, both[1].Config.Transport)
	}
	c := Default()
	if err := c.Set("transport", "none"); err == nil || !strings.Contains(err.Error(), "ideal") {
		t.Errorf("no transport at all: %v", err)
	}
}

// Every transport says where each value is from, sets only keys that there are, and
// draws stay within what these allow, at the ends of the distributions too.
func TestEveryTransport(t *testing.T) {
	t.Parallel()
	for _, name := range hardware.Names(hardware.Transport) {
		tr, err := hardware.Load(hardware.Transport, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if tr.About == "" || tr.Source == "" || len(tr.Sets()) > 0 && !(tr.Site > 0) {
			t.Errorf("%s: about, source and, if it sets a key, site must be given", name)
		}
		c := Default()
		if err := c.Set("transport", name); err != nil {
			t.Error(err)
			continue
		}
		s, err := mustResolve(t, c).Spread()
		if err != nil {
			t.Error(err)
			continue
		}
		for _, q := range []float64{1e-6, 0.5, 1 - 1e-6} {
			at := make([]float64, s.Len())
			for i := range at {
				at[i] = q
			}
			d, factor, err := s.Draw(at)
			if err != nil || !(factor > 0) {
				t.Errorf("%s at %g: factor %g, %v", name, q, factor, err)
			}
			if q == 0.5 && (math.Abs(factor-1) > 1e-12 || d.Get("constants.share") != c.Get("constants.share")) {
				t.Errorf("%s: its middle is not its value", name)
			}
		}
	}
}

// The time of codecs varies where their table says how well it is known: at most so many
// times, whatever factor the key has, and its middle is the key's own.
func TestSpreadOfCodecs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	table := hardware.CodecTable{Name: "mine", Processor: "a device", Date: "today", Command: "none", Spread: 2}
	rate := hardware.CodecRate{Codec: "topk(keep=0.01)", Block: coding.Any}
	rate.Add(1000, 4, 2)
	table.Rates = append(table.Rates, rate)
	if err := os.WriteFile(file, table.Text(), 0o644); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]time.Duration{file: 4 * time.Microsecond, "2x" + file: 2 * time.Microsecond} {
		c := Default()
		c.Net, c.DeviceCodec = "sim", key
		s, err := mustResolve(t, c).Spread()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.Repeat([]float64{0.5}, s.Len())
		for quantile, times := range map[float64]float64{0.5: 1, normal.CDF(1): 2, normal.CDF(-1): 0.5} {
			at[s.Len()-1] = quantile
			d, _, err := s.Draw(at)
			if err != nil {
				t.Fatal(err)
			}
			// A run's own rates count at any factor, even when the file is gone.
			for _, places := range []Places{{}, {Rates: &coding.Record{Key: key, Tables: []*hardware.CodecTable{&table}}}} {
				p, err := mustResolve(t, d).CodecPrices(places)
				if err != nil {
					t.Fatal(err)
				}
				codec, _ := compress.Parse(rate.Codec)
				got := p.Price(timing.Coding{Codec: codec, Block: compress.Block{Rows: 1, Cols: 1000}})
				if math.Abs(float64(got)-times*float64(want)) > 1 || p.Err() != nil {
					t.Errorf("%s at %.2f: %v, want %g times %v (%v)", key, quantile, got, times, want, p.Err())
				}
			}
		}
	}
	c := Default()
	c.Net = "sim"
	s, err := mustResolve(t, c).Spread()
	if err != nil || s.codec != nil {
		t.Errorf("the default table says how well it is known: %v", err)
	}
	c.DeviceCodec = "free"
	if s, err = mustResolve(t, c).Spread(); err != nil || s.codec != nil {
		t.Errorf("what is free is not known exactly: %v", err)
	}
	if _, err := hardware.ReadCodecs("x.yaml", []byte("name: x\nspread: 0.5\nrates: [{codec: raw, block: any, ranks: 0, elements: [1], encode: [1], decode: [1]}]\n")); err == nil || !strings.Contains(err.Error(), "at least 1") {
		t.Errorf("a spread below 1: %v", err)
	}
}

var normal = distuv.UnitNormal

// A device whose rates are derived is as wide as its sheet says, beside the transport.
func TestDerivedDevicesAreWide(t *testing.T) {
	t.Parallel()
	factor := func(device string) float64 {
		c := Default()
		c.Net, c.Weightless, c.Timing, c.Device, c.Transport, c.DeviceCodec = "sim", true, "resnet50", device, "nccl-rdma", "free"
		s, err := mustResolve(t, c).Spread()
		if err != nil {
			t.Fatal(err)
		}
		q := make([]float64, s.Len())
		for i := range q {
			q[i] = distuv.UnitNormal.CDF(1)
		}
		_, f, err := s.Draw(q)
		if err != nil {
			t.Fatal(err)
		}
		return math.Log(f)
	}
	measured, derived := factor("h100"), factor("h200")
	if got := math.Sqrt(derived*derived - measured*measured); math.Abs(got-0.18) > 1e-6 {
		t.Errorf("a site of h100 is off by %.3f, of h200 by %.3f: its sheet says 0.18 more", measured, derived)
	}
}
