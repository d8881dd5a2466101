package train

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/staleness"
)

// Choices lists the keys that mean something in some modes only; see Traits.Heeds.
func Choices() []string { return slices.Clone(choices) }

var choices = []string{
	"servers", "placement", "policy", "corrector", "down_codec",
	"topology", "graph", "outer",
	"overlap",
}

// Heeds tells whether a choice makes a difference to the job, as far as its mode
// claims.
func (j *Job) Heeds(choice string) bool {
	return !slices.Contains(choices, choice) || slices.Contains(j.Traits().Heeds, choice)
}

// checkGroup refuses a policy that counts on more workers than there are. What it
// counts on is what it says of two worlds too large to bound it: always k
// gradients in an update, or all but b.
func (j *Job) checkGroup() error {
	if j.Policy == nil || !j.Served() {
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
