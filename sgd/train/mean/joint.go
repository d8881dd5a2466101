package mean

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// norms makes the sums that batch norms of a group of successive workers share. Sums of float64
// are gathered and added up in the order of ranks: the bits are the same on all.
type norms struct {
	rank  *train.Rank
	group collective.Group
}

// newNorms is nil where every worker has statistics of its own.
func newNorms(r *train.Rank) *norms {
	n := r.Job().NormWorkers()
	if n == 1 {
		return nil
	}
	j := &norms{rank: r}
	first := r.ID() / n * n
	j.group.Me = r.ID() - first
	for i := range n {
		j.group.Ranks = append(j.group.Ranks, first+i)
	}
	return j
}

// sum makes of a meeting's sums those of the group's; see Pass.Meet.
func (j *norms) sum(ctx context.Context, at int, m sgd.Meeting) error {
	v := m.Sums
	own := comm.NewBuffer(8 * len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint64(own.B[8*i:], math.Float64bits(x))
	}
	r := j.rank
	parts, _, release, err := collective.AllGather(ctx, r.Host(), j.group, onNorm.Header(r.Job(), message.Count{N: r.Step()}, 0), own)
	defer release()
	if err != nil {
		return fmt.Errorf("statistics of a batch norm: %w", err)
	}
	clear(v)
	for rank, b := range parts {
		if len(b) != 8*len(v) {
			return fmt.Errorf("statistics of a batch norm: sum %d of rank %d has %d bytes, want %d", at, j.group.Ranks[rank], len(b), 8*len(v))
		}
		for i := range v {
			v[i] += math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return nil
}
