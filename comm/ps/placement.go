package ps

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/registry"
)

// Piece is a range of one tensor that lives in a shard.
type Piece struct {
	Tensor   int // index into the sizes given to Place
	Off, Len int // elements
}

// Placement spreads tensors over shards. Every element of every tensor lies in
// exactly one piece; pieces of a shard are in tensor order.
type Placement interface {
	Place(sizes []int, shards int) [][]Piece
}

// Placements holds every placement by name.
var Placements = registry.New[Placement]("placement")

// RoundRobin places whole tensors in turn, as TensorFlow's
// replica_device_setter does by default: simple, and badly balanced as soon as
// one tensor dominates.
type RoundRobin struct{}

var _ = Placements.Add("round_robin", "whole tensors in turn (TensorFlow's default)", RoundRobin{})

// Place implements Placement.
func (RoundRobin) Place(sizes []int, shards int) [][]Piece {
	out := make([][]Piece, shards)
	for i, n := range sizes {
		out[i%shards] = append(out[i%shards], Piece{i, 0, n})
	}
	return out
}

// Greedy places each whole tensor on the shard that holds the fewest elements
// so far (TensorFlow's GreedyLoadBalancingStrategy with byte_size_load_fn).
type Greedy struct{}

var _ = Placements.Add("greedy", "whole tensors, each to the least loaded shard (TensorFlow's load balancing)", Greedy{})

// Place implements Placement.
func (Greedy) Place(sizes []int, shards int) [][]Piece {
	out, load := make([][]Piece, shards), make([]int, shards)
	for i, n := range sizes {
		s := 0
		for j := range load {
			if load[j] < load[s] {
				s = j
			}
		}
		out[s] = append(out[s], Piece{i, 0, n})
		load[s] += n
	}
	return out
}

// Balanced cuts tensors so that all shards hold the same number of elements,
// give or take one.
type Balanced struct{}

var _ = Placements.Add("balanced", "tensors cut so that all shards are equal", Balanced{})

// Place implements Placement.
func (Balanced) Place(sizes []int, shards int) [][]Piece {
	total := 0
	for _, n := range sizes {
		total += n
	}
	out := make([][]Piece, shards)
	s, room := 0, share(total, shards, 0)
	for i, n := range sizes {
		for off := 0; off < n; {
			for room == 0 && s < shards-1 {
				s++
				room = share(total, shards, s)
			}
			l := min(n-off, room)
			out[s] = append(out[s], Piece{i, off, l})
			off += l
			room -= l
		}
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

// CheckPlacement proves that a placement covers every element exactly once.
func CheckPlacement(p Placement, sizes []int, shards int) error {
	seen := make([][]bool, len(sizes))
	for i, n := range sizes {
		seen[i] = make([]bool, n)
	}
	placed := p.Place(sizes, shards)
	if len(placed) != shards {
		return fmt.Errorf("ps: %d shards planned, want %d", len(placed), shards)
	}
	for s, pieces := range placed {
		for _, pc := range pieces {
			if pc.Tensor < 0 || pc.Tensor >= len(sizes) || pc.Off < 0 || pc.Off+pc.Len > sizes[pc.Tensor] {
				return fmt.Errorf("ps: shard %d has piece %+v outside tensors %v", s, pc, sizes)
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
