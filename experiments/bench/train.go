package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// TrainOptions say what Train measures.
type TrainOptions struct {
	Cases   []Case
	Threads []int   // numbers of threads, each a row for each case
	Seconds float64 // of measuring for each contender and row, more where steps are long
	Torch   *Torch  // nil: no peer
	Command []string
	Logf    func(format string, args ...any) // hears how it goes
}

// TrainReport is everything Train found out.
type TrainReport struct {
	Command []string   `json:"command"`
	Machine Machine    `json:"machine"`
	Rows    []TrainRow `json:"rows"`
}

// TrainRow is a case at a number of threads.
type TrainRow struct {
	Name  string `json:"name"`
	Input string `json:"input"` // of a sample, and its classes
	Unit  string `json:"unit"`  // of rates
	Case
	Params  int `json:"params"` // trained ones
	Threads int `json:"threads"`
	Speed
	Phases
	StepGFLOP float64 `json:"step_gflop"` // nominal: three forward passes, the first layer's unused input gradient counted
	GFLOPS    float64 `json:"gflops"`     // nominal, a second
	// GemmGFLOPS is the best of our own products of square matrices of sides 256
	// to 1024, on the same threads and in the same rounds; GemmShare is what the
	// step reaches of it.
	GemmGFLOPS float64 `json:"gemm_gflops"`
	GemmShare  float64 `json:"gemm_share"`
	Peers      []Peer  `json:"peers,omitempty"`
	Best       string  `json:"best_peer,omitempty"` // the fastest of Peers
	Error      string  `json:"error,omitempty"`
}

// Speed is what a contender reached in its blocks.
type Speed struct {
	Rate   Spread    `json:"rate"`
	StepMS float64   `json:"step_ms"` // at the median
	Steps  int       `json:"steps_per_block"`
	Blocks []float64 `json:"blocks"` // the rate of each round
}

// Peer is what a variant of the peer reached in the same rounds.
type Peer struct {
	Variant
	Version string `json:"version,omitempty"`
	Speed
	Ratio  Spread  `json:"ratio"`       // ours to theirs, round by round
	Faults float64 `json:"page_faults"` // a step
	Error  string  `json:"error,omitempty"`
}

// Check refuses what cannot be measured.
func (o TrainOptions) Check() error {
	for _, n := range o.Threads {
		if n < 1 || n > runtime.NumCPU() {
			return fmt.Errorf("threads is %d, want 1 to %d, the cores there are", n, runtime.NumCPU())
		}
	}
	if len(o.Threads) == 0 {
		return errors.New("no number of threads is given")
	}
	if !(o.Seconds > 0 && o.Seconds <= maxSeconds) {
		return fmt.Errorf("seconds is %g, want more than 0 and at most %d", o.Seconds, maxSeconds)
	}
	return nil
}

const maxSeconds = 3600

// Train measures training steps: per row, we and every variant of the peer take
// turns. What fails is left out and told in the error, beside the report of all
// the rest; the end of ctx ends it with the rows that were complete.
func Train(ctx context.Context, o TrainOptions) (*TrainReport, error) {
	r := &TrainReport{Command: o.Command, Machine: ThisMachine(), Rows: []TrainRow{}}
	if o.Torch != nil && o.Torch.openMP == "" {
		o.Logf("found no OpenBLAS over OpenMP, so tuned torch goes without; where its BLAS is OpenBLAS, install libopenblas0-openmp")
	}
	var failed []error
	for _, c := range o.Cases {
		for _, threads := range o.Threads {
			row, err := o.row(ctx, c, threads)
			if ctx.Err() != nil {
				return r, ctx.Err()
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("%s, threads %d: %w", c.Name(), threads, err))
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r, errors.Join(failed...)
}

func (o TrainOptions) row(ctx context.Context, c Case, threads int) (TrainRow, error) {
	row := TrainRow{Name: c.Name(), Input: c.Sample.String(), Unit: c.Unit(), Case: c, Threads: threads}
	fail := func(err error) (TrainRow, error) {
		row.Error = err.Error()
		return row, err
	}
	defer useThreads(threads)()
	us, err := newOurs(c)
	if err != nil {
		return fail(err)
	}
	row.Params, row.StepGFLOP = us.model.Layout().Trainable(), us.flops()/1e9
	what := fmt.Sprintf("%s batch %d, threads %d", c.Name(), c.Batch, threads)

	cs := []contender{us}
	workers := map[int]*torchWorker{} // by index in row.Peers, which is one less than in cs
	if o.Torch != nil {
		for _, v := range o.Torch.Variants(c, threads) {
			o.Logf("%s: starting torch %s", what, v.Name)
			p := Peer{Variant: v}
			w, err := o.Torch.start(ctx, v, c, threads, row.Params)
			switch {
			case errors.Is(err, errNotCompiling):
				continue
			case err != nil:
				cs = append(cs, absent{err})
			default:
				defer w.end()
				cs, workers[len(row.Peers)], p.Version = append(cs, w), w, w.hello.Torch
			}
			row.Peers = append(row.Peers, p)
		}
	}

	o.Logf("%s: measuring", what)
	runtime.GC() // what earlier rows left is not swept in this one's time
	gemm := newYardstick()
	scores, err := compete(ctx, cs, o.Seconds, gemm.measure)
	if err != nil {
		return fail(err)
	}
	if scores[0].err != nil {
		return fail(scores[0].err)
	}
	row.Speed = speedOf(scores[0], c.items())
	if row.Phases, err = us.phases(ctx, scores[0].steps); err != nil {
		return fail(err)
	}
	row.GFLOPS = row.StepGFLOP / row.StepMS * 1e3
	row.GemmGFLOPS, row.GemmShare = gemm.best, row.GFLOPS/gemm.best

	var failed []error
	best := 0.0
	for i := range row.Peers {
		p, s := &row.Peers[i], scores[i+1]
		if s.err != nil {
			p.Error = s.err.Error()
			failed = append(failed, s.err)
			continue
		}
		p.Speed, p.Faults, p.Ratio = speedOf(s, c.items()), workers[i].faults, ratio(scores[0], s)
		if p.Rate.Median > best {
			best, row.Best = p.Rate.Median, p.Name
		}
	}
	o.Logf("%s: %s", what, row.summary())
	return row, errors.Join(failed...)
}

// absent is a contender that could not be started.
type absent struct{ error }

func (a absent) block(context.Context, int) (float64, error) { return 0, a.error }

func speedOf(s score, items int) Speed {
	blocks := make([]float64, len(s.perS))
	for i, v := range s.perS {
		blocks[i] = v * float64(items)
	}
	rate := SpreadOf(blocks)
	return Speed{Rate: rate, StepMS: float64(items) / rate.Median * 1e3, Steps: s.steps, Blocks: blocks}
}

// ratio is how many times as fast a was as b, round by round.
func ratio(a, b score) Spread {
	rounds := make([]float64, len(a.perS))
	for i := range rounds {
		rounds[i] = a.perS[i] / b.perS[i]
	}
	return SpreadOf(rounds)
}

// best is the peer to beat, nil if there is none.
func (r *TrainRow) best() *Peer {
	for i := range r.Peers {
		if r.Peers[i].Name == r.Best {
			return &r.Peers[i]
		}
	}
	return nil
}

func (r *TrainRow) summary() string {
	s := fmt.Sprintf("%s %s", digits(r.Rate.Median), r.Unit)
	if p := r.best(); p != nil {
		s += fmt.Sprintf(", torch %s %s, ratio %.2f", p.Name, digits(p.Rate.Median), p.Ratio.Median)
	}
	return s
}
