package sweep

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/train"
)

// Cost is what a job is expected to take.
type Cost struct {
	Seconds  float64 // of one core
	Bytes    float64 // over the network
	Evidence bool    // from earlier runs of the configuration, scaled by updates; else counted
	Priced   bool    // it learns what another run learns: times alone are made
	Err      error   // it cannot run, or its data cannot be opened

	replay float64 // seconds of one core, if it is priced
}

// coreFLOPS is the speed of a core before there is any evidence: half of what
// a present one reaches in matrix products.
const coreFLOPS = 5e10

// Predict says what each job is expected to take. Where the store holds runs of
// the same configuration, of any length and seed, they tell. Elsewhere bytes are
// those that codecs claim, and time is that of the store's runs of the same model
// and data, sample by sample, or else of the operations there are.
func Predict(jobs []Job, past []*store.Run, at config.Places, progress func(data.Progress)) []Cost {
	var runs []config.Run
	for _, j := range jobs {
		if !j.Config.Weightless { // what the virtual clock bills costs no time here
			j.Config.Timing, j.Config.Device = "model", "none"
		}
		runs = append(runs, j.Run)
	}
	updates, samples := evidence(past)
	if at.Shelf == nil {
		at.Shelf = &config.Shelf{}
	}
	var out []Cost
	config.BuildAll(runs, at, progress, func(r config.Run, j *train.Job, err error) {
		if own := jobs[len(out)].Run; err == nil && own.Config != r.Config {
			_, err = own.Build(at, progress) // the keys left out above may be what is wrong
		}
		if err != nil {
			out = append(out, Cost{Err: err})
			return
		}
		n := float64(j.Updates)
		add := func(c Cost) {
			c.replay = min(c.Seconds, begin+n*float64(j.Workers)*frames)
			out = append(out, c)
		}
		if e, ok := updates[shape(jobs[len(out)].Config)]; ok {
			add(Cost{Seconds: begin + e.seconds*n, Bytes: e.bytes * n, Evidence: true})
			return
		}
		c := Cost{Seconds: begin + operations(j)/coreFLOPS, Bytes: traffic(j) * n}
		if j.Weightless {
			c.Seconds = begin + n*float64(j.Workers)*frames
		}
		if s, ok := samples[trained(r.Config)]; ok {
			c.Seconds = begin + s*float64(j.Drawn(j.Updates))
		}
		add(c)
	})
	return out
}

// begin is what a job takes before its first update: its process starts and opens
// the data, in seconds.
const begin = 0.1

// frames is what the frames of one worker's step take where nothing is in them,
// in seconds.
const frames = 1e-3

// perUpdate is what an update took.
type perUpdate struct{ seconds, bytes float64 }

// shape names a configuration but for its length and seed.
func shape(c config.Config) string {
	c.Seed, c.Steps, c.Epochs, c.CheckpointEvery = 0, 0, 0, 0
	return fmt.Sprint(c.Hash(), " ", c.EvalEvery, c.Observe) // which take their time here
}

// trained names what decides how long a sample takes, codecs left out.
func trained(c config.Config) string {
	if c.Weightless {
		return "weightless " + c.Timing
	}
	return c.Model + " " + c.Data + " " + c.Precision
}

// evidence is, at the median, what updates of each shape took and how many
// seconds of a core a sample of each model took.
func evidence(past []*store.Run) (updates map[string]perUpdate, samples map[string]float64) {
	seconds, bytes, each := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, r := range past {
		if r.State != store.Done || r.Result == nil || r.Result.Steps == 0 || r.Result.Samples == 0 || r.Result.PricedFrom != "" {
			continue
		}
		k, n := shape(r.Config), float64(r.Result.Steps)
		busy := cores(r) * r.Result.WallSeconds
		seconds[k] = append(seconds[k], busy/n)
		bytes[k] = append(bytes[k], float64(r.Crossed(r.Result.BytesUp, r.Result.BytesDown))/n)
		m := trained(r.Config)
		each[m] = append(each[m], busy/float64(r.Result.Samples))
	}
	updates, samples = map[string]perUpdate{}, map[string]float64{}
	for k := range seconds {
		updates[k] = perUpdate{stats.Median(seconds[k]), stats.Median(bytes[k])}
	}
	for m := range each {
		samples[m] = stats.Median(each[m])
	}
	return updates, samples
}

// cores is how many cores a run could use.
func cores(r *store.Run) float64 {
	if n, ok := r.Env["gomaxprocs"].(float64); ok && n >= 1 {
		return n
	}
	return 1
}

// operations counts the passes of a job: a gradient is three forward passes, an
// evaluation one of every test sample.
func operations(j *train.Job) float64 {
	forward := 0.0
	for _, f := range j.Model.SpanFLOPs() {
		forward += f
	}
	evals := 1.0
	if j.EvalEvery > 0 {
		evals += math.Floor(float64(j.Updates) / float64(j.EvalEvery))
	}
	if j.Resizes() {
		return 3*j.ForwardFLOPs() + forward*evals*float64(j.Data.Test.Len())
	}
	samples := 3*float64(j.Drawn(j.Updates)) + evals*float64(j.Data.Test.Len())
	return forward * samples
}

// traffic is the bytes of an update over the network, by what codecs claim: an
// upper bound where payloads depend on the data.
func traffic(j *train.Job) float64 {
	gather := j.Mode.Traits(j).Gathers
	var payload, asked, summed, gathered float64
	cuts := slices.Concat(j.Cuts()...)
	for _, cut := range cuts {
		f, b := j.Codec, cut.Block
		if cut.Buffer {
			f = compress.Raw{}
		}
		b.World, b.Peer, b.Seed = j.Workers, -1, j.Seed
		c, ok := compress.ClaimsOf(f, b)
		if !ok {
			c.Size = 4 * b.Len()
		}
		payload += float64(c.Size)
		switch {
		case !gather && c.Asked > 0:
			asked += float64(c.Asked)
		case !gather && c.Linear == compress.FloatSum:
			summed += float64(c.Size)
		default:
			gathered += float64(c.Size)
		}
	}
	w := float64(j.Workers)
	pushes := float64(j.PerUpdate())
	switch {
	case j.Served():
		down := 0.0
		for _, cut := range cuts {
			b := cut.Block
			b.World, b.Peer, b.Seed = j.Workers, -1, j.Seed
			if c, ok := compress.ClaimsOf(j.DownCodec, b); ok {
				down += float64(c.Size)
			} else {
				down += float64(4 * b.Len())
			}
		}
		return pushes * (payload + down)
	case j.Workers == 1:
		return 0
	}
	return 2*(w-1)*asked + moved(j.Topology, j.Workers, int(summed)) + w*(w-1)*gathered
}

// moved is the bytes all ranks of an all-reduce send.
func moved(t collective.Topology, size, bytes int) (sum float64) {
	for r := range size {
		p := t.Plan(collective.At{Rank: r, Size: size, Bytes: bytes})
		for _, m := range p.Moves {
			if m.To >= 0 {
				lo, hi := collective.Bounds(m.Send, p.Chunks, bytes)
				sum += float64(hi - lo)
			}
		}
	}
	return sum
}
