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

// Departed are the bytes of gradients that workers without servers had told of whose
// reports there are not, as their processes died. What they sent afterwards is not in it.
func (o *Observer) Departed() (up, down uint64) {
	t := o.crossed.beside(func(w int) bool { return o.crossed[w].reported })
	return t.up, t.down
}
