package experiments

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Result is what a run came to: one JSON object, the last line that
// `gradlab run --json` prints for it.
type Result struct {
	Recipe string `json:"recipe"`
	Name   string `json:"run"` // variant and axis values
	Folder string `json:"folder"`
	Status string `json:"status"` // done | stopped
	// Ended says why a run that is done made fewer steps than were planned: "target"
	// is the evaluation that first reached it, "plateau" the last of some without a new
	// best, of which values of metrics, steps, virtual
	// seconds, bytes up and down and parameters are. What raw and bf16 would have sent
	// is in proportion; counts of gradients and of links hold what was under way.
	Ended string `json:"ended,omitempty"`

	TrainLoss      float64 `json:"train_loss"`
	Chance         float64 `json:"chance,omitempty"`        // accuracy of always answering the test set's most frequent class; 0: not known
	TestSamples    uint64  `json:"test_samples,omitempty"`  // in the test set
	AccuracyAt     int     `json:"accuracy_step,omitempty"` // update that values of metrics are of, where that is not the last: the run was stopped
	Steps          int     `json:"steps"`                   // updates made
	Samples        uint64  `json:"samples"`
	SampleTokens   int     `json:"sample_tokens,omitempty"` // tokens of a sample; 0: samples are no texts
	WallSeconds    float64 `json:"wall_seconds"`
	VirtualSeconds float64 `json:"virtual_seconds"`      // 0 unless net is sim
	CodecTime      string  `json:"codec_time,omitempty"` // what encoding and decoding were billed at
	BytesUp        uint64  `json:"bytes_up"`             // sent by workers: gradients
	BytesDown      uint64  `json:"bytes_down"`           // sent to workers: parameters, or gradients of peers
	RawBytes       uint64  `json:"raw_bytes,omitempty"`  // what would have crossed the network under codec raw, both ways; 0: not known
	BF16Bytes      uint64  `json:"bf16_bytes,omitempty"` // the same under codec bf16
	WireBytes      uint64  `json:"wire_bytes"`           // all that links of processes carried, TCP's and IP's own headers apart; 0 without processes
	SharedBytes    uint64  `json:"shared_bytes"`         // of these, through shared memory instead of sockets
	ReportBytes    uint64  `json:"report_bytes"`         // of these, reports, snapshots and checkpoints for the observer
	OverheadBytes  uint64  `json:"overhead_bytes"`       // of these, headers, HTTP/2, heartbeats, control
	StalenessMean  float64 `json:"staleness_mean"`
	StalenessMax   int     `json:"staleness_max"`
	StalenessP50   float64 `json:"staleness_p50"`
	StalenessP90   float64 `json:"staleness_p90"`
	StalenessP99   float64 `json:"staleness_p99"`
	UpdateRate     float64 `json:"update_rate"` // updates a second of the net's clock
	ParamsSHA256   string  `json:"params_sha256"`

	Target        float64 `json:"target,omitempty"`
	Metric        string  `json:"metric,omitempty"` // name of the metric that the target is of, and by which the run is compared
	TargetReached bool    `json:"target_reached"`
	TargetSeconds float64 `json:"target_seconds,omitempty"` // on the net's clock, at the first evaluation that reaches the target
	TargetBytes   uint64  `json:"target_bytes,omitempty"`
	TargetTokens  uint64  `json:"target_tokens,omitempty"` // of texts

	// PricedFrom is the folder of the run whose training this one shares: times and
	// bytes are its own, all that was learned is that run's. "": it was trained.
	PricedFrom string   `json:"priced_from,omitempty"`
	Extends    *Extends `json:"extends,omitempty"` // the run that this one went on from

	Degraded  bool     `json:"degraded"`       // something was lost; Lost says what
	Unchecked bool     `json:"unchecked"`      // error feedback over a codec that is no contraction
	Lost      []string `json:"lost,omitempty"` // workers that died, gradients that never counted
	// Restarts is how often an elastic run went back to its last checkpoint by itself: a
	// server, or the coordinator, was lost.
	Restarts int `json:"restarts,omitempty"`
	// Members is who took part in an elastic run, from which step on.
	Members   []train.Membership `json:"members,omitempty"`
	Ledger    Ledger             `json:"ledger"`
	Staleness []uint64           `json:"staleness,omitempty"`   // histogram, all shards together
	Age       *record.Spread     `json:"age_seconds,omitempty"` // of gradients applied: since their parameters were sent
	Gap       *record.Spread     `json:"gap,omitempty"`         // of gradients applied, with observe=gap: root mean square of what the parameters moved since
	WaitedFor []float64          `json:"waited_for,omitempty"`  // seconds the others waited for each worker, all shards together
	Note      string             `json:"note,omitempty"`        // caveat of the data set

	Params  int      `json:"params"`  // trainable parameters
	Servers bool     `json:"servers"` // bytes go to servers and come from them; otherwise what one worker sends another receives
	Config  Settings `json:"config"`

	Uncompressed *record.Uncompressed `json:"uncompressed,omitempty"` // of a gradient: what the codec does not take

	Strain  *comm.Strain `json:"strain,omitempty"`  // with key emulate, of all ranks
	Network *NetworkUse  `json:"network,omitempty"` // on the virtual cluster, of the last leg

	Metrics []sgd.Metric  `json:"metrics,omitempty"` // of the model, the first of which comes first
	Values  record.Values `json:"-"`                 // on the test set, at the end; of a run that was stopped, at its last evaluation
	Best    record.Bests  `json:"-"`                 // by metric: of all evaluations, the last one included

	Evals []record.Eval       `json:"-"`
	Ranks []record.RankReport `json:"-"`
}

