package progress

import (
	"fmt"
	"sync"
	"time"
)

// Sweep shows many runs as one piece of work: a row for the whole, with the time
// left, and on a terminal a row for each run under way. A nil *Sweep shows
// nothing. Methods may be called from any goroutine.
type Sweep struct {
	d     *Display
	row   *row
	total int
	begun time.Time

	mu           sync.Mutex
	weight       float64 // of all jobs
	made         float64 // of those that ended
	ended, wrong int
	running      map[*SweepJob]bool
}

// SweepJob is one run of a sweep.
type SweepJob struct {
	s      *Sweep
	name   string
	weight float64
	share  float64 // done, guarded by the sweep
	run    *Run    // nil where rows are not drawn
}

// Sweep begins to show jobs of these weights, which are expected to take times
// in proportion.
func (d *Display) Sweep(weights []float64) *Sweep {
	if d.silent() {
		return nil
	}
	s := &Sweep{d: d, total: len(weights), begun: d.now(), running: map[*SweepJob]bool{}}
	for _, w := range weights {
		s.weight += w
	}
	s.row = d.row("sweep", s.show)
	return s
}

// Begin shows that a job begins, of its weight among those of the sweep.
func (s *Sweep) Begin(name string, weight float64) *SweepJob {
	if s == nil {
		return nil
	}
	j := &SweepJob{s: s, name: name, weight: weight}
	if s.d.drawn() {
		j.run = s.d.Run(name, 0, 0)
	}
	s.mu.Lock()
	s.running[j] = true
	s.mu.Unlock()
	return j
}

// Update shows how many updates the job has made, of how many.
func (j *SweepJob) Update(done, total int) {
	if j == nil || total < 1 {
		return
	}
	j.s.mu.Lock()
	j.share = float64(done) / float64(total)
	j.s.mu.Unlock()
	j.run.Steps(done, total)
	j.s.row.tell(j.s.d.every)
}

// End shows what became of the job, as a line of its own.
func (j *SweepJob) End(summary string, failed bool) {
	if j == nil {
		return
	}
	s := j.s
	s.mu.Lock()
	delete(s.running, j)
	s.made += j.weight
	s.ended++
	if failed {
		s.wrong++
	}
	line := fmt.Sprintf("%d/%d  %s  %s", s.ended, s.total, j.name, summary)
	s.mu.Unlock()
	if j.run != nil {
		j.run.take(line)
		return
	}
	s.d.line(line)
}

// Done ends the row of the sweep.
func (s *Sweep) Done() {
	if s == nil {
		return
	}
	s.mu.Lock()
	line := fmt.Sprintf("%d of %d jobs in %s", s.ended, s.total, Seconds(s.d.now().Sub(s.begun).Seconds()))
	if s.wrong > 0 {
		line += fmt.Sprintf(", %d failed", s.wrong)
	}
	s.mu.Unlock()
	s.row.end(line)
}

func (s *Sweep) show() (done float64, fields []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.made
	for j := range s.running {
		made += float64(j.share * j.weight)
	}
	if s.weight > 0 {
		done = made / s.weight
	}
	fields = append(fields, fmt.Sprintf("%d/%d jobs (%d %%)", s.ended, s.total, percent(done)))
	if spent := s.d.now().Sub(s.begun).Seconds(); done > 0.02 && done < 1 { // before, nobody knows
		fields = append(fields, "eta "+Seconds(spent*(1-done)/done))
	}
	if s.wrong > 0 {
		fields = append(fields, fmt.Sprintf("%d failed", s.wrong))
	}
	fields = append(fields, fmt.Sprintf("%d running", len(s.running)))
	return done, fields
}
