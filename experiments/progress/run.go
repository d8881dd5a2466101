package progress

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Run shows one run of a training. A nil *Run shows nothing. Methods may be
// called from any goroutine.
type Run struct {
	row   *row
	total int

	mu       sync.Mutex
	ended    bool
	told     bool // there was a progress report
	step     int
	speed    meter
	progress record.Progress
	eval     *record.Eval
	metric   sgd.Metric // that is shown of it
	passes   [2]int     // of the update that is being made: done, and all; zero: not told
}

// Run begins to show a run of total updates, of which start were made before.
// A total of 0 is unknown.
func (d *Display) Run(name string, total, start int) *Run {
	if d.silent() {
		return nil
	}
	r := &Run{total: total, step: start}
	r.speed.add(d.now(), float64(start))
	r.row = d.row(name, r.show)
	return r
}

// Progress shows how far the run has come.
func (r *Run) Progress(p record.Progress) {
	r.update(func() {
		r.told, r.step, r.progress, r.passes = true, p.Step, p, [2]int{}
		r.speed.add(r.row.d.now(), float64(p.Step))
	}, 1)
}

// Eval shows an evaluation, by the value of a metric.
func (r *Run) Eval(e record.Eval, m sgd.Metric) {
	r.update(func() {
		r.step, r.eval, r.metric = max(r.step, e.Step), &e, m
		if !r.told {
			r.progress.BytesUp, r.progress.BytesDown = e.BytesUp, e.BytesDown
		}
	}, 5)
}

// update changes the run's state; a plain line follows if that share of the
// usual time has passed.
func (r *Run) update(change func(), share time.Duration) {
	if r == nil {
		return
	}
	r.mu.Lock()
	ended := r.ended
	if !ended {
		change()
	}
	r.mu.Unlock()
	if !ended {
		r.row.tell(r.row.d.every / share)
	}
}

// Steps shows how many updates have been made, of how many, where nothing else
// is known.
func (r *Run) Steps(done, total int) {
	r.update(func() {
		r.step, r.total = done, total
		r.speed.add(r.row.d.now(), float64(done))
	}, 1)
}

// Passes shows how many micro-batches of the present update are made, of how many.
func (r *Run) Passes(done, of int) { r.update(func() { r.passes = [2]int{done, of} }, 1) }

// Note writes a line about the run.
func (r *Run) Note(format string, args ...any) {
	if r == nil {
		return
	}
	r.row.d.line(r.row.name + "  " + fmt.Sprintf(format, args...))
}

// Done ends the run and leaves a line about it. Only the first call counts.
func (r *Run) Done(summary string) {
	if r == nil {
		return
	}
	if r.last() {
		r.row.end(summary)
	}
}

// take ends the run and leaves a line without its name.
func (r *Run) take(line string) {
	if r.last() {
		r.row.d.line(line)
		r.row.close()
	}
}

// Drop ends the run and leaves nothing.
func (r *Run) Drop() {
	if r != nil && r.last() {
		r.row.close()
	}
}

// last ends the run, if it has not ended.
func (r *Run) last() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.ended
	r.ended = true
	return !ended
}

// show is the row's state, the least important last.
func (r *Run) show() (done float64, fields []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.progress
	done = -1
	if r.total > 0 {
		done = float64(r.step) / float64(r.total)
		fields = append(fields, fmt.Sprintf("step %d/%d (%d %%)", r.step, r.total, percent(done)))
	} else {
		fields = append(fields, fmt.Sprintf("step %d", r.step))
	}
	if r.passes[1] > 0 {
		fields = append(fields, fmt.Sprintf("micro-batch %d/%d", r.passes[0], r.passes[1]))
	}
	if r.speed.known() {
		fields = append(fields, Rate(r.speed.rate, "steps"))
		if left := r.total - r.step; left > 0 && r.speed.rate > 0 {
			fields = append(fields, "eta "+Seconds(float64(left)/r.speed.rate))
		}
	}
	if r.told {
		fields = append(fields, fmt.Sprintf("loss %.3g", p.Loss))
	}
	if r.eval != nil {
		if x, known := r.eval.Values.Of(r.metric); known {
			fields = append(fields, fmt.Sprintf("%s %.3g", r.metric.Short(), x))
		}
	}
	if r.told || r.eval != nil {
		fields = append(fields, fmt.Sprintf("up %s down %s", Bytes(p.BytesUp), Bytes(p.BytesDown)))
	}
	if r.told {
		fields = append(fields, fmt.Sprintf("staleness %.1f/%d", p.StalenessMean, p.StalenessMax))
	}
	return done, fields
}

// percent is rounded down: 100 means all.
func percent(done float64) int { return int(math.Floor(float64(100*min(max(done, 0), 1)) + 1e-9)) }
