package compresstest

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/compress"
)

// Asked is one operation of an exchange, as rank 0 asks for it.
type Asked struct {
	Op       string `json:"op"`                 // sum, max, gather or scatter
	Elements int    `json:"elements,omitempty"` // of a sum or maximum
	Wire     string `json:"wire,omitempty"`     // what an element travels as
	Bytes    int    `json:"bytes"`              // put in by the rank
}

// String says it in words.
func (a Asked) String() string {
	switch a.Op {
	case "sum":
		return fmt.Sprintf("a sum of %d %s", a.Elements, a.Wire)
	case "max":
		return fmt.Sprintf("a maximum of %d %s", a.Elements, a.Wire)
	case "gather":
		return fmt.Sprintf("gathered parts of %d bytes", a.Bytes)
	}
	return fmt.Sprintf("%d bytes of parts to their owners", a.Bytes)
}

func askedBy(op compress.Op) Asked {
	switch op.Kind {
	case compress.OpSum, compress.OpMax:
		wires := [compress.Wires]string{compress.F32: "f32", compress.F16: "fp16", compress.BF16: "bf16", compress.I8: "i8", compress.I16: "i16"}
		a := Asked{Op: "sum", Elements: len(op.Floats), Wire: wires[op.Wire], Bytes: len(op.Floats) * op.Wire.Bytes()}
		if op.Kind == compress.OpMax {
			a.Op = "max"
		}
		return a
	case compress.OpGather:
		return Asked{Op: "gather", Bytes: len(op.Bytes)}
	}
	a := Asked{Op: "scatter"}
	for _, b := range op.Slices[1:] { // rank 0 keeps its own
		a.Bytes += len(b)
	}
	return a
}

// Traffic is what the exchange of one block asks for.
type Traffic struct {
	Ranks  int
	Rounds float64 // operations, mean of the steps
	Bytes  float64 // put in by a rank, mean of ranks and steps
	Asked  []Asked // of the last step that asked for anything
}

// MeasureExchange takes steps of normal vectors of length d through an exchange
// of a few ranks.
func MeasureExchange(f compress.Family, d, steps int) (Traffic, error) {
	t := Traffic{Ranks: world}
	r, err := newRing(f, d)
	if err != nil {
		return t, err
	}
	rounds, sent := 0, 0
	g := make([][]float32, world)
	for n := range steps {
		for rank := range g {
			g[rank] = Vector("gaussian", d, n*world+rank)
		}
		if err := r.step(n, g); err != nil {
			return t, err
		}
		rounds += r.rounds
		for _, n := range r.sent {
			sent += n
		}
		if len(r.asked) > 0 {
			t.Asked = slices.Clone(r.asked)
		}
	}
	steps = max(1, steps)
	t.Rounds, t.Bytes = float64(rounds)/float64(steps), float64(sent)/float64(steps*world)
	return t, nil
}
