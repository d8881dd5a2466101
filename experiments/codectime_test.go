package experiments

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/patience"
)

// halfSlow is a codec such as a user may enrol: half the bytes, and in slowTable it
// encodes and decodes 10 MB of gradient a second.
type halfSlow struct{ compress.BFloat16 }

var _ = compress.Families.Add("halfslow", "bfloat16, for tests of what codecs are billed", halfSlow{})

// slowTable is a file of rates by which halfslow makes 10 MB/s and raw and bf16
// next to nothing, on a core of 20 GFLOP/s.
func slowTable(t *testing.T) string {
	t.Helper()
	table := &hardware.CodecTable{Name: "slow", Processor: "none", FLOPS: 2e10, Memory: 1e10}
	for codec, ns := range map[string]float64{"halfslow": 400, "raw": 0.1, "bf16": 0.2} {
		table.Rates = append(table.Rates, hardware.CodecRate{Codec: codec, Block: "any", Elements: []int{1}, Encode: []float64{ns}, Decode: []float64{ns}})
	}
	file := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(file, table.Text(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// A codec that works at 10 MB/s is not faster than none, in any mode, though it
// sends half the bytes. Billed nothing it would be.
func TestSlowCodecsAreSlow(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	table := slowTable(t)
	for _, mode := range []string{"reduce", "gather", "server", "reduce overlap=buckets", "server overlap=buckets", "rudra", "downpour policy=asp", "localsgd(h=1)", "choco graph=ring", "easgd(tau=1) policy=asp"} {
		t.Run(mode, func(t *testing.T) {
			seconds := func(codec, billed string) float64 {
				over := append(strings.Fields("mode="+mode), "transport=ideal", "codec="+codec, "device.codec="+billed, "device.flops=2e10", "network.bandwidth=1Gbps", "schedule=constant(lr=0.01)")
				return mustExecute(t, over...).VirtualSeconds
			}
			if raw, slow := seconds("raw", "free"), seconds("halfslow", "free"); slow >= raw {
				t.Errorf("billed nothing it takes %g s, raw %g: nothing to turn round", slow, raw)
			}
			if raw, slow := seconds("raw", table), seconds("halfslow", table); slow < 2*raw {
				t.Errorf("at 10 MB/s it takes %g s, raw %g", slow, raw)
			}
		})
	}
}

// What codecs were billed is told in every result.
func TestTablesSayWhatCodecsWereBilled(t *testing.T) {
	t.Parallel()
	for billed, want := range map[string]string{
		"measured":                   "rates measured on a core of Intel(R) Xeon(R) Processor (family 6, model 207) (xeon-sapphire-rapids), devices 0.253 times as fast (20 GFLOP/s over the core's)",
		"40xmeasured":                "devices 40 times as fast (as stated)",
		"free":                       "codecs were not billed (device.codec=free)",
		"1GB/s":                      "codecs were billed at 1GB/s of gradient, whatever the codec (device.codec)",
		"measured device=v100":       "memory of 900GB/s over the core's",
		"xeon-sapphire-rapids steps": "rates measured on a core",
	} {
		over := []string{"codec=bf16", "mode=reduce", "device.flops=2e10", "device.codec=" + strings.Fields(billed)[0]}
		if strings.HasSuffix(billed, "v100") {
			over = []string{"codec=bf16", "mode=reduce", "device=v100", "timing=resnet50", "device.codec=measured"}
		}
		r := mustExecute(t, over...)
		if notes := CodecNotes([]*Result{r, r}); len(notes) != 1 || !strings.HasPrefix(notes[0], "codecs were ") || !strings.Contains(notes[0], want) {
			t.Errorf("%s: %q", billed, notes)
		}
	}
	r := mustExecute(t, "codec=bf16", "mode=reduce", "net=local")
	if r.CodecTime != "" {
		t.Errorf("on a real clock: %s", r.CodecTime)
	}
}

// A run whose codec takes eleven times as long as the one that the table of rates has says so
// in its result, which tables and pages print, with what to type. Billed otherwise it does not.
func TestRunOfAnotherCodecSaysSo(t *testing.T) {
	t.Parallel()
	meter := coding.NewMeter("")
	meter.Measure = func(f compress.Family) (*hardware.CodecRate, error) {
		ns := map[string]float64{"bf16": 1, "qsgd(bits=4)": 1000}[compress.Spec(f)]
		return &hardware.CodecRate{Codec: compress.Spec(f), Block: "matrix", Elements: []int{262144}, Encode: []float64{ns}, Decode: []float64{ns}}, nil
	}
	note := func(over ...string) string {
		t.Helper()
		opt := Options{Recipe: "small", Out: t.TempDir(), Places: config.Places{Codecs: meter}}
		r, err := Execute(t.Context(), mustRuns(t, small, append(over, "mode=reduce", "codec=qsgd(bits=4)")...)[0], opt)
		if err != nil {
			t.Fatal(err)
		}
		return r.CodecTime
	}
	if s := note("device.codec=measured"); !strings.Contains(s, "codecs were billed at rates measured on") || !strings.HasSuffix(s, "; in this build qsgd(bits=4) took more than 5 times as long as in that table, beside bf16 on the same core, so its virtual times are too short: device.codec=here bills what it takes here") {
		t.Error(s)
	}
	if s := note("device.codec=1GB/s"); strings.Contains(s, "in this build") {
		t.Error(s)
	}
}

// A codec that is in no table is measured only where somebody lets it be.
func TestUnknownCodecsAreNotFree(t *testing.T) {
	t.Parallel()
	_, err := execute(t, t.TempDir(), false, "codec=topk(keep=0.37)", "mode=reduce")
	var bad *config.Error
	if !errors.As(err, &bad) || !strings.Contains(fmt.Sprint(err), "topk(keep=0.37)") {
		t.Errorf("%v", err)
	}
}
