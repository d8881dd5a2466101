package train_test

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// The parts of a rank's time add up to its time, on the virtual clock exactly,
// and encoding takes what it was priced at.
func TestTimes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	slow := func(j *train.Job) {
		j.Timing.Codec, j.Timing.Slow = timing.FlatRate(1e9), timing.Slow{{Count: 1, Factor: 50}}
	}
	overlap := func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 500} }
	for name, opts := range map[string][]option{
		"server":           {with("sign"), slow},
		"server, overlap":  {with("sign"), slow, overlap},
		"server, asp":      {with("sign"), policy("asp"), slow, learning(0.01)},
		"reduce":           {with("bf16"), mode("reduce"), slow},
		"reduce, overlap":  {with("bf16"), mode("reduce"), slow, overlap},
		"reduce, priority": {with("bf16"), mode("reduce"), slow, prior(500)},
		"gather":           {with("sign"), mode("gather"), slow},
		"downpour":         {with("sign"), mode("downpour"), policy("asp"), slow, learning(0.01)},
		"downpour, beside": {with("sign"), mode("downpour"), policy("asp"), slow, learning(0.01), func(j *train.Job) { j.Overlap = train.Buckets{} }},
		"localsgd":         {mode("localsgd"), slow},
		"dpsgd":            {mode("dpsgd"), graph("ring"), slow},
		"adpsgd":           {mode("adpsgd"), graph("ring"), slow, learning(0.01)},
		"easgd":            {mode("easgd"), policy("asp"), slow, learning(0.01)},
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, opts...)
			o, _ := runOn(t, simulated(0), j, nil)
			params := j.Model.Layout().Size()
			var fast, last record.Times
			for _, r := range o.Reports {
				x := r.Spent()
				if sum := x.Busy() + x.Rest; math.Abs(sum-r.Seconds) > 1e-6 {
					t.Errorf("rank %d: %+v is %g s, not %g", r.Rank, x, sum, r.Seconds)
				}
				for _, part := range []float64{x.Compute, x.Encode, x.Decode, x.Wire, x.Wait} {
					if part < 0 {
						t.Errorf("rank %d: %+v", r.Rank, x)
					}
				}
				if r.Role != "worker" {
					continue
				}
				if want := float64(r.Steps) * 4 * float64(params) / 1e9; x.Encode > 0 && math.Abs(x.Encode-want) > 0.01*want {
					t.Errorf("rank %d took %g s to encode, want %g", r.Rank, x.Encode, want)
				}
				switch r.Rank {
				case 0:
					fast = x
				case j.Workers - 1:
					last = x
				}
				var sent, peers uint64
				for k := range r.Traffic.SentBytes {
					sent += r.Traffic.SentBytes[k]
					for _, p := range r.Peers {
						peers += p.SentBytes[k]
					}
				}
				if sent != peers || sent == 0 {
					t.Errorf("rank %d sent %d bytes, by peer %d", r.Rank, sent, peers)
				}
			}
			if !j.Plan().Beside && fast.Wire <= 0 {
				t.Errorf("nothing on the wire: %+v, %+v", fast, last)
			}
			// Who waits for the slow one waits, the slow one does not.
			switch name {
			case "server", "reduce", "gather", "localsgd", "dpsgd":
				if fast.Wait < 10*fast.Compute || fast.Wait < fast.Wire || last.Wait > 0.25*last.Compute {
					t.Errorf("a fast worker: %+v, the slow one: %+v", fast, last)
				}
			}
		})
	}
}

// On a real clock parts add up too, with what nobody booked as the rest.
func TestTimesOnRealClocks(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"server": {with("qsgd")}, "reduce, overlap": {with("qsgd"), mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{} }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, net := range []comm.Net{&local.Net{}, processes{t, opts}} {
				o, _ := runOn(t, net, job(t, opts...), nil)
				for _, r := range o.Reports {
					x := r.Spent()
					if x.Busy()+x.Rest > r.Seconds+1e-3 || x.Compute <= 0 || x.Encode <= 0 || x.Decode < 0 || x.Wire < 0 || x.Wait < 0 {
						t.Errorf("rank %d (%s): %+v of %g s", r.Rank, r.Role, x, r.Seconds)
					}
				}
			}
		})
	}
}

// watcher keeps what workers told last.
type watcher struct {
	sink
	workers []record.WorkerState
	with    int // reports that came with workers
}

func (w *watcher) Progress(p record.Progress) {
	if p.Workers != nil {
		w.workers, w.with = p.Workers, w.with+1
	}
}

// Workers tell how they do while a run goes on: the slow one computes, the
// others wait for it, or leave it behind.
func TestWorkerStates(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	slow := func(j *train.Job) { j.Timing.Slow = timing.Slow{{Count: 1, Factor: 50}}; j.Updates = 200 }
	for name, opts := range map[string][]option{
		"server": {slow}, "reduce": {mode("reduce"), slow}, "asp": {policy("asp"), slow, learning(0.01)},
		"adpsgd": {mode("adpsgd"), graph("ring"), slow, learning(0.01)}, "localsgd": {mode("localsgd"), slow},
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, opts...)
			w := &watcher{}
			observeOn(t, simulated(0), j, nil, w)
			if len(w.workers) != 4 || w.with > 110 {
				t.Fatalf("%d workers, told %d times", len(w.workers), w.with)
			}
			fast, last := w.workers[0], w.workers[3]
			if fast.Rank != 0 || last.Rank != 3 || fast.Step < last.Step || fast.Rate <= 0 || last.State == record.StateWaiting {
				t.Errorf("%+v, %+v", fast, last)
			}
			switch name {
			case "asp", "adpsgd":
				if last.Staleness <= fast.Staleness || fast.Step <= last.Step {
					t.Errorf("%+v, %+v", fast, last)
				}
			default:
				if fast.State != record.StateWaiting || fast.Lately.Wait <= fast.Lately.Compute {
					t.Errorf("%+v, %+v", fast, last)
				}
			}
		})
	}
}
