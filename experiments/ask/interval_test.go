package ask

import (
	"context"
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

func with(t *testing.T, keys ...[2]string) config.Config {
	t.Helper()
	c := config.Default()
	for _, kv := range keys {
		if err := c.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Where the time is one parameter's alone, the interval is that of its distribution,
// up to what 256 draws of low discrepancy leave open; and it is the same on any number
// of cores.
func TestIntervalsFollowTheSpread(t *testing.T) {
	c := with(t, [2]string{"transport", "mpi-tcp"})
	c.Overlap = "none"
	ask := func() *Interval {
		in, err := Propagate(context.Background(), c, 256, func(_ context.Context, c config.Config) (float64, error) { return 1 / float64(c.Constants.Reduce), nil })
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	in := ask()
	sd := math.Hypot(math.Log(1.3), 0.05) // of constants.reduce, and of the site
	const z = 1.6449                      // 5 % of a normal distribution are beyond
	for _, q := range []struct{ got, want float64 }{
		{in.Low, math.Exp(-z*sd) / 1.5e9}, {in.Middle, 1 / 1.5e9}, {in.High, math.Exp(z*sd) / 1.5e9},
	} {
		if math.Abs(q.got/q.want-1) > 0.04 {
			t.Errorf("%+v: %g, want %g", *in, q.got, q.want)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if again := ask(); *again != *in {
		t.Errorf("on one core %+v, on several %+v", *again, *in)
	}
	if _, err := Propagate(context.Background(), c, 0, nil); err == nil {
		t.Error("no draws were taken for an interval")
	}
}

// Two configurations are drawn on one cluster: what both depend on does not widen their
// ratio, and what one alone depends on does.
func TestComparedOnOneCluster(t *testing.T) {
	t.Parallel()
	a := with(t, [2]string{"transport", "mpi-tcp"})
	a.Overlap = "none"
	b := a
	b.Batch = 2 * a.Batch
	both := func(_ context.Context, c config.Config) (float64, error) {
		return float64(c.Batch) / float64(c.Constants.Reduce), nil
	}
	first, second, ratio, err := Compared(t.Context(), a, b, 64, both)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []float64{ratio.Low, ratio.Middle, ratio.High} {
		if math.Abs(x-0.5) > 1e-9 {
			t.Errorf("the ratio is %+v, want one half", *ratio)
		}
	}
	alone, err := Propagate(t.Context(), a, 64, both)
	if err != nil || *first != *alone || math.Abs(second.Middle/first.Middle-2) > 1e-9 {
		t.Errorf("together %+v and %+v, the first alone %+v: %v", *first, *second, *alone, err)
	}
	_, _, ratio, err = Compared(t.Context(), a, b, 64, func(_ context.Context, c config.Config) (float64, error) {
		if c.Batch == a.Batch {
			return 1, nil
		}
		return 1e9 / float64(c.Constants.Reduce), nil
	})
	if wide := ratio.High / ratio.Low; err != nil || math.Abs(math.Log(wide)-2*1.645*math.Log(1.3)) > 0.1 {
		t.Errorf("of one that depends on it and one that does not, %+v: %v", *ratio, err)
	}
	if _, _, _, err := Compared(t.Context(), a, b, 0, both); err == nil {
		t.Error("no draws were taken for an interval")
	}
}

// A run on transport unknown is drawn around the middle of what was measured, and one that
// states a value around that value. Nothing of an ideal transport is drawn; what a known
// cluster leaves open is.
func TestUnknownTransports(t *testing.T) {
	t.Parallel()
	share := func(ctx context.Context, c config.Config) (float64, error) { return c.Constants.Share, nil }
	for _, c := range []struct {
		keys [][2]string
		want float64
	}{{[][2]string{{"transport", "unknown"}}, 0.63}, {[][2]string{{"transport", "unknown"}, {"constants.share", "0.4"}}, 0.4}, {[][2]string{{"cluster", "abci"}}, 0.63}, {[][2]string{{"transport", "nccl-tcp"}}, 0.96}} {
		in, err := Propagate(context.Background(), with(t, c.keys...), 128, share)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(in.Middle/c.want-1) > 0.05 || !(in.Low < in.Middle && in.Middle < in.High) {
			t.Errorf("%v: %+v, want a middle of %g", c.keys, *in, c.want)
		}
	}
	in, err := Propagate(context.Background(), with(t), 16, share)
	if err != nil || in.Low != 1 || in.High != 1 || in.Transport != "ideal" {
		t.Errorf("an ideal transport: %+v, %v", in, err)
	}
}

// Overlap saves the part constants.overlap of what it saves on the virtual clock.
func TestPartOfOverlap(t *testing.T) {
	t.Parallel()
	time := func(_ context.Context, c config.Config) (float64, error) {
		if c.Overlap != "none" {
			return 10, nil
		}
		return 14, nil
	}
	for part, want := range map[string]float64{"1": 10, "0.75": 11, "0": 14} {
		c := with(t, [2]string{"overlap", "buckets"}, [2]string{"constants.overlap", part})
		if got, err := Blended(context.Background(), c, time); err != nil || got != want {
			t.Errorf("with %s of it: %g, %v; want %g", part, got, err, want)
		}
	}
}

// Limits of software are those of a process: a ring's step is the closed form, whether
// payloads are summed or gathered, and a gather pays its calls.
func TestSoftwareLimits(t *testing.T) {
	t.Parallel()
	step := func(keys ...[2]string) float64 {
		t.Helper()
		c := with(t, append([][2]string{{"timing", "resnet50"}, {"workers", "4"}, {"batch", "1"}, {"mode", "reduce"}, {"topology", "ring"}, {"overlap", "none"}, {"device.flops", "1e18"},
			{"device.codec", "free"}, {"network.bandwidth", "10GB/s"}, {"network.latency", "0s"}}, keys...)...)
		s, err := updateTakes(context.Background(), c, 1, 3, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	whole := step([2]string{"network.bandwidth", "1GB/s"})
	for name, got := range map[string]float64{
		"share":  step([2]string{"constants.share", "0.1"}),
		"reduce": step([2]string{"constants.reduce", "1GB/s"}),
	} {
		if math.Abs(got/whole-1) > 1e-3 {
			t.Errorf("%s: a step takes %g s, want %g", name, got, whole)
		}
	}
	if got := step([2]string{"constants.gather", "1GB/s"}); got > whole/5 {
		t.Errorf("a limit of gathers slows sums: %g s", got)
	}
	gather := [2]string{"codec", "topk(keep=0.01,index=raw32)"}
	free, limited := step(gather), step(gather, [2]string{"constants.gather", "1GB/s"})
	if math.Abs(limited/free-10) > 0.1 {
		t.Errorf("gathers take %g s, at a tenth of the rate %g", free, limited)
	}
	p, err := config.Run{Config: with(t, [2]string{"timing", "resnet50"}, [2]string{"weightless", "true"})}.Build(config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := float64(len(p.Model.Layout().Spans)) * 2 * 1e-3 // two doublings
	if got := step(gather, [2]string{"constants.call", "1ms"}) - free; math.Abs(got/want-1) > 1e-3 {
		t.Errorf("calls take %g s, want %g", got, want)
	}
	if got := step([2]string{"constants.call", "1ms"}) - step(); got != 0 {
		t.Errorf("sums pay %g s for calls of gathers", got)
	}
	if got := step([2]string{"constants.step", "2ms"}) - step(); math.Abs(got-0.006) > 1e-6 {
		t.Errorf("software of a step takes %g s, want 2 ms three times", got)
	}
}

// Fewer workers stand for many: as many on a host, the same share of servers, all else as it
// was, and an interval as wide, as a part of its middle, as that of the whole asked anew.
func TestSmallerStandsForTheWhole(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ workers, servers, host, few, share int }{
		{64, 16, 1, 16, 4}, {64, 16, 4, 16, 4}, {64, 64, 8, 16, 16}, {64, 1, 1, 16, 1}, {48, 6, 1, 16, 2}, {64, 7, 1, 16, 1},
		{96, 24, 24, 48, 12}, {128, 8, 12, 24, 1}, {16, 5, 1, 16, 5}, {17, 17, 1, 16, 16}, {8, 3, 8, 8, 3}, {40, 40, 32, 40, 40},
	} {
		c := config.Default()
		c.Workers, c.Servers, c.NetworkPerHost = x.workers, x.servers, x.host
		want := c
		want.Workers, want.Servers = x.few, x.share
		got := Smaller(c)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d workers, %d on a host, and %d servers become %d and %d, want %d and %d", x.workers, x.host, x.servers, got.Workers, got.Servers, x.few, x.share)
		}
		if again := Smaller(got); !reflect.DeepEqual(again, got) {
			t.Errorf("%+v becomes smaller once more", x)
		}
	}
	for _, mode := range patience.Few(1, []string{"reduce", "server"}) {
		c := with(t, [2]string{"mode", mode}, [2]string{"timing", "alexnet"}, [2]string{"workers", "32"}, [2]string{"servers", "8"},
			[2]string{"network.per_host", "4"}, [2]string{"network.bandwidth", "10Gbps"}, [2]string{"device", "v100"}, [2]string{"batch", "32"},
			[2]string{"transport", "mpi-tcp"}, [2]string{"codec", "raw"}, [2]string{"net", "sim"})
		width := func(c config.Config) float64 {
			in, err := Propagate(t.Context(), c, 8, func(ctx context.Context, c config.Config) (float64, error) {
				return updateTakes(ctx, c, 1, 2, Watch{})
			})
			if err != nil {
				t.Fatal(err)
			}
			return math.Log(in.High / in.Low)
		}
		if few, all := width(Smaller(c)), width(c); math.Abs(few/all-1) > 0.15 {
			t.Errorf("mode %s: an interval is %.3f wide on few workers, %.3f on all", mode, few, all)
		}
	}
}