// MarshalJSON writes the columns of metrics beside the other keys.
func (r Result) MarshalJSON() ([]byte, error) {
	type others Result
	values, err := record.JoinJSON(r.Values, r.Best)
	if err != nil {
		return nil, err
	}
	return record.JoinJSON(others(r), json.RawMessage(values))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Result) UnmarshalJSON(b []byte) error {
	type others Result
	if err := errors.Join(json.Unmarshal(b, (*others)(r)), json.Unmarshal(b, &r.Values), json.Unmarshal(b, &r.Best)); err != nil {
		return err
	}
	if r.Metrics == nil {
		r.Metrics = r.Values.Known()
	}
	if err := sgd.CheckMetrics(r.Metrics); err != nil {
		return fmt.Errorf("key \"metrics\": %w", err)
	}
	return nil
}

// Settings are the keys of a configuration and their values. Numbers that are read from
// JSON are json.Number, to the last digit.
type Settings map[string]any

// UnmarshalJSON reads an object.
func (s *Settings) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode((*map[string]any)(s))
}

// Weightless says whether the run computed nothing.
func (r *Result) Weightless() bool { w, _ := r.Config["weightless"].(bool); return w }

// Ledger accounts for every gradient pushed, per shard:
// Sent = Applied + Rejected + Lost.
type Ledger struct {
	Sent     uint64 `json:"sent"`
	Applied  uint64 `json:"applied"`
	Rejected uint64 `json:"rejected"`
	Lost     uint64 `json:"lost"`
	// Torn is how many of those lost are parts of a push of which other shards have
	// theirs: its worker died in between.
	Torn   uint64            `json:"torn,omitempty"`
	Zeroed uint64            `json:"zeroed,omitempty"` // contributed as zero: NaN or Inf
	Causes map[string]uint64 `json:"causes,omitempty"` // of rejections and losses
	// ResidualLost is the L2 norm of what error feedback had yet to send where a worker left
	// by plan, or codecs began anew: the root of the sum of squares over workers, tensors
	// and instants.
	ResidualLost float64 `json:"residual_lost,omitempty"`
	// ResidualUnknown is how many workers died with a residual that nobody knows.
	ResidualUnknown int `json:"residual_unknown,omitempty"`
}

// ResultOf is what an observer heard of a whole run: all that does not depend on
// where it was made.
func ResultOf(o *train.Observer) *Result {
	var r Result
	r.gather(o, counters{}, o.Final.Seconds)
	return &r
}

