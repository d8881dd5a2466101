package ask

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
)

// The direction of a flat rate: on ResNet-20, eight workers and 10 Gb/s codecs that
// pay when they are free do not at 1 GB/s, and raw stays as it is.
func TestFlatRateTurnsTheAnswer(t *testing.T) {
	t.Parallel()
	step := func(codec, billed string) float64 {
		c := config.Default()
		for _, kv := range []string{"weightless=true", "timing=resnet20", "mode=reduce", "workers=8", "batch=16", "steps=6", "epochs=0", "network.bandwidth=10Gbps", "device.flops=1e12", "codec=" + codec, "device.codec=" + billed} {
			k, v, _ := strings.Cut(kv, "=")
			if err := c.Set(k, v); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Measure(context.Background(), c, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Ends[len(m.Ends)-1]
	}
	raw := step("raw", "free")
	if again := step("raw", "500MB/s"); again != raw {
		t.Errorf("raw takes %g s, at 500 MB/s a codec %g", raw, again)
	}
	for _, codec := range []string{"eden(bits=1)", "feedback(powersgd(rank=4))"} {
		if free, billed := step(codec, "free"), step(codec, "500MB/s"); free >= raw || billed <= raw {
			t.Errorf("%s: %g s free, %g billed, raw %g", codec, free, billed, raw)
		}
	}
}

// The rates of a run are part of its record: when the table is gone, the run is
// resumed, made again, replayed and asked about at what it was billed.
func TestRatesAreRecorded(t *testing.T) {
	t.Parallel()
	table := slowTable(t)
	over := []string{"mode=server", "policy=asp", "observe=order_log", "codec=halfslow", "down_codec=bf16", "device.flops=2e10", "checkpoint_every=4", "steps=60", "device.codec=" + table}
	whole := mustExecute(t, over...)
	run := mustRuns(t, small, over...)[0]
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := experiments.Execute(ctx, run, experiments.Options{Recipe: "test", Out: dir, Watch: func(done, _ int) {
		if done > 30 {
			cancel()
		}
	}})
	if err == nil {
		t.Fatal("it was broken off")
	}
	if err := os.Remove(table); err != nil {
		t.Fatal(err)
	}
	if _, err := experiments.Execute(context.Background(), run, experiments.Options{Recipe: "test", Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "device.codec") {
		t.Errorf("without its table the run begins: %v", err)
	}
	resumed, err := experiments.Execute(context.Background(), run, experiments.Options{Recipe: "test", Out: dir, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	if resumed.VirtualSeconds != whole.VirtualSeconds || resumed.ParamsSHA256 != whole.ParamsSHA256 || resumed.CodecTime != whole.CodecTime {
		t.Errorf("resumed: %g s, %s; whole %g s, %s", resumed.VirtualSeconds, resumed.CodecTime, whole.VirtualSeconds, whole.CodecTime)
	}
	rates, err := experiments.RecordedRates(whole.Folder)
	if err != nil || rates == nil || rates.Key != table || len(rates.Tables) != 1 {
		t.Fatalf("%+v, %v", rates, err)
	}
	var names []string
	for _, r := range rates.Tables[0].Rates {
		names = append(names, r.Codec)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"bf16", "halfslow"}) {
		t.Errorf("recorded are %v", names)
	}
	again, err := experiments.Execute(context.Background(), run, experiments.Options{Recipe: "again", Out: t.TempDir(), Places: config.Places{Rates: rates}})
	if err != nil || again.VirtualSeconds != whole.VirtualSeconds {
		t.Errorf("again: %+v, %v; whole %g s", again, err, whole.VirtualSeconds)
	}
	w, err := AnswerWhatIf(context.Background(), whole.Folder, []string{"network.bandwidth=10Gbps"}, config.Places{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if slow := w.Was.Seconds / whole.VirtualSeconds; slow < 0.9 || slow > 1.1 || w.Is[0].Seconds >= w.Was.Seconds {
		t.Errorf("whatif: %+v of %g s", w, whole.VirtualSeconds)
	}
	if p, err := Replay(context.Background(), whole.Folder, config.Places{}); err != nil || !p.Equal {
		t.Errorf("replay: %+v, %v", p, err)
	}
}
