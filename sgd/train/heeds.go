package train

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/staleness"
)

// Heeding is implemented by modes that claim which of a job's choices make a
// difference to them, of those that mean something in some modes only. Names are
// those of the configuration's keys; see Choices. A key that a mode claims not to
// heed leaves its bits, bytes and virtual times as they are. Modes that claim
// nothing are taken to heed all.
type Heeding interface {
	Mode
	Heeds() []string
}

// Choices lists the keys that mean something in some modes only.
func Choices() []string { return slices.Clone(choices) }

var choices = []string{
	"servers", "placement", "policy", "corrector", "down_codec",
	"topology", "graph", "outer", "n_fetch", "n_push", "warm_start",
	"overlap", "bucket", "cycle", "priority", "partition",
}

// Heeds tells whether a choice makes a difference to the job, as far as its mode
// claims. Where nothing overlaps, neither bucket nor what else is said of the
// overlap does.
func (j *Job) Heeds(choice string) bool {
	switch choice {
	case "bucket", "cycle", "priority", "partition":
		if !j.Overlap {
			return false
		}
	}
	m, ok := j.Mode.(Heeding)
	return !ok || !slices.Contains(choices, choice) || slices.Contains(m.Heeds(), choice)
}

// Heeds implements Heeding.
func (Server) Heeds() []string {
	return []string{"servers", "placement", "policy", "corrector", "down_codec", "overlap", "bucket"}
}

// Heeds implements Heeding.
func (Rudra) Heeds() []string {
	return []string{"servers", "placement", "policy", "corrector", "down_codec"}
}

// Heeds implements Heeding.
func (Downpour) Heeds() []string {
	return []string{"servers", "placement", "policy", "corrector", "down_codec", "n_fetch", "n_push", "warm_start", "overlap"}
}

// Heeds implements Heeding.
func (Sandblaster) Heeds() []string { return []string{"servers", "placement", "down_codec"} }

// Heeds implements Heeding.
func (EASGD) Heeds() []string { return []string{"servers", "placement", "policy", "down_codec"} }

// Heeds implements Heeding.
func (Reduce) Heeds() []string {
	return []string{"topology", "overlap", "bucket", "cycle", "priority", "partition"}
}

// Heeds implements Heeding.
func (Gather) Heeds() []string {
	return []string{"overlap", "bucket", "cycle", "priority", "partition"}
}

// Heeds implements Heeding.
func (LocalSGD) Heeds() []string { return []string{"topology", "outer"} }

// Heeds implements Heeding.
func (DPSGD) Heeds() []string { return []string{"graph"} }

// Heeds implements Heeding.
func (SGP) Heeds() []string { return []string{"graph"} }

// Heeds implements Heeding.
func (Choco) Heeds() []string { return []string{"graph"} }

// Heeds implements Heeding.
func (ADPSGD) Heeds() []string { return []string{"graph"} }

// Heeds implements Heeding.
func (AGP) Heeds() []string { return []string{"graph"} }

// Heeds implements Heeding.
func (Hogwild) Heeds() []string { return nil }

// checkGroup refuses a policy that counts on more workers than there are. What it
// counts on is what it says of two worlds too large to bound it: always k
// gradients in an update, or all but b.
func (j *Job) checkGroup() error {
	if j.Policy == nil || j.Mode.Servers(max(1, j.Servers)) == 0 {
		return nil
	}
	const large = 1 << 20
	one, two := j.Policy.Traits(large).PerUpdate, j.Policy.Traits(2*large).PerUpdate
	b := large - one
	switch {
	case one == two && one > j.Workers:
		return fmt.Errorf("policy %s puts %d gradients into an update, and there are %d workers, one gradient of each at most: ask for %d or fewer, or for more workers", staleness.Policies.Spec(j.Policy), one, j.Workers, j.Workers)
	case b > 0 && two == 2*large-b && b >= j.Workers:
		return fmt.Errorf("policy %s leaves %d workers out of each update, and there are %d: leave out fewer than that, or ask for more workers", staleness.Policies.Spec(j.Policy), b, j.Workers)
	}
	return nil
}
