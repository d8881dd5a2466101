package serve

import (
	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments"
)

// Detail is what there is to know about one run.
type Detail struct {
	Row
	Folder    string            `json:"folder"`
	ID        string            `json:"id"`
	Settings  map[string]string `json:"settings"` // keys that differ from their defaults
	Env       map[string]any    `json:"env"`
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
	Compute  float64 `json:"compute"` // seconds
	Wait     float64 `json:"wait"`
	Pushes   uint64  `json:"pushes"`  // gradients pushed, or applied by a server
	Refused  uint64  `json:"refused"` // by a server
}

func detail(e entry) (Detail, error) {
	d := Detail{Row: e.row, Folder: e.run.Folder, ID: e.run.ID, Settings: map[string]string{}, Env: e.run.Env, Ranks: []Rank{}, Lost: []string{}}
	def := experiments.Default()
	for _, k := range experiments.Keys() {
		if v := e.run.Config.Get(k.Name); v != def.Get(k.Name) {
			d.Settings[k.Name] = v
		}
	}
	ranks, err := e.run.Ranks()
	if err != nil {
		return d, err
	}
	for _, r := range ranks {
		out := Rank{Rank: r.Rank, Role: r.Role, Steps: max(r.Steps, r.Version), Seconds: r.Seconds, Time: r.Spent(),
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