// ReadResult reads what the run in a folder came to; an error that is fs.ErrNotExist
// where it has not ended.
func ReadResult(folder string) (*Result, error) {
	var r Result
	if err := readJSON(filepath.Join(folder, "result.json"), &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// gather fills the result from what the observer collected; seconds are those of
// the net's clock, of all legs.
func (r *Result) gather(o *train.Observer, base counters, seconds float64) {
	j := o.Job
	r.Values, r.Metrics = o.Final.Values, j.Model.Metrics()
	r.Steps, r.Samples, r.ParamsSHA256 = o.Final.Step, o.Final.Samples, o.SHA256
	r.SampleTokens = j.Data.Train.Sample().Tokens()
	r.Params = j.Model.Layout().Trainable()
	r.Note = j.Data.Note
	if j.Data.LeftOut != nil {
		if s := j.Data.LeftOut(); s != "" {
			r.Note = strings.TrimPrefix(r.Note+"; "+s, "; ")
		}
	}
	if len(o.Classes) > 0 {
		for _, n := range o.Classes {
			r.TestSamples += n
		}
		r.Chance = float64(slices.Max(o.Classes)) / float64(r.TestSamples)
	}
	r.Uncompressed = j.Uncompressed()
	r.Unchecked = compress.Unchecked(j.Codec) || compress.Unchecked(j.DownCodec)
	r.Ranks = o.Reports
	r.Ledger.Causes = map[string]uint64{}
	r.Servers = j.World() > j.Workers
	alive := map[int]bool{}
	for _, rep := range o.Reports {
		alive[rep.Rank] = true
		r.add(rep)
	}
	r.addDeparted(o)
	if o.Reached {
		if r.Status, r.Ended = "done", "target"; !j.Until.Reached(o.Final) {
			r.Ended = "plateau"
		}
		sent, at := r.Crossed(r.BytesUp, r.BytesDown), r.Crossed(o.Final.BytesUp, o.Final.BytesDown)
		if sent > 0 {
			share := float64(at) / float64(sent)
			r.RawBytes, r.BF16Bytes = uint64(math.Round(share*float64(r.RawBytes))), uint64(math.Round(share*float64(r.BF16Bytes)))
		}
		r.BytesUp, r.BytesDown = o.Final.BytesUp, o.Final.BytesDown
	}
	if base.Raw > 0 || base.Up == 0 { // else an earlier leg did not count them
		r.RawBytes, r.BF16Bytes = r.RawBytes+base.Raw, r.BF16Bytes+base.BF16
	} else {
		r.RawBytes, r.BF16Bytes = 0, 0
	}
	r.BytesUp += base.Up
	r.BytesDown += base.Down
	// A worker that died cannot say what it sent; the servers know what reached
	// them, and what they hold of it unflushed is lost like the rest.
	for _, rep := range o.Reports {
		if rep.Role == "server" {
			r.Ledger.Sent += rep.Past
			for w, n := range rep.Taken {
				if !alive[w] {
					r.Ledger.Sent += n
				}
			}
		}
	}
	r.Ledger.Torn = torn(o.Reports, alive)
	r.Ledger.Sent += r.Ledger.Torn
	if got := r.Ledger.Applied + r.Ledger.Rejected; r.Ledger.Sent > got {
		r.Ledger.Lost = r.Ledger.Sent - got
	}
	r.measured(o)
	if seconds > 0 {
		r.UpdateRate = float64(r.Steps) / seconds
	}
	r.Members = o.Members
	r.Lost = append(slices.Clone(base.Lost), o.Dead...)
	r.Degraded = len(r.Lost) > 0
	r.Ledger.ResidualLost, r.Ledger.ResidualUnknown = residuals(o, len(r.Lost))
	if r.Ledger.Torn > 0 {
		r.Lost = append(r.Lost, fmt.Sprintf("%d part(s) of pushes, of which other shards have theirs", r.Ledger.Torn))
	}
	if r.Ledger.Zeroed > 0 {
		r.Degraded = true
		r.Lost = append(r.Lost, fmt.Sprintf("%d gradient(s) with NaN or Inf contributed nothing", r.Ledger.Zeroed))
	}
}

// residuals is what was lost of what codecs had yet to send; deaths are those of a run that
// goes on as it is without the dead.
func residuals(o *train.Observer, deaths int) (lost float64, unknown int) {
	if o.Job.Weightless || !compress.Remembers(o.Job.Codec) {
		return 0, 0
	}
	squares := 0.0
	for _, r := range o.Reports {
		squares += float64(r.Residual * r.Residual)
	}
	if !o.Job.Elastic {
		return math.Sqrt(squares), deaths
	}
	for _, m := range o.Members {
		for _, l := range m.Left {
			if squares += float64(l.Residual * l.Residual); !l.Planned {
				unknown++
			}
		}
	}
	return math.Sqrt(squares), unknown
}

// torn counts the parts of dead workers' pushes that are missing: a push has one for
// every shard, so that each shard should have as many as the one that has most.
func torn(reports []record.RankReport, alive map[int]bool) (n uint64) {
	counts := map[[2]int][]uint64{} // of a worker, before a resume or since: by shard
	shards := 0
	count := func(leg int, by []uint64) {
		for w, n := range by {
			k := [2]int{leg, w}
			counts[k] = append(counts[k], n)
		}
	}
	for _, rep := range reports {
		if rep.Role != "server" || rep.Taken == nil {
			continue
		}
		shards++
		count(0, rep.PastOf)
		count(1, rep.Taken)
	}
	for k, by := range counts {
		if leg, w := k[0], k[1]; leg == 1 && alive[w] {
			continue
		}
		for len(by) < shards { // a shard that has none
			by = append(by, 0)
		}
		for _, got := range by {
			n += slices.Max(by) - got
		}
	}
	return n
}

// add counts what a rank reported.
func (r *Result) add(rep record.RankReport) {
	r.Ledger.Sent += rep.Sent
	r.Ledger.Zeroed += rep.Zeroed
	r.Ledger.Applied += rep.Ledger.Applied
	r.Ledger.Rejected += rep.Ledger.Rejected
	for cause, n := range rep.Causes {
		r.Ledger.Causes[cause] += n
	}
	if rep.Ledger.Held > 0 {
		r.Ledger.Causes["held when the run ended"] += rep.Ledger.Held
	}
	for d, n := range rep.Delays {
		for len(r.Staleness) <= d {
			r.Staleness = append(r.Staleness, 0)
		}
		r.Staleness[d] += n
	}
	if rep.Stopped {
		r.Status = "stopped"
	}
	t := rep.Traffic
	r.RawBytes += t.RawBytes
	r.BF16Bytes += t.BF16Bytes
	r.ReportBytes += t.SentBody[comm.Report]
	switch {
	case r.Servers && rep.Role == "server":
		r.BytesUp += t.RecvBytes[comm.Gradient]
		r.BytesDown += t.SentBytes[comm.Parameters]
	case !r.Servers:
		r.BytesUp += t.SentBytes[comm.Gradient]
		r.BytesDown += t.RecvBytes[comm.Gradient]
	}
}

// links fills in what the links between processes carried, in all legs.
func (r *Result) links(c comm.Carried, base linkCounters) {
	if c.Wire == 0 {
		return
	}
	n := linkCounters{Wire: c.Wire + c.Shared, Shared: c.Shared, Report: c.Body[comm.Report]}
	n.Overhead = n.Wire - min(n.Wire, n.Report+c.Body[comm.Gradient]+c.Body[comm.Parameters])
	r.WireBytes, r.SharedBytes = base.Wire+n.Wire, base.Shared+n.Shared
	r.ReportBytes, r.OverheadBytes = base.Report+n.Report, base.Overhead+n.Overhead
}

// measured fills in how late gradients were, and who waited for whom.
func (r *Result) measured(o *train.Observer) {
	var late, weight []float64
	sum, n := 0, 0
	for d, c := range r.Staleness {
		if c > 0 {
			late, weight = append(late, float64(d)), append(weight, float64(c))
			r.StalenessMax = d
			sum, n = sum+d*int(c), n+int(c)
		}
	}
	if n > 0 {
		r.StalenessMean = float64(sum) / float64(n) // of whole numbers: stat.Mean is fused on arm64
		q := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, late, weight) }
		r.StalenessP50, r.StalenessP90, r.StalenessP99 = q(0.5), q(0.9), q(0.99)
	}
	var age, gap []*record.Spread
	for _, rep := range o.Reports {
		if rep.Strain != nil {
			if r.Strain == nil {
				r.Strain = &comm.Strain{}
			}
			r.Strain.Add(*rep.Strain)
		}
		age, gap = append(age, rep.Age), append(gap, rep.Gap)
		if rep.Waits == nil {
			continue
		}
		if r.WaitedFor == nil {
			r.WaitedFor = make([]float64, len(rep.Waits.For))
		}
		for w, s := range rep.Waits.For {
			r.WaitedFor[w] += s
		}
	}
	r.Age, r.Gap = record.MergeSpreads(age...), record.MergeSpreads(gap...)
}

