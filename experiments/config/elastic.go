package config

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/train"
)

// Elasticities holds the values of key elastic, by name: whether, and how, a run goes on
// when workers leave it or join it.
var Elasticities = registry.New[any]("elasticity")

// Rigid runs have the same workers from their first step to their last.
//
// Rule: the death of a worker ends a run whose steps wait for all. Where nobody waits for it
// the others go on, and none takes its place.
//
// Paper: none.
//
// Tuning: runs that take minutes, and runs whose bits must not depend on who died.
//
// Cost: none.
type Rigid struct{}

var _ = Elasticities.Add("none", "workers neither leave nor join", Rigid{})

// Elastic runs go on without workers that die or leave by plan, and with workers that join.
//
// Rule: the step in flight is void, and those who are there make it again by themselves; in
// asynchronous runs workers join at once, where the mode can (gradlab help elastic).
//
// Paper: elastic training as TorchElastic has it (PyTorch 1.9); scale_lr is the linear
// scaling rule (Goyal et al. 2017).
//
// Tuning: max_restarts=3 for runs of hours on machines that fail; min_workers where fewer
// workers would take too long.
//
// Cost: in runs in step a copy of parameters, optimizer and codecs in every process and step.
type Elastic struct {
	MinWorkers  int    `doc:"the run ends when fewer workers are left"`
	MaxRestarts int    `doc:"on net=grpc: how many times in all a worker or server that was killed, or lost its links, is started again by the process that started it"`
	OnResize    string `doc:"keep_global: those who are there share the samples of an update; scale_lr: each keeps its batch, and the learning rate is scaled by the number of workers"`
}

var _ = Elasticities.Add("on", "the run goes on without workers that die or leave, and with workers that join", Elastic{MinWorkers: 1, OnResize: train.KeepGlobal.String()})

// Validate checks the options.
func (e Elastic) Validate() error {
	var errs []error
	if e.MinWorkers < 1 {
		errs = append(errs, fmt.Errorf(`option "min_workers": want at least 1, not %d`, e.MinWorkers))
	}
	if e.MaxRestarts < 0 {
		errs = append(errs, fmt.Errorf(`option "max_restarts": want 0 or more, not %d`, e.MaxRestarts))
	}
	if _, err := train.ParseOnResize(e.OnResize); err != nil {
		errs = append(errs, fmt.Errorf(`option "on_resize": %w`, err))
	}
	return errors.Join(errs...)
}

// Planned returns the schedule by which workers leave and join as a plan says: the value of
// key faults that repeats a run of which train.PlanOf made the plan.
func Planned(leaves []train.Departure, joins []train.Joining) (s nemesis.Schedule) {
	name := func(worker int) string { return nemesis.World{Workers: worker + 1}.Name(worker) }
	for _, d := range leaves {
		s = append(s, nemesis.Leave{Plan: nemesis.Plan{Rank: name(d.Worker), Before: d.Step, Turn: d.Turn}})
	}
	for _, d := range joins {
		s = append(s, nemesis.Join{Plan: nemesis.Plan{Rank: name(d.Worker), Before: d.Step, Turn: d.Turn}})
	}
	return s
}
