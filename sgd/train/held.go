package train

import "github.com/gradlab/gradlab/sgd/train/checkpoint"

// held is the state of a rank, or of what the ranks of a process share, as it was before
// a step. It is a copy, whose memory the next one takes.
type held struct {
	step int
	rank int // by whose number it is named
	st   *checkpoint.State
	left float64 // square of the norm of what its codecs have yet to send
}

// hold takes a copy of st, whose vectors may be somebody's.
func (h *held) hold(step, rank int, st *checkpoint.State) {
	was := h.st
	if was != nil {
		for name, v := range st.Vectors {
			st.Vectors[name] = append(was.Vectors[name][:0], v...)
		}
	} else {
		for name, v := range st.Vectors {
			st.Vectors[name] = append([]float32(nil), v...)
		}
	}
	h.step, h.rank, h.st = step, rank, st
}
