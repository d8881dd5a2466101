//go:build long

package patience

// Long says whether tests are to prove all that they can, however long it takes: with the
// build tag long. Without it they draw from a space by seed, or leave out what starts many
// processes or waits for leases.
const Long = true
