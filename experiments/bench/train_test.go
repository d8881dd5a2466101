package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
)

// tiny is the smallest real benchmark.
func tiny(t *testing.T) TrainOptions {
	t.Helper()
	cases, err := Pick([]string{"mlp"}, 8)
	if err != nil {
		t.Fatal(err)
	}
	return TrainOptions{Cases: cases, Threads: []int{1}, Seconds: 0.05, Command: []string{"gradlab", "bench"}, Logf: t.Logf}
}

func TestPick(t *testing.T) {
	for _, c := range []struct {
		names []string
		batch int
		want  string
	}{
		{nil, 0, "mnistcnn@28/100 mlp@28/128 resnet20@32/128 resnet50@64/16 resnet50@224/8 gpt@64/12 gpt-384@256/8 gpt-768@256/2"},
		{[]string{"resnet50", "mlp@28"}, 0, "mlp@28/128 resnet50@64/16 resnet50@224/8"},
		{[]string{"gpt-384", "gpt@64"}, 0, "gpt@64/12 gpt-384@256/8"},
		{[]string{"resnet50@224"}, 2, "resnet50@224/2"},
	} {
		got, err := Pick(c.names, c.batch)
		var names []string
		for _, g := range got {
			names = append(names, fmt.Sprintf("%s/%d", g.Name(), g.Batch))
		}
		if s := strings.Join(names, " "); err != nil || s != c.want {
			t.Errorf("%v: %s, %v", c.names, s, err)
		}
	}
	if _, err := Pick([]string{"mlp", "resnet51"}, 0); err == nil || !strings.Contains(err.Error(), "resnet50@224") {
		t.Errorf("%v", err)
	}
	if _, err := Pick(nil, -1); err == nil {
		t.Error("batch -1")
	}
	two, err := In([]string{"float32", "bfloat16"}, Standard()[:1])
	if err != nil || len(two) != 2 || two[0].Name() != "mnistcnn@28" || two[1].Name() != "mnistcnn@28 bfloat16" {
		t.Errorf("%v, %v", two, err)
	}
	if us, err := newOurs(two[1]); err != nil || us.grad(t.Context()) != nil {
		t.Errorf("a step in bfloat16: %v", err)
	}
	if _, err := In([]string{"float16"}, Standard()); err == nil || !strings.Contains(err.Error(), "bfloat16") {
		t.Errorf("%v", err)
	}
}

func TestCheck(t *testing.T) {
	for _, change := range []func(*TrainOptions){
		func(o *TrainOptions) { o.Threads = nil },
		func(o *TrainOptions) { o.Threads = []int{1, 0} },
		func(o *TrainOptions) { o.Threads = []int{1 << 20} },
		func(o *TrainOptions) { o.Seconds = 0 },
		func(o *TrainOptions) { o.Seconds = 1e9 },
	} {
		o := tiny(t)
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		if change(&o); o.Check() == nil {
			t.Errorf("%+v passes", o)
		}
	}
}

func TestTrain(t *testing.T) {
	o := tiny(t)
	r, err := Train(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	const params, flops = 784*512 + 512*256 + 256*10, 2 * 3 * 8
	if row.Params != params+512+256+10 || row.Batch != 8 || row.Threads != 1 {
		t.Errorf("%+v", row)
	}
	if want := float64(flops*params) / 1e9; row.StepGFLOP < 0.99*want || row.StepGFLOP > 1.05*want {
		t.Errorf("%v GFLOP a step, want %v", row.StepGFLOP, want)
	}
	for name, v := range map[string]float64{
		"img/s": row.Rate.Median, "ms": row.StepMS, "forward": row.Forward, "backward": row.Backward,
		"update": row.Update, "GFLOP/s": row.GFLOPS, "GEMM": row.GemmGFLOPS, "share": row.GemmShare,
	} {
		if !(v > 0) {
			t.Errorf("%s is %v", name, v)
		}
	}
	if row.Rate.Min > row.Rate.Median || row.Rate.Median > row.Rate.Max || len(row.Blocks) < minRounds {
		t.Errorf("%+v", row.Speed)
	}
	if v := row.StepMS * row.Rate.Median / 8e3; math.Abs(v-1) > 1e-9 {
		t.Errorf("%v ms a step at %v img/s", row.StepMS, row.Rate.Median)
	}
	keys(t, r, "command", "machine", "rows")
	keys(t, r.Machine, "cpu", "cores", "features", "os", "arch", "go")
	keys(t, row, "name", "input", "unit", "model", "batch", "params", "threads", "rate", "step_ms", "steps_per_block",
		"blocks", "forward_ms", "backward_ms", "update_ms", "step_gflop", "gflops", "gemm_gflops", "gemm_share")
}

// keys wants exactly these in v as JSON, save for those that come and go.
func keys(t *testing.T, v any, want ...string) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "revision")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(m)); !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

