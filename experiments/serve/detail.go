package serve

import (
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Detail is what there is to know about one run.
type Detail struct {
	Row
	Folder    string            `json:"folder"`
	ID        string            `json:"id"`
	Settings  map[string]string `json:"settings"` // keys that differ from their defaults
	Env       map[string]any    `json:"env"`
	Workers   []Worker          `json:"workers"`   // how they do, while the run goes on
	Ranks     []Rank            `json:"ranks"`     // each tells at its end
	Staleness []uint64          `json:"staleness"` // histogram, at the end
	Lost      []string          `json:"lost"`
}

// Rank is the state of a worker or server, as told at its end.
type Rank struct {
	Rank     int     `json:"rank"`
	Role     string  `json:"role"`
	Steps    int     `json:"steps"`
	Sent     uint64  `json:"sent"` // bytes of gradients and parameters
	Received uint64  `json:"received"`
	Seconds  float64 `json:"seconds"`
	Time     Shares  `json:"time"`
	Pushes   uint64  `json:"pushes"`  // gradients pushed, or applied by a server
	Refused  uint64  `json:"refused"` // by a server
}

// Worker is how a worker did when it was last heard.
type Worker struct {
	record.WorkerState
	Time Shares `json:"time"`
}

// Shares are the parts of a rank's time, in the page's order: compute, encode,
// decode, wire, wait, rest; see record.Times.
type Shares [6]float64

func sharesOf(t record.Times) Shares {
	s := Shares{t.Compute, t.Encode, t.Decode, t.Wire, t.Wait, t.Rest}
	if sum := t.Busy() + t.Rest; sum > 0 {
		for i := range s {
			s[i] /= sum
		}
	}
	return s
}

// workers are how a running run's workers did, as far as they told.
func (e entry) workers() []Worker {
	out := []Worker{}
	if e.run.State != store.Running {
		return out
	}
	for _, p := range slices.Backward(e.curve.Progress) {
		if p.Workers == nil {
			continue
		}
		for _, w := range p.Workers {
			out = append(out, Worker{w, sharesOf(w.Lately)})
		}
		return out
	}
	return out
}

func detail(e entry) (Detail, error) {
	d := Detail{Row: e.row, Folder: e.run.Folder, ID: e.run.ID, Settings: map[string]string{}, Env: e.run.Env, Workers: e.workers(), Ranks: []Rank{}, Lost: []string{}}
	for _, k := range config.Keys() {
		if e.run.Config.Said(k.Name) {
			d.Settings[k.Name] = e.run.Config.Show(k.Name)
		}
	}
	ranks, err := e.run.Ranks()
	if err != nil {
		return d, err
	}
	for _, r := range ranks {
		out := Rank{Rank: r.Rank, Role: r.Role, Steps: max(r.Steps, r.Version), Seconds: r.Seconds, Time: sharesOf(r.Spent()),
			Pushes: r.Sent + r.Ledger.Applied, Refused: r.Ledger.Rejected}
		for _, k := range []comm.Kind{comm.Gradient, comm.Parameters} {
			out.Sent += r.Traffic.SentBytes[k]
			out.Received += r.Traffic.RecvBytes[k]
		}
		d.Ranks = append(d.Ranks, out)
	}
	if res := e.run.Result; res != nil {
		d.Staleness = res.Staleness
		d.Lost = append(d.Lost, res.Lost...)
	}
	return d, nil
}
