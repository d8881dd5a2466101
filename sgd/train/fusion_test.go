package train_test

import (
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/mean"
)

func fused(cycle time.Duration, bucket int) option {
	return func(j *train.Job) { j.Overlap = train.Fusion{Cycle: cycle, Bytes: bucket} }
}

// However tensors are fused, on whichever clock, the run ends with the bits of one
// that exchanges them one by one.
func TestFusionIsTheUnfusedRoad(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"raw":      {},
		"tree":     {topology("tree")},
		"rings":    {topology("rings(group=2)")},
		"bf16":     {with("bf16")},
		"powersgd": {with("feedback(powersgd(rank=2))")},
		"topk":     {with("feedback(topk(keep=0.1))")},
		"intsum":   {with("intsum")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(opts, mode("reduce"), func(j *train.Job) { j.Updates = 20 })
			one, _ := runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 1} })...), nil)
			for how, o := range map[string]option{
				"soon": fused(time.Microsecond, 0), "late": fused(time.Second, 0), "little": fused(20*time.Microsecond, 600), "all": fused(100*time.Microsecond, 0),
			} {
				if v, _ := runOn(t, simulated(0), job(t, append(opts, o)...), nil); v.SHA256 != one.SHA256 {
					t.Errorf("fused %s, the virtual run ends with other bits", how)
				}
			}
			if l, _ := runOn(t, &local.Net{}, job(t, append(opts, fused(50*time.Microsecond, 0))...), nil); l.SHA256 != one.SHA256 {
				t.Error("on the real clock the run ends with other bits")
			}
		})
	}
}

// Fusing pays where latency is dear, and a cycle that is too long costs its wait.
func TestFusionSavesFrames(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	took := func(opts ...option) (seconds float64, frames uint64) {
		o, _ := runOn(t, simulated(0), job(t, append(opts, mode("reduce"), func(j *train.Job) {
			j.Model, j.Updates, j.Timing.FLOPS = model(t, "mlp(hidden=[16,16,16,16,16,16])", j.Data.Train.Sample().Shape), 5, 1e8
		})...), nil)
		for _, r := range o.Reports {
			for _, n := range r.Traffic.SentFrames[:1] {
				frames += n
			}
		}
		return o.Final.Seconds, frames
	}
	alone, many := took(func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 1} })
	together, few := took(fused(50*time.Microsecond, 0))
	late, fewest := took(fused(time.Second, 0))
	if together >= alone || few >= many/2 {
		t.Errorf("fused %v s and %d frames, one by one %v s and %d frames", together, few, alone, many)
	}
	if late < 5 || fewest > few {
		t.Errorf("with a cycle of a second %v s and %d frames; with a short one %d frames", late, fewest, few)
	}
}

// Fusion is refused where nothing could be fused.
func TestFusionIsRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]option{
		"servers":   func(j *train.Job) { j.Overlap = train.Fusion{Cycle: time.Millisecond} },
		"too short": func(j *train.Job) { j.Mode, j.Overlap = mean.Reduce{}, train.Fusion{Cycle: time.Nanosecond} },
	} {
		j := job(t)
		o(j)
		if j.Check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
