package train

import (
	"context"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// tellFinal fills in what every rank has to tell and sends the report.
func tellFinal(ctx context.Context, of *Rank, r record.RankReport) error {
	t, h := of.times, of.h
	spent := t.Times()
	if r.Steps > 0 && of.earlier > 0 {
		r.Timed = r.Steps - of.earlier
	}
	r.Time, r.Traffic, r.Seconds = &spent, h.Traffic().Count(), h.Now().Seconds()
	if e, ok := h.(comm.Strained); ok {
		strain := e.Strain()
		r.Strain = &strain
	}
	if ps := h.Traffic().Peers(); len(ps) <= record.MaxPeers {
		r.Peers = ps
	}
	return of.tellJSON(ctx, onFinal, r)
}

// Mark announces a snapshot of one shard's parameters, which follows as a frame
// of its own unless the mark is bare.
type Mark struct {
	Shard    int
	Version  int
	Samples  uint64
	Epoch    float64
	Seconds  float64
	Up, Down uint64 // bytes that the sender answers for
	Last     bool
	Bare     bool
}

// ReportEvery is the number of updates between progress reports.
func (j *Job) ReportEvery() int { return max(1, j.Updates/400) }

// Crossed says whether a multiple of every lies in (from, to]; 0: there are none.
func Crossed(every, from, to int) bool { return every > 0 && to/every > from/every }

// Meter averages what pushes say until the next report.
type Meter struct {
	loss   []float64 // sums by worker, so that the mean does not depend on who came first
	n      int
	Noise  compute.Noise
	before []uint64 // histogram of staleness at the last report
	age    meanSince
	gap    meanSince
	step   int // and when the last report was
	at     float64
}

// meanSince is the mean of what a gauge has taken since it was last asked.
type meanSince struct {
	N   uint64
	Sum float64
}

func (m *meanSince) of(g *record.Gauge) (mean float64) {
	if n := g.N - m.N; n > 0 {
		mean = (g.Sum - m.Sum) / float64(n)
	}
	m.N, m.Sum = g.N, g.Sum
	return mean
}

// measured fills in what else is known at a report.
func (m *Meter) measured(p *record.Progress, age, gap *record.Gauge) {
	p.AgeMean, p.GapMean = m.age.of(age), m.gap.of(gap)
	if d := p.Seconds - m.at; d > 0 {
		p.UpdateRate = float64(p.Step-m.step) / d
	}
	m.step, m.at = p.Step, p.Seconds
}

// Add takes the loss that a worker told.
func (m *Meter) Add(worker int, loss float64) {
	for len(m.loss) <= worker {
		m.loss = append(m.loss, 0)
	}
	m.loss[worker] += loss
	m.n++
}

// Fill fills in the means since the last report, which begin anew; delays is the histogram of
// staleness of the whole run, nil where there is none.
func (m *Meter) Fill(p *record.Progress, delays []uint64) {
	if m.n > 0 {
		loss := 0.0
		for _, sum := range m.loss {
			loss += sum
		}
		p.Loss = record.Recordable(loss / float64(m.n))
	}
	m.Noise.Fill(p)
	clear(m.loss)
	m.n = 0
	var sum, n uint64
	for d, c := range delays {
		if d < len(m.before) {
			c -= m.before[d]
		}
		if c > 0 {
			sum += uint64(d) * c
			n += c
			p.StalenessMax = d
		}
	}
	if n > 0 {
		p.StalenessMean = float64(sum) / float64(n)
	}
	m.before = append(m.before[:0], delays...)
}
