package collective

import (
	"context"

	"github.com/gradlab/gradlab/comm"
)

// MPI leaves the all-reduce to the MPI library where there is one (net=mpi, by
// MPI_Iallreduce): of float32, and of whole numbers in one byte or two. On other nets,
// of halves, which MPI has no type for, and among fewer ranks than the job has, it is
// the topology inside.
//
// Sums of whole numbers and maxima are those of every other topology, to the bit. Sums
// of float32 are rounded in the order that the library adds in, which it chooses by
// the number of ranks and the length of the vector: their last bits differ from ours,
// and may from one library to another.
//
// Rule: the library's.
//
// Paper: none; MPI: A Message-Passing Interface Standard, section 5.12.
//
// Tuning: by the library's own settings, as coll_libnbc_iallreduce_algorithm of Open
// MPI. The topology inside is what predictions are made with.
//
// Cost: the library does not say what it sends. Counted is what each rank must send at
// least, 2(p−1)/p·n elements. Predicted is the cost of the topology inside.
type MPI struct {
	Else Topology `doc:"topology where MPI does not sum"`
}

var _ = Topologies.Add("mpi", "the MPI library's own all-reduce, on net=mpi", MPI{Else: defaults})

// Plan implements Topology.
func (t MPI) Plan(at At) Plan { return t.Else.Plan(at) }

// Folded is a Format whose Add a net may know.
type Folded interface {
	Format
	Fold() comm.Fold
}

// native lets the net sum x if the topology asks for that and the net can. All ranks
// find the same.
func native(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, x []float32, f Format) (flags comm.Flags, done bool, err error) {
	if _, asked := t.(MPI); !asked {
		return hd.Flags, false, nil
	}
	format, known := f.(Folded)
	net := comm.Folding(h)
	if !known || net == nil || !net.Folds(g.Ranks) {
		return hd.Flags, false, nil
	}
	if f, ok := f.(InPlace); ok {
		if b, ok := f.Bytes(x); ok {
			flags, err = net.FoldAll(ctx, g.Ranks, hd, b, format.Fold())
			return flags, true, err
		}
	}
	b := make([]byte, len(x)*f.Width()) // the net may write to it after an error
	f.Put(b, x)
	flags, err = net.FoldAll(ctx, g.Ranks, hd, b, format.Fold())
	if err == nil {
		f.Set(x, b)
	}
	return flags, true, err
}

// nativeAll is native of each of xs.
func nativeAll(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, xs [][]float32, f Format) (flags comm.Flags, done bool, err error) {
	for _, x := range xs {
		if hd.Flags, done, err = native(ctx, h, g, t, hd, x, f); !done || err != nil {
			break // where the first is not done, none is
		}
	}
	return hd.Flags, done, err
}
