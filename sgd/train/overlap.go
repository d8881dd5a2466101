package train

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/registry"
)

// Overlap says how gradients travel while the backward pass makes them, and, from servers,
// parameters while the forward pass reads them.
type Overlap interface {
	// Plan is what modes go by.
	Plan() Plan
}

// Overlaps holds every Overlap by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Overlaps = registry.New[Overlap]("overlap")

// Plan is what an Overlap comes to. The zero Plan is of gradients that travel behind the pass.
type Plan struct {
	Beside    bool          // gradients leave during the pass
	Bytes     int           // of gradient that travel together, about
	Cycle     time.Duration // how often tensors that are ready are fused, up to Bytes; 0: buckets are fixed
	First     bool          // buckets of early layers first, and the next forward pass begins meanwhile
	Partition int           // bytes above which a tensor is cut into pieces that travel by themselves; 0: none is
}

// Behind sends gradients when the backward pass is over.
type Behind struct{}

// Buckets sends gradients during the backward pass, in the order in which it makes them:
// buckets of modes without servers, parts of a push to servers. Parameters from servers come
// in the same parts, and the forward pass reads them as they come.
//
// Paper: Zhang et al. 2017 (Poseidon), wait-free backpropagation; in buckets, Li et al. 2020.
//
// Tuning: bytes of some MB: every bucket pays the latency of a collective, and what the last
// one takes is hidden by nothing.
//
// Cost: one exchange a bucket in place of one a step; the bytes are the same.
type Buckets struct {
	Bytes     int `doc:"of gradient that travel together, about; 0: 1 MiB"`
	Partition int `doc:"bytes above which a tensor is cut, in modes without servers, into pieces that travel by themselves; 0: none is"`
}

// Fusion sends, every so often in the backward pass, the tensors that all workers have ready,
// in modes without servers. Sums are those of every tensor alone, whatever travels together.
//
// Paper: Sergeev and Del Balso 2018 (Horovod).
//
// Tuning: a short cycle sends soon, a long one in few frames.
//
// Cost: buckets', and a word between all workers a cycle.
type Fusion struct {
	Cycle     time.Duration `doc:"how often, at least 1µs"`
	Bytes     int           `doc:"of gradient at most at once, but for a larger tensor; 0: 64 MiB"`
	Partition int           `doc:"as of buckets"`
}

// Priority sends, of the buckets that all workers have made, that of the earliest layers
// first, and begins the next forward pass as soon as these are there, in modes without
// servers. Optimizers must be [sgd.Local]. The bits are those of Buckets.
//
// Paper: Jayarajan et al. 2019 (P3), Peng et al. 2019 (ByteScheduler).
//
// Tuning: as buckets; partition where one tensor is much of the model.
//
// Cost: buckets', and a word between all workers before an exchange until all are made.
type Priority struct {
	Bytes     int `doc:"of gradient that travel together, about; 0: 1 MiB"`
	Partition int `doc:"as of buckets"`
}

var (
	_ = Overlaps.Add("none", "gradients travel behind the backward pass", Behind{})
	_ = Overlaps.Add("buckets", "gradients leave in buckets during the backward pass", Buckets{Bytes: bucketBytes})
	_ = Overlaps.Add("fusion", "tensors that are ready are fused every so often: Horovod", Fusion{Cycle: 5 * time.Millisecond, Bytes: fusedBytes})
	_ = Overlaps.Add("priority", "buckets of the first layers first: P3, ByteScheduler", Priority{Bytes: bucketBytes})
)

const (
	bucketBytes = 1 << 20
	fusedBytes  = 64 << 20 // Horovod's

	// mostPieces is how many pieces a model may be cut in: each is a collective, or a
	// part of one, with a codec of its own.
	mostPieces = 1 << 16
)

// Plan implements Overlap.
func (Behind) Plan() Plan { return Plan{} }

// Plan implements Overlap. 0 bytes are 1 MiB.
func (o Buckets) Plan() Plan {
	return Plan{Beside: true, Bytes: cmp.Or(o.Bytes, bucketBytes), Partition: o.Partition}
}

// Plan implements Overlap. 0 bytes are 64 MiB.
func (o Fusion) Plan() Plan {
	return Plan{Beside: true, Bytes: cmp.Or(o.Bytes, fusedBytes), Cycle: o.Cycle, Partition: o.Partition}
}

// Plan implements Overlap. 0 bytes are 1 MiB.
func (o Priority) Plan() Plan {
	return Plan{Beside: true, Bytes: cmp.Or(o.Bytes, bucketBytes), First: true, Partition: o.Partition}
}

// Validate checks the options.
func (o Buckets) Validate() error { return validOverlap(o) }

// Validate checks the options.
func (o Fusion) Validate() error {
	if o.Cycle < time.Microsecond {
		return fmt.Errorf(`option "cycle": want at least 1µs, not %v`, o.Cycle)
	}
	return validOverlap(o)
}

// Validate checks the options.
func (o Priority) Validate() error { return validOverlap(o) }

func validOverlap(o Overlap) error {
	switch p := o.Plan(); {
	case p.Bytes < 1:
		return fmt.Errorf(`option "bytes": want at least 1, not %d`, p.Bytes)
	case p.Partition != 0 && p.Partition < 4:
		return fmt.Errorf(`option "partition": a value has 4 bytes; set 0, which cuts no tensor, or more, not %d`, p.Partition)
	}
	return nil
}

// Tensor partitioning in the manner of P3 (Jayarajan et al. 2019) and
// ByteScheduler (Peng et al. 2019): ranks without servers cut large tensors, so
// that a bucket holds part of one, and one with priority waits for no more than
// the piece that is under way. A codec takes each piece for a block of its own, as it
// does where servers share a tensor: rows of a matrix for a codec that uses its
// shape, else a vector.
//
// A small piece waits little and pays the latencies of its collective all the
// same: the cost model of gradlab topology says from what size on bandwidth rules.

// partitioned is a Placement for one shard that cuts tensors into equal pieces of
// at most so many values, or of one row.
type partitioned int

// Place implements ps.Placement.
func (limit partitioned) Place(tensors []ps.Tensor, _ int) [][]ps.Piece {
	var out []ps.Piece
	for i, t := range tensors {
		out = append(out, t.Even(i, int(limit))...)
	}
	return [][]ps.Piece{out}
}
