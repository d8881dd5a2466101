package reproduce

import (
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/ask"
)

// Costs are those that the measurements say, and what stands for a method sends the bytes
// that GRACE counted.
func TestGRACERates(t *testing.T) {
	t.Parallel()
	g, err := newGRACELab([]int{2, 4})
	if err != nil {
		t.Fatal(err)
	}
	// 256 images at 416.141 and at 726.484 a second.
	if got, want := g.coding("resnet50", "topk", 2), 256/416.141-256/726.484; math.Abs(got-want) > 1e-9 {
		t.Errorf("top-k takes %g s, want %g", got, want)
	}
	for kind := range graceWays {
		c := g.cost("resnet50", kind)
		net := g.nets["resnet50"]
		total := (float64(net.Parameters())*c.value + float64(len(net.Layout.Spans))*c.tensor) * (1 + 2*c.decode)
		if want := g.coding("resnet50", kind, 2); math.Abs(total-want) > 1e-9 || c.decode < 0 {
			t.Errorf("%s: two workers take %g s, measured %g (%+v)", kind, total, want, c)
		}
		// What two networks have in common is exact on both, unless a part would be below 0.
		c = g.cost("densenet40_k12", kind)
		if c.tensor < 0 || c.value < 0 {
			t.Errorf("%s takes %+v", kind, c)
		}
		for _, model := range []string{"resnet50", "resnet20_v2"} {
			net := g.nets[model]
			total := (float64(net.Parameters())*c.value + float64(len(net.Layout.Spans))*c.tensor) * (1 + 2*c.decode)
			if want := g.coding(model, kind, 2); c.tensor > 0 && c.value > 0 && math.Abs(total-want) > 1e-9 {
				t.Errorf("%s on %s: %g s, measured %g", kind, model, total, want)
			}
		}
	}
	done := map[string]bool{}
	for _, r := range g.rows {
		if r.mode != graceWhole || g.nets[r.model].Profile == nil || r.method == "none" || g.sent(r) == 0 {
			continue
		}
		if _, ok := graceWays[r.kind()]; !ok {
			t.Errorf("nothing says how %s is exchanged", r.method)
		}
		if done[r.model+r.setting()] {
			continue
		}
		done[r.model+r.setting()] = true
		layout := g.nets[r.model].Layout
		bytes, err := packedBytes(g.standIn(r), layout)
		if err != nil {
			t.Fatal(err)
		}
		// Whole entries of every tensor: at most one more, of 8 bytes.
		if over := float64(bytes) - g.sent(r); over < -1e-4*g.sent(r) || over > float64(8*len(layout.Spans))+1e-4*g.sent(r) {
			t.Errorf("%s on %s: %d bytes stand for %g", r.method, r.model, bytes, g.sent(r))
		}
	}
	if len(done) < 60 {
		t.Errorf("%d settings were looked at", len(done))
	}
}

// Codecs' times may be fitted to other sizes: to each of them exactly, if two are given
// and decoding explains what the second takes longer.
func TestGRACEFit(t *testing.T) {
	t.Parallel()
	g, err := newGRACELab([]int{4, 8})
	if err != nil {
		t.Fatal(err)
	}
	values, exact := float64(g.nets["resnet50"].Parameters()), 0
	for kind := range graceWays {
		c := g.cost("resnet50", kind)
		for _, workers := range g.fit {
			total, want := values*c.value*(1+float64(workers)*c.decode), g.coding("resnet50", kind, workers)
			if (workers == 4 || c.decode > 0) && math.Abs(total-want) > 1e-9 {
				t.Errorf("%s on %d workers takes %g s, measured %g", kind, workers, total, want)
			}
		}
		if c.decode > 0 {
			exact++
		}
	}
	if exact == 0 {
		t.Error("no codec takes longer on more workers")
	}
	for _, bad := range []string{"grace(fit=[3])", "grace(fit=[4,2])", "grace(fit=[2,2])", "grace(fit=[])", "grace(fit=[2,4,8])", "dlperf(fit=[1])", "dlperf(fit=[8,16,32])"} {
		if _, err := Studies.Parse(bad); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Figures of predictions are what their names say.
func TestGRACEFigures(t *testing.T) {
	t.Parallel()
	at := func(ours, measured, low, high float64, link int) gracePoint {
		return gracePoint{graceRow{value: measured, link: link}, ours, &ask.Interval{Low: low, Middle: ours, High: high}}
	}
	points := []gracePoint{at(100, 110, 90, 120, 10), at(200, 190, 195, 205, 10), at(100.5, 90, 80, 110, 10), at(150, 400, 140, 160, 25)}
	if got := graceCovered(points); got != 0.5 {
		t.Errorf("%g are covered", got)
	}
	if got := graceOrder(points, 0.01); got != 1 { // the first and third are too near, the last is on another link
		t.Errorf("%g of pairs are in order", got)
	}
	if got := graceOrder(points, 0); math.Abs(got-2.0/3) > 1e-12 {
		t.Errorf("%g of pairs are in order", got)
	}
	if got := graceErrors(points[:1]).rms(); math.Abs(got-1.0/11) > 1e-12 {
		t.Errorf("error %g", got)
	}
	if got := graceWidth(points[:1]); math.Abs(got-0.15) > 1e-12 {
		t.Errorf("half width %g", got)
	}
}

// What hardware says of GRACE's codecs is what the study makes of its measurements.
func TestGRACETable(t *testing.T) {
	t.Parallel()
	g, err := newGRACELab([]int{2, 4})
	if err != nil {
		t.Fatal(err)
	}
	table, err := hardware.LoadCodecs("v100-grace")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"sign": "signsgd", "feedback(sign)": "efsignsgd"}
	for _, r := range table.Rates {
		if f, err := compress.Parse(r.Codec); err != nil || compress.Spec(f) != r.Codec {
			t.Errorf("%s is not how the codec is written: %v", r.Codec, err)
		}
		name, ok := names[r.Codec]
		if !ok {
			name, _, _ = strings.Cut(strings.TrimPrefix(r.Codec, "feedback("), "(")
			name = strings.TrimSuffix(name, ")")
		}
		if r.Codec == "raw" { // a copy and a sum at the 900 GB/s of a V100's memory
			continue
		}
		c := g.cost("densenet40_k12", name) // of any network
		want := hardware.CodecRate{Codec: r.Codec, Block: coding.Any}
		for _, n := range []int{1, 1 << 30} {
			ns := 1e9 * (c.tensor/float64(n) + c.value)
			want.Add(n, ns, c.decode*ns)
		}
		whole := hardware.CodecTable{Rates: []hardware.CodecRate{want}}
		if whole.Round(); !reflect.DeepEqual(whole.Rates[0], r) {
			t.Errorf("%+v, the study has %+v", r, whole.Rates[0])
		}
	}
}
