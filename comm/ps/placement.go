package ps

import (
	"fmt"

	"github.com/gradlab/gradlab/registry"
)

// Piece is a range of one tensor that lives in a shard.
type Piece struct {
	Tensor   int // index into the sizes given to Place
	Off, Len int // elements
}

// Tensor is what there is to place.
type Tensor struct {
	Len int // elements
	Row int // elements that stay together: a cut falls on a multiple of it; 0 is 1
}

// rows is how many units a tensor may be cut in, and how long each is.
func (t Tensor) rows() (n, row int) {
	row = max(1, t.Row)
	return t.Len / row, row
}

// Even cuts a tensor into pieces as equal as its rows permit, of at most so many
// elements, but at least a row.
func (t Tensor) Even(tensor, most int) (out []Piece) {
	n, row := t.rows()
	each := max(1, most/row)
	pieces := max(1, (n+each-1)/each)
	for k := range pieces {
		lo, hi := k*n/pieces*row, (k+1)*n/pieces*row
		out = append(out, Piece{tensor, lo, hi - lo})
	}
	return out
}

// Placement spreads tensors over shards. Every element of every tensor lies in
// exactly one piece, and no row in two; pieces of a shard are in tensor order.
type Placement interface {
	Place(tensors []Tensor, shards int) [][]Piece
}

// Placements holds every placement by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Placements = registry.New[Placement]("placement")

// RoundRobin places whole tensors in turn, as TensorFlow's
// replica_device_setter does by default: simple, and badly balanced as soon as
// one tensor dominates.
//
// Rule: tensor i lives on shard i mod S.
//
// Paper: none; the rule is TensorFlow's.
//
// Tuning: none.
//
// Cost: the shard with the largest tensor is waited for.
type RoundRobin struct{}

var _ = Placements.Add("round_robin", "whole tensors in turn (TensorFlow's default)", RoundRobin{})

// Place implements Placement.
func (RoundRobin) Place(tensors []Tensor, shards int) [][]Piece {
	out := make([][]Piece, shards)
	for i, t := range tensors {
		out[i%shards] = append(out[i%shards], Piece{i, 0, t.Len})
	}
	return out
}

// Greedy places each whole tensor on the shard that holds the fewest elements
// so far (TensorFlow's GreedyLoadBalancingStrategy with byte_size_load_fn).
//
// Rule: each tensor in turn to the least loaded shard.
//
// Paper: none; the rule is TensorFlow's.
//
// Tuning: none.
//
// Cost: no shard is fuller than the mean by more than the largest tensor.
type Greedy struct{}

var _ = Placements.Add("greedy", "whole tensors, each to the least loaded shard (TensorFlow's load balancing)", Greedy{})

// Place implements Placement.
func (Greedy) Place(tensors []Tensor, shards int) [][]Piece {
	out, load := make([][]Piece, shards), make([]int, shards)
	for i, t := range tensors {
		s := 0
		for j := range load {
			if load[j] < load[s] {
				s = j
			}
		}
		out[s] = append(out[s], Piece{i, 0, t.Len})
		load[s] += t.Len
	}
	return out
}

// Balanced cuts tensors so that all shards hold the same number of elements, give
// or take one, or where cuts fall on rows, half a row at either end. A shard whose
// share lies within one row holds nothing.
//
// Rule: shard j has the elements from ⌊j·n/S⌋ to ⌊(j+1)·n/S⌋, cut between rows
// where a codec uses them.
//
// Paper: none.
//
// Tuning: none.
//
// Cost: a tensor may be in several pieces, each a block of its own to the codec.
type Balanced struct{}

var _ = Placements.Add("balanced", "tensors cut so that all shards are equal", Balanced{})

// Place implements Placement.
func (Balanced) Place(tensors []Tensor, shards int) [][]Piece {
	total := 0
	for _, t := range tensors {
		total += t.Len
	}
	out := make([][]Piece, shards)
	s, end := 0, share(total, shards, 0) // of shard s, in all elements
	begin := 0                           // of the tensor
	for i, t := range tensors {
		_, row := t.rows()
		for off := 0; off < t.Len; {
			upTo := t.Len
			if s < shards-1 {
				upTo = min(upTo, (max(0, end-begin)+row/2)/row*row)
			}
			if upTo > off {
				out[s] = append(out[s], Piece{i, off, upTo - off})
				off = upTo
			}
			if off < t.Len {
				s++
				end += share(total, shards, s)
			}
		}
		begin += t.Len
	}
	return out
}

func share(total, parts, i int) int {
	n := total / parts
	if i < total%parts {
		n++
	}
	return n
}

// CheckPlacement proves that a placement covers every element exactly once and
// cuts no row.
func CheckPlacement(p Placement, tensors []Tensor, shards int) error {
	seen := make([][]bool, len(tensors))
	for i, t := range tensors {
		seen[i] = make([]bool, t.Len)
	}
	placed := p.Place(tensors, shards)
	if len(placed) != shards {
		return fmt.Errorf("ps: %d shards planned, want %d", len(placed), shards)
	}
	for s, pieces := range placed {
		for _, pc := range pieces {
			if pc.Tensor < 0 || pc.Tensor >= len(tensors) || pc.Off < 0 || pc.Off+pc.Len > tensors[pc.Tensor].Len {
				return fmt.Errorf("ps: shard %d has piece %+v outside tensors %v", s, pc, tensors)
			}
			if row := max(1, tensors[pc.Tensor].Row); pc.Off%row != 0 || pc.Len%row != 0 {
				return fmt.Errorf("ps: shard %d has piece %+v, which cuts a row of %d", s, pc, row)
			}
			for k := pc.Off; k < pc.Off+pc.Len; k++ {
				if seen[pc.Tensor][k] {
					return fmt.Errorf("ps: element %d of tensor %d is placed twice", k, pc.Tensor)
				}
				seen[pc.Tensor][k] = true
			}
		}
	}
	for i := range seen {
		for k, ok := range seen[i] {
			if !ok {
				return fmt.Errorf("ps: element %d of tensor %d is placed nowhere", k, i)
			}
		}
	}
	return nil
}
