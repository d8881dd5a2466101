package staleness

// Amending is implemented by correctors that change the gradient itself. Scale
// is asked beside it and multiplies what comes out.
type Amending interface {
	Corrector
	// Compares says whether the parameters a gradient was computed on are
	// needed: the server then keeps a copy of what each worker was sent.
	Compares() bool
	// Amender makes the state for n parameters and that many workers.
	Amender(n, workers int) Amender
}

// Amender changes gradients one by one, in the order in which they are applied.
// It belongs to one shard and is not safe for concurrent use.
type Amender interface {
	// Amend changes g in place. now are the parameters as they are, sent those
	// g was computed on (the same as now unless the corrector Compares); all
	// have the same length.
	Amend(g, now, sent []float32, p Past)
	// State names the vectors that must survive a restart.
	State() map[string][]float32
}

// Ahead is implemented by Amenders that send workers something other than the
// parameters.
type Ahead interface {
	// Ahead writes what workers are to compute on to dst; rate is that of the
	// next update.
	Ahead(dst, now []float32, rate float64)
}

// Momentous is implemented by Amending correctors that bring a momentum of their
// own, behind which the optimizer must have none.
type Momentous interface{ Momentous() bool }

// AtWorker is implemented by Amending correctors whose Amender works at the
// worker, one for each, on the gradient before it is encoded. Update is then
// the worker's step, and sent and now are the same.
type AtWorker interface{ AtWorker() bool }
