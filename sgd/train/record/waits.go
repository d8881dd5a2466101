package record

// Waits is who waited for whom at a shard: from a push until the push, or the
// leaving, of another worker let it go on.
type Waits struct {
	Waited []float64 `json:"waited"` // seconds each worker waited
	For    []float64 `json:"for"`    // seconds the others waited for each worker
	// Pairs[w][u] are the seconds that w waited for u; nil with more than
	// MaxWaitPairs workers.
	Pairs [][]float64 `json:"pairs,omitempty"`
}

// MaxWaitPairs is up to how many workers waits are told pair by pair.
const MaxWaitPairs = 64
