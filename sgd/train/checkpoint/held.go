package checkpoint

// Held is the state of a rank, or of what the ranks of a process share, as it was before
// a step. It is a copy, whose memory the next one takes.
type Held struct {
	Step  int
	Rank  int // by whose number it is named
	State *State
	Left  float64 // square of the norm of what its codecs have yet to send
}

// Hold takes a copy of st, whose vectors may be somebody's.
func (h *Held) Hold(step, rank int, st *State) {
	was := h.State
	if was != nil {
		for name, v := range st.Vectors {
			st.Vectors[name] = append(was.Vectors[name][:0], v...)
		}
	} else {
		for name, v := range st.Vectors {
			st.Vectors[name] = append([]float32(nil), v...)
		}
	}
	h.Step, h.Rank, h.State = step, rank, st
}
