package train_test

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// residualIn is the norm of the residuals in a checkpoint, of codecs whose state is one:
// of a worker, or of all (negative).
func residualIn(st *checkpoint.State, worker int) float64 {
	prefix, sum := "codec/up/", 0.0
	if worker >= 0 {
		prefix = checkpoint.Key("codec/up", worker) + "/"
	}
	for name, b := range st.Bytes {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for i := range int(binary.LittleEndian.Uint32(b)) {
			v := float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4+4*i:])))
			sum += v * v
		}
	}
	return math.Sqrt(sum)
}

// What error feedback had yet to send is told where it is given up: by who leaves by plan,
// and by all when codecs begin anew. It is what a checkpoint of that step has.
func TestLostResiduals(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range map[string][]option{
		"ranks":       {mode("reduce")},
		"servers":     {mode("server"), servers(2)},
		"local steps": {mode("localsgd(h=3)")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := slices.Concat([]option{elastic, with("feedback(topk(keep=0.1))"), func(j *train.Job) { j.CheckpointEvery = 6 },
				leaving(train.Departure{Worker: 2, Step: 6}), joining(train.Joining{Worker: 2, Step: 12})}, way)
			o, s := runOn(t, simulated(0), job(t, opts...), nil)
			left, anew := residualIn(s.states[6], 2), residualIn(s.states[12], -1)
			if got := o.Members[1].Left[0].Residual; !near(got, left) || left == 0 {
				t.Errorf("worker 2 leaves a residual of %v, a checkpoint of then has %v", got, left)
			}
			want := math.Hypot(left, anew)
			if got := lostBy(o); !near(got, want) || anew == 0 {
				t.Errorf("%v is lost, checkpoints of then have %v", got, want)
			}
			for _, at := range slices.Sorted(maps.Keys(s.states)) {
				if at < 6 {
					continue
				}
				again, _ := runOn(t, simulated(0), job(t, opts...), s.states[at])
				if got := lostBy(again); !near(got, want) {
					t.Errorf("resumed at update %d it tells of %v, not %v", at, got, want)
				}
			}
		})
	}
}

// near says whether two sums agree that were added up in another order.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b)) }

// lostBy is what the workers of a run tell of residuals that were given up, and those who
// left by plan.
func lostBy(o *train.Observer) float64 {
	sum := 0.0
	for _, r := range o.Reports {
		sum += r.Residual * r.Residual
	}
	for _, m := range o.Members {
		for _, l := range m.Left {
			sum += l.Residual * l.Residual
		}
	}
	return math.Sqrt(sum)
}

// Codecs whose state fits one number of workers only give it up at any departure.
func TestResidualsThatFitNoOtherNumber(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for codec, lost := range map[string]bool{"scatter(feedback(topk(keep=0.3)))": true, "feedback(topk(keep=0.3))": false} {
		o, _ := runOn(t, faulty(t, "kill(w1,at=5ms)"), job(t, elastic, mode("reduce"), with(codec)), nil)
		if got := lostBy(o); got > 0 != lost {
			t.Errorf("%s: %v is lost", codec, got)
		}
	}
}