// Crossed is the number of bytes that crossed the network: up and down with
// servers, once what workers send each other without.
func (r *Result) Crossed(up, down uint64) uint64 {
	if r.Servers {
		return up + down
	}
	return up
}

// Compression is how many times fewer bytes crossed the network than another codec
// would have sent. It is not known where either is nought.
func (r *Result) Compression(other uint64) (times float64, known bool) {
	own := r.Crossed(r.BytesUp, r.BytesDown)
	if own == 0 || other == 0 {
		return 0, false
	}
	return float64(other) / float64(own), true
}

// Reach notes when a target was first reached, and which evaluations were best, of a run
// that has these evaluations.
func (r *Result) Reach(goal record.Goal, evals []record.Eval) {
	r.Target, r.Metric, r.Evals, r.TargetReached, r.TargetSeconds, r.TargetBytes, r.TargetTokens = goal.Value, goal.Metric.Name, evals, false, 0, 0, 0
	if goal.OfBest { // of which a run by itself knows nothing
		r.Target = 0
	}
	if e, ok := FirstAt(evals, goal); ok {
		r.TargetReached, r.TargetSeconds, r.TargetBytes = true, e.Seconds, r.Crossed(e.BytesUp, e.BytesDown)
		r.TargetTokens = e.Samples * uint64(r.SampleTokens)
	}
	r.Best = record.BestOf(r.Metrics, evals)
}

// Goal is what the run was to reach and is compared by, as its result has it.
func (r *Result) Goal() record.Goal {
	m, _ := sgd.FindMetric(r.Metrics, r.Metric)
	return record.Goal{Metric: m, Value: r.Target}
}

// FirstAt is the first evaluation that reaches a goal.
func FirstAt(evals []record.Eval, goal record.Goal) (record.Eval, bool) {
	i := slices.IndexFunc(evals, goal.Reached)
	if i < 0 {
		return record.Eval{}, false
	}
	return evals[i], true
}
