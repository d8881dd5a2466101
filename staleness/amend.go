package staleness

// Amending is implemented by correctors that change the gradient itself. Scale
// is asked beside it and multiplies what comes out.
type Amending interface {
	Corrector
	// Amender makes the state for n parameters and that many workers.
	Amender(n, workers int) Amender
}

// Amender changes gradients one by one, in the order in which they are applied.
// It belongs to one shard and is not safe for concurrent use.
type Amender interface {
	// Amend changes g in place. now are the parameters as they are, sent those
	// g was computed on (the same as now unless the corrector claims Compares); all
	// have the same length.
	Amend(g, now, sent []float32, p Past)
	// State names the vectors that must survive a restart.
	State() map[string][]float32
}

// Ahead is implemented by Amenders that send workers something other than the
// parameters; their correctors claim it.
type Ahead interface {
	// Ahead writes what workers are to compute on to dst; rate is that of the
	// next update.
	Ahead(dst, now []float32, rate float64)
}
