package train

import (
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
)

// Rule is by what servers make an update of the gradients that the policy lets through.
// What is nil is the job's. The mean gradient is the optimizer's; its sgd.Step says how
// many updates were made since it was begun, at most, as Delay.
type Rule struct {
	Optimizer sgd.Optimizer
	Schedule  lrschedule.Spec
}

// of is the job as servers see it.
func (r Rule) of(j *Job) *Job {
	c := *j
	if r.Optimizer != nil {
		c.Optimizer = r.Optimizer
	}
	if r.Schedule != nil {
		c.Schedule = r.Schedule
	}
	return &c
}

// Serve is the part of a server that goes by the job's policy: it takes what Links push,
// lets the policy decide, makes updates by a rule, and answers. The ledger, order log,
// progress, evaluations, marks, deaths and the end of the run are its business, so a
// mode adds nothing to it. How it answers follows from the mode's Traits, Acked and
// PerPush.
func Serve(r *Rank, rule Rule) (Part, error) {
	r.job = rule.of(r.job)
	return newServer(r, r.job.shards())
}
