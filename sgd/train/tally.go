package train

import (
	"maps"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// What went over the network is also counted as codecs raw and bf16 would have
// sent it: four bytes an element, and two but for buffers, which no codec touches.
// Modes with servers count what these take and answer, others what workers send. With local
// steps an exchange, or a push, stands for the gradients of all steps since the last one.

// plainly counts a frame with a part in it, either way.
func plainly(h comm.Host, pt wire.Part) { h.Traffic().Plain(pt.Plain()) }

// pushed counts the gradients behind a push.
func pushed(h comm.Host, j *Job, pt wire.Part) {
	raw, bf16 := pt.Plain()
	h.Traffic().Plain(j.perPush()*raw, j.perPush()*bf16)
}

// count counts what this rank would have sent in the exchange of a bucket.
func (r *reducer) count(b *bucket) {
	k := [2]int{b.lo, b.hi}
	sum, ok := r.counts[k]
	if !ok {
		pt := r.shard.Part(b.lo, b.hi)
		if r.all { // everybody gets everybody's payload
			raw, bf16 := pt.Plain()
			sum = [2]int{(r.job.Workers - 1) * raw, (r.job.Workers - 1) * bf16}
		} else {
			sum = [2]int{r.moves(pt.Size, 4), r.moves(pt.Size-pt.Exact, 2) + r.moves(pt.Exact, 4)}
		}
		r.counts[k] = sum
	}
	n := max(1, r.steps)
	r.h.Traffic().Plain(n*sum[0], n*sum[1])
}

// moves is the bytes that this rank sends in an all-reduce of n elements.
func (r *reducer) moves(n, width int) (bytes int) {
	if n == 0 || r.job.Workers == 1 || r.job.Topology == nil { // which codecs that are gathered do without
		return 0
	}
	p := r.job.Topology.Plan(collective.At{Rank: r.rank, Size: r.job.Workers, Bytes: n * width, Node: r.job.Node})
	for _, m := range p.Moves {
		if m.To >= 0 {
			lo, hi := collective.Bounds(m.Send, p.Chunks, n)
			bytes += (hi - lo) * width
		}
	}
	return bytes
}

// tallied puts what a rank has sent and been sent into its state, by the name of
// the rank: the observer adds it up.
func tallied(st *checkpoint.State, rank int, h comm.Host, up, down uint64) {
	c := h.Traffic().Count()
	for name, n := range map[string]uint64{keyBytesUp: up, keyBytesDown: down, keyRaw: c.RawBytes, keyBF16: c.BF16Bytes} {
		st.Ints[checkpoint.Key(name, rank)] = int64(n)
	}
}

// tellings puts the progress that the first server tells of together with the
// bytes of the others, each of which tells of the same updates in its own time.
type tellings struct {
	queue []record.Progress         // of the first server, by step
	bytes map[int][]record.Progress // by rank of the others: steps and bytes
}

// take hears a server, and returns what is whole by then. Of a server that told
// nothing of a step, what it told of the last one before counts.
func (t *tellings) take(from, lead, servers int, p record.Progress) []record.Progress {
	if t.bytes == nil {
		t.bytes = map[int][]record.Progress{}
	}
	if from == lead {
		t.queue = append(t.queue, p)
	} else {
		t.bytes[from] = append(t.bytes[from], p)
	}
	whole := 0
	for whole < len(t.queue) && t.heard(t.queue[whole].Step) == servers-1 {
		whole++
	}
	return t.cut(whole)
}

// forget drops what was told of updates behind a step, which are called off.
func (t *tellings) forget(step int) {
	behind := func(p record.Progress) bool { return p.Step > step }
	t.queue = slices.DeleteFunc(t.queue, behind)
	for from, told := range t.bytes {
		if t.bytes[from] = slices.DeleteFunc(told, behind); len(t.bytes[from]) == 0 {
			delete(t.bytes, from)
		}
	}
}

// heard is how many servers have told of a step, or of one behind it.
func (t *tellings) heard(step int) (n int) {
	for _, told := range t.bytes {
		if told[len(told)-1].Step >= step {
			n++
		}
	}
	return n
}

// cut takes the first n reports, with everybody's bytes.
func (t *tellings) cut(n int) []record.Progress {
	out := t.queue[:n:n]
	t.queue = t.queue[n:]
	for i := range out {
		p := &out[i]
		for _, from := range slices.Sorted(maps.Keys(t.bytes)) { // sums of floats have an order
			told := t.bytes[from]
			for len(told) > 1 && told[1].Step <= p.Step {
				told = told[1:]
			}
			if t.bytes[from] = told; told[0].Step <= p.Step {
				p.BytesUp += told[0].BytesUp
				p.BytesDown += told[0].BytesDown
				p.NoiseSquare += told[0].NoiseSquare
				p.NoiseTrace += told[0].NoiseTrace
			}
		}
	}
	return out
}
