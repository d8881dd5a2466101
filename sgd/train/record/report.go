package record

import (
	"encoding/json"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
)

// Progress is how far a run has come, told now and then by the lead rank
// (shard 0, or rank 0 where there are no servers).
type Progress struct {
	Step          int     `json:"step"` // updates made
	Samples       uint64  `json:"samples"`
	Epoch         float64 `json:"epoch"`
	Seconds       float64 `json:"seconds"` // on the net's clock
	Loss          float64 `json:"loss"`    // mean training loss since the last report
	LR            float64 `json:"lr"`
	StalenessMean float64 `json:"staleness_mean"` // since the last report
	StalenessMax  int     `json:"staleness_max"`
	AgeMean       float64 `json:"age_mean"`               // seconds, since the last report
	GapMean       float64 `json:"gap_mean"`               // since the last report; 0 unless it is measured
	UpdateRate    float64 `json:"update_rate"`            // updates a second since the last report
	NoiseScale    float64 `json:"noise_scale,omitempty"`  // samples: B_simple, the ratio of the next two; 0: not measured, or neither is above 0
	NoiseTrace    float64 `json:"noise_trace,omitempty"`  // of the covariance of a sample's gradient, averaged over updates
	NoiseSquare   float64 `json:"noise_square,omitempty"` // squared length of the true gradient, averaged over updates
	World         int     `json:"world,omitempty"`        // workers that take part, where some may leave
	Batch         int     `json:"batch,omitempty"`        // samples of the last update, where the batch changes
	Side          int     `json:"side,omitempty"`         // of the pictures of the last update, where it changes
	BytesUp       uint64  `json:"bytes_up"`               // so far, by all workers; without servers as if all did as the first
	BytesDown     uint64  `json:"bytes_down"`

	Workers []WorkerState `json:"workers,omitempty"` // how they do, now and then; nil with more than MaxWorkerStates
}

// Scale fills in the noise scale, once what all shards say is there.
func (p *Progress) Scale() {
	if p.NoiseSquare > 0 && p.NoiseTrace > 0 {
		p.NoiseScale = p.NoiseTrace / p.NoiseSquare
	}
}

// Eval is an evaluation on the test set.
type Eval struct {
	Step      int     `json:"step"`
	Samples   uint64  `json:"samples"`
	Epoch     float64 `json:"epoch"`
	Seconds   float64 `json:"seconds"`
	BytesUp   uint64  `json:"bytes_up"`   // by all workers so far
	BytesDown uint64  `json:"bytes_down"` // to all workers so far
	// Spread is how far workers with parameters of their own are from their mean,
	// which is evaluated: root mean square, over the norm of the mean.
	Spread float64 `json:"spread,omitempty"`
	Last   bool    `json:"last,omitempty"`
	// Error is the standard error of the first metric's mean over the test set; 0: not known.
	// Models of texts tell it.
	Error float64 `json:"error,omitempty"`
	// Averaged: the moving average of the parameters was evaluated, not they themselves.
	Averaged bool `json:"averaged,omitempty"`

	Values Values `json:"-"` // of the model's metrics; in JSON each is a key, its metric's column
}

// MarshalJSON writes the values beside the other keys.
func (e Eval) MarshalJSON() ([]byte, error) {
	type others Eval
	return JoinJSON(others(e), e.Values)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Eval) UnmarshalJSON(b []byte) error {
	type others Eval
	if err := json.Unmarshal(b, (*others)(e)); err != nil {
		return err
	}
	return json.Unmarshal(b, &e.Values)
}

// RankReport is what a rank tells at its end.
type RankReport struct {
	Rank    int    `json:"rank"`
	Role    string `json:"role"` // worker | server
	Shard   int    `json:"shard,omitempty"`
	Version int    `json:"version,omitempty"`
	Steps   int    `json:"steps,omitempty"`
	Sent    uint64 `json:"sent,omitempty"`   // gradients pushed, counted per shard
	Zeroed  uint64 `json:"zeroed,omitempty"` // gradients with NaN or Inf, contributed as zero
	Voided  uint64 `json:"voided,omitempty"` // gradients given up because the policy cancelled them
	// Residual is the L2 norm of what error feedback had yet to send whenever the rank's
	// codecs began anew: the root of the sum of squares over tensors and instants.
	Residual float64           `json:"residual_lost,omitempty"`
	Taken    []uint64          `json:"taken,omitempty"`   // pushes that reached the shard, by worker
	Past     uint64            `json:"past,omitempty"`    // pushes of workers that died before a resume
	PastOf   []uint64          `json:"past_of,omitempty"` // the same by worker
	Ledger   ps.Ledger         `json:"ledger"`
	Causes   map[string]uint64 `json:"causes,omitempty"`      // of rejections
	Delays   []uint64          `json:"delays,omitempty"`      // staleness histogram of a shard
	Age      *Spread           `json:"age_seconds,omitempty"` // of gradients applied: since their parameters were sent
	Gap      *Spread           `json:"gap,omitempty"`         // of gradients applied: root mean square of what the parameters moved since
	Waits    *Waits            `json:"waits,omitempty"`       // between workers, at this shard
	Lost     []string          `json:"lost,omitempty"`        // workers that died
	Traffic  comm.Counted      `json:"traffic"`
	Peers    []comm.PeerBytes  `json:"peers,omitempty"` // traffic by peer; nil with more than MaxPeers
	Seconds  float64           `json:"seconds"`
	Stopped  bool              `json:"stopped,omitempty"`
	Time     *Times            `json:"time,omitempty"`
	Timed    int               `json:"timed,omitempty"`  // steps that Time is of, where it is not all: since the run was resumed
	Strain   *comm.Strain      `json:"strain,omitempty"` // on an emulated device
}

// MaxPeers is up to how many peers a rank tells its traffic with each.
const MaxPeers = 128

// Spent is where the rank's time went.
func (r RankReport) Spent() Times {
	if r.Time == nil {
		return Times{}
	}
	return *r.Time
}

// TimedSteps is how many steps Spent is the time of.
func (r RankReport) TimedSteps() int {
	if r.Timed > 0 {
		return r.Timed
	}
	return r.Steps
}
