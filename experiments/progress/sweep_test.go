package progress

import (
	"strings"
	"testing"
	"time"
)

// One line for the whole, now and then, with the time left by the weights of the
// jobs; one for each job that ended.
func TestSweep(t *testing.T) {
	d, out, c := plainDisplay()
	s := d.Sweep([]float64{3, 1})
	long, brief := s.Begin("codec=raw", 3), s.Begin("codec=bf16", 1)
	c.forward(10 * time.Second)
	long.Update(50, 100) // 1.5 of 4
	brief.End("accuracy 0.9812 in 10s", false)
	c.forward(10 * time.Second)
	long.Update(100, 100)
	long.End("failed: it was the disk", true)
	s.Done()
	d.Close()
	want := strings.Join([]string{
		"sweep  0/2 jobs (37 %)  eta 17s  2 running",
		"1/2  codec=bf16  accuracy 0.9812 in 10s",
		"sweep  1/2 jobs (100 %)  1 running",
		"2/2  codec=raw  failed: it was the disk",
		"sweep  2 of 2 jobs in 20s, 1 failed",
	}, "\n") + "\n"
	if got := out.String(); got != want {
		t.Errorf("%s\nis not\n%s", got, want)
	}
}

func TestSweepOfNobody(t *testing.T) {
	var d *Display
	j := d.Sweep(nil).Begin("x", 1)
	j.Update(1, 2)
	j.End("done", false)
	d.Sweep(nil).Done()
}