func TestTrainWithPeer(t *testing.T) {
	o := tiny(t)
	o.Torch = fakeTorch(t, "well")
	r, err := Train(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	if len(row.Peers) != 2 || row.best() == nil {
		t.Fatalf("%+v", row)
	}
	for _, p := range row.Peers {
		if p.Version != "0.0-fake" || len(p.Blocks) != len(row.Blocks) || p.Faults != 3 || p.Error != "" {
			t.Errorf("%+v", p)
		}
		if p.Rate.Median > 8/200e-6 { // its step sleeps
			t.Errorf("%v img/s of steps of 200 µs", p.Rate.Median)
		}
		if p.Rate.Median > row.best().Rate.Median {
			t.Errorf("%s is faster than %s", p.Name, row.Best)
		}
		if !(p.Ratio.Min > 0 && p.Ratio.Min <= p.Ratio.Median && p.Ratio.Median <= p.Ratio.Max) {
			t.Errorf("ratio %+v", p.Ratio)
		}
	}
	keys(t, row.Peers[0], "name", "env", "channels_last", "compiled", "version", "rate", "step_ms", "steps_per_block", "blocks", "ratio", "page_faults")

	var text bytes.Buffer
	if err := r.WriteTables(&text, "csv"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mlp@28,8,1,", "torch stock", "torch tuned", "ratio to the best"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// Rates stand below the variant that reached them, though not every model has every variant.
func TestVariantsHaveColumns(t *testing.T) {
	peer := func(name string, rate float64) Peer {
		return Peer{Variant: Variant{Name: name}, Speed: Speed{Rate: Spread{Median: rate}}}
	}
	r := &TrainReport{Rows: []TrainRow{
		{Name: "a", Peers: []Peer{peer("stock", 101), peer("tuned-compiled", 102)}},
		{Name: "b", Peers: []Peer{peer("stock", 103), peer("tuned-nhwc", 104), peer("tuned-nhwc-compiled", 0)}},
	}}
	var b bytes.Buffer
	if err := r.writePeers(&b, "csv"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"torch stock,torch tuned-compiled,torch tuned-nhwc,torch tuned-nhwc-compiled", "101,102,,", "103,,104,failed"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestPeersThatFail(t *testing.T) {
	patience.Alone(t)
	for how, want := range map[string]string{
		"wrong model": "535819 parameters, ours 535818",
		"broken":      "torch stock: cannot import torch: no such library",
		"garbage":     `"Welcome to torch!", which is not JSON`,
		"silent":      "torch stock: no answer within",
		"dies":        "torch tuned: exit status 3\nKilled, as it were",
		"hangs":       "torch tuned: no answer within",
	} {
		t.Run(how, func(t *testing.T) {
			if !patience.Long && how != "dies" && how != "hangs" {
				t.Skip("each trains a model of ours first")
			}
			o := tiny(t)
			o.Torch = fakeTorch(t, how)
			if how == "silent" {
				o.Torch.patience /= 4
			}
			r, err := Train(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %v, want %q", err, want)
			}
			row := r.Rows[0]
			if row.Error != "" || !(row.Rate.Median > 0) {
				t.Errorf("our own row is lost: %+v", row)
			}
			if late := how == "dies" || how == "hangs"; late != (row.Best == "stock") || row.Peers[1].Error == "" {
				t.Errorf("best is %q, %+v", row.Best, row.Peers)
			}
			var text bytes.Buffer
			if err := r.WriteTables(&text, "box"); err != nil || !strings.Contains(text.String(), "failed") {
				t.Errorf("%v\n%s", err, text.String())
			}
		})
	}
}

func TestFindTorch(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ python, how, want string }{
		{self, "missing", self + " cannot import torch (ModuleNotFoundError: No module named 'torch')"},
		{"/no/such/python", "well", "/no/such/python"},
	} {
		_, err := FindTorch(t.Context(), c.python, append(os.Environ(), fakeVariable+"="+c.how))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), torchInstall) || !strings.Contains(err.Error(), "--python") {
			t.Errorf("%s: %v", c.python, err)
		}
	}
}

// The end of the context ends everybody at once.
func TestTrainStops(t *testing.T) {
	o := tiny(t)
	o.Seconds, o.Torch = 600, fakeTorch(t, "well")
	o.Torch.patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	done := make(chan error)
	go func() {
		r, err := Train(ctx, o)
		if len(r.Rows) != 0 {
			err = fmt.Errorf("an incomplete row is reported: %w", err)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "row") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

// Every case is the same model on both sides: start compares the numbers of
// trained parameters.
func TestTorchHasTheSameModels(t *testing.T) {
	if !patience.Long {
		t.Skip("starts PyTorch")
	}
	torch, err := FindTorch(t.Context(), "", os.Environ())
	if err != nil {
		t.Skip(err)
	}
	torch.patience = patience.Stretch(torch.patience)
	for _, c := range Standard() {
		c.Batch = 2
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			us, err := newOurs(c)
			if err != nil {
				t.Fatal(err)
			}
			variants := torch.Variants(c, 1)
			w, err := torch.start(t.Context(), variants[len(variants)-1], c, 1, us.model.Layout().Trainable())
			if err != nil {
				t.Fatal(err)
			}
			defer w.end()
			if c.Sample.H > 64 || c.Sample.Classes > 1000 { // the same layers as at 64; a step of them takes a core seconds
				return
			}
			if took, err := w.block(t.Context(), 1); err != nil || took <= 0 {
				t.Error(took, err)
			}
		})
	}
}
