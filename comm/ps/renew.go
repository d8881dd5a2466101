package ps

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Renew puts a new core where another one was when state was taken of it, for other
// workers: worker i was number from[i] then, or is new where that is negative. It is for
// policies whose updates take a gradient of every worker: no push may be held. Sequence
// numbers start over, and Taken is what it would be if these workers had made all
// updates. Renew returns how many pushes of each worker of before had reached the shard.
func (c *Core) Renew(state []byte, from []int) (received []uint64, err error) {
	var was stateOf
	if err := json.Unmarshal(state, &was); err != nil {
		return nil, fmt.Errorf("ps: state: %w", err)
	}
	n := len(was.Seq)
	if len(was.Held) > 0 {
		return nil, fmt.Errorf("ps: %d pushes are held, and other workers cannot go on from there", len(was.Held))
	}
	if bad := slices.IndexFunc(from, func(w int) bool { return w >= n }); bad >= 0 || len(from) != len(c.seq) {
		return nil, fmt.Errorf("ps: %d workers come from %v of %d, want %d", len(from), from, n, len(c.seq))
	}
	is := was
	is.Taken = was.Version * len(from)
	is.Live, is.Pushed = make([]bool, len(from)), make([]int, len(from))
	is.Inc, is.Seq = slices.Clone(c.inc), make([]uint64, len(from))
	for i := range from {
		is.Live[i], is.Pushed[i] = true, was.Version
	}
	return was.Seq, c.restore(is)
}
