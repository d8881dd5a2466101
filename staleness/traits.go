package staleness

// PolicyTraits is what a policy claims of itself, of runs in which no worker leaves.
// The suite, staletest, shows each claim true, and each that is not made false: a
// policy that claims Drops drops somewhere, one that does not never drops. All fields
// but PerUpdate are the same for any number of workers: what a policy does for some
// numbers only, it claims.
type PolicyTraits struct {
	// Synchronous: every update is the mean of one gradient from each worker, all
	// made on the same version. Results then do not depend on the order of arrival.
	Synchronous bool
	// PerUpdate is the number of gradients in an update, at least 1; with ByLoss, in
	// updates before a loss is known.
	PerUpdate int
	// Waits: a worker that has pushed may have to wait for others.
	Waits bool
	// Drops: a push may be dropped.
	Drops bool
	// Voids: gradients that are being computed may be cancelled. What is late is then
	// never applied.
	Voids bool
	// Paced: a worker is never more than Lead clocks ahead of the slowest one while it
	// computes, and has then read all gradients of earlier clocks.
	Paced bool
	Lead  int
	// ByLoss: decisions depend on the training loss that workers report.
	ByLoss bool
}

// CorrectorTraits is what a corrector claims of itself. The suite, staletest, shows
// each claim true, and each that is not made false; of AtWorker only the first, as
// it says where a corrector works and not what it does.
type CorrectorTraits struct {
	// None: every gradient stays as it is. Scale is always 1, and nothing is amended.
	None bool
	// Amends: it implements Amending. The other traits are of its Amender.
	Amends bool
	// Compares: Amend reads the parameters that a gradient was computed on. The server
	// then keeps a copy of what each worker was sent.
	Compares bool
	// AtWorker: the Amender works at the worker, one for each, on the gradient before
	// it is encoded. Update is then the worker's step, sent and now are the same, and
	// the rest of Past is 0 but for Worker.
	AtWorker bool
	// Momentum: part of a gradient comes out with later ones. The optimizer behind it
	// must then have no momentum.
	Momentum bool
	// Ahead: workers are sent something ahead of the parameters. The Amender
	// implements Ahead.
	Ahead bool
}
