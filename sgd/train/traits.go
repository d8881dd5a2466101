package train

import (
	"github.com/gradlab/gradlab/staleness"
	"github.com/gradlab/gradlab/staleness/staletest"
)

// PolicyTraits is what the job's policy claims; without one every gradient is an update.
func (j *Job) PolicyTraits() staleness.PolicyTraits { return j.policy() }

func (j *Job) policy() staleness.PolicyTraits {
	if j.Policy == nil {
		return staleness.PolicyTraits{PerUpdate: 1}
	}
	return j.Policy.Traits(j.Workers)
}

// corrector is what the job's corrector claims.
func (j *Job) corrector() staleness.CorrectorTraits {
	if j.Corrector == nil {
		return staleness.CorrectorTraits{None: true}
	}
	return j.Corrector.Traits()
}

// probe refuses parts that do not do what they claim, where that would let the run
// hang or diverge: parts from elsewhere may never have met their suite.
func (j *Job) probe() error {
	if j.Policy != nil && j.Heeds("policy") {
		if err := staletest.Probe(j.Policy, j.Workers); err != nil {
			return err
		}
	}
	if j.Corrector != nil && j.Heeds("corrector") {
		return staletest.ProbeCorrector(j.Corrector)
	}
	return nil
}
