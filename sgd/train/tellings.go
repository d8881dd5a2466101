package train

import (
	"maps"
	"slices"

	"github.com/gradlab/gradlab/sgd/train/record"
)

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
