package train

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

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

// Cuts are the pieces of tensors that the job's codecs are given, by server; in
// modes without, one list.
func (j *Job) Cuts() [][]wire.Cut {
	l := j.Model.Layout()
	switch n := j.numShards(); {
	case n > 0:
		return wire.Cuts(l, j.Placement, n, j.Codec, j.DownCodec)
	case j.Partition > 0:
		return wire.Cuts(l, partitioned(j.Partition/4), 1, j.Codec)
	}
	return wire.Cuts(l, ps.RoundRobin{}, 1)
}

// mostPieces is how many pieces a model may be cut in: each is a collective, or a
// part of one, with a codec of its own.
const mostPieces = 1 << 16

// checkPartition refuses what makes no sense.
func (j *Job) checkPartition() error {
	size := j.Model.Layout().Size()
	switch {
	case j.Partition == 0:
		return nil
	case j.Partition < 4:
		return errors.New("partition: a value has 4 bytes; set 0, which cuts no tensor, or more")
	case size/(j.Partition/4) > mostPieces:
		return fmt.Errorf("partition: %d bytes would cut %d values in more than %d pieces; want at least %d", j.Partition, size, mostPieces, 4*(size/mostPieces+1))
	case !j.Overlap:
		return errors.New("partition: pieces of a tensor travel by themselves only with overlap=true")
	}
	if j.Heeds("partition") {
		return nil
	}
	return errors.New("partition: in modes reduce and gather only; placement=balanced cuts tensors over servers")
}
