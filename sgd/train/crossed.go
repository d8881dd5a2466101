package train

import "github.com/gradlab/gradlab/comm"

// crossings are the bytes of gradients that workers without servers say they have sent and
// received. Who left, or whose process died, has told of some, which evaluations,
// checkpoints and the result go on counting.
type crossings map[int]*crossing

// crossing is that of one worker of the run.
type crossing struct {
	life     uint32
	before   traffic // of processes that were there before
	last     traffic // of the present one, as last told
	reported bool    // by its last report, which is in the result
}

// traffic is bytes sent and received.
type traffic struct{ up, down uint64 }

func (t *traffic) add(o traffic) { t.up, t.down = t.up+o.up, t.down+o.down }

// hear takes what a worker's process says of itself.
func (c crossings) hear(h *comm.Header, up, down uint64) *crossing {
	if c == nil {
		return &crossing{}
	}
	x := c[int(h.From)]
	if x == nil {
		x = &crossing{life: h.Incarnation}
		c[int(h.From)] = x
	}
	if x.life < h.Incarnation {
		x.before.add(x.last)
		x.life, x.last, x.reported = h.Incarnation, traffic{}, false
	}
	x.last = traffic{max(x.last.up, up), max(x.last.down, down)}
	return x
}

// beside is what there is beside what the present processes of some workers tell.
func (c crossings) beside(counted func(worker int) bool) (sum traffic) {
	for w, x := range c {
		if sum.add(x.before); !counted(w) {
			sum.add(x.last)
		}
	}
	return sum
}

// Departed are the gradients, and the bytes of gradients, of workers without servers that did
// not report them, as their processes died. Gradients are those that were applied; bytes are
// those that the workers had told of, and what they sent afterwards is not among them.
func (o *Observer) Departed() (gradients, up, down uint64) {
	t := o.crossed.beside(func(w int) bool { return o.crossed[w].reported })
	return o.unreported(), t.up, t.down
}

// unreported is how many gradients were applied that no report counts.
func (o *Observer) unreported() (n uint64) {
	if c := o.conduct; c != nil && c.free {
		n = uint64(c.made) + c.beyond
		for _, rep := range o.Reports {
			n -= min(n, rep.Sent)
		}
		return n
	}
	if o.servers > 0 || !o.Job.inEpochs() {
		return 0
	}
	made := map[int]uint64{} // a member makes one a step of its epoch
	for i, m := range o.Members {
		end := o.Final.Step
		if i+1 < len(o.Members) {
			end = o.Members[i+1].Step
		}
		for _, w := range m.Workers {
			made[w] += uint64(max(0, end-m.Step))
		}
	}
	for _, rep := range o.Reports {
		made[rep.Rank] -= min(made[rep.Rank], rep.Sent)
	}
	for _, more := range made {
		n += more
	}
	return n
}
