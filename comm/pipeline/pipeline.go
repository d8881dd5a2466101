// Package pipeline plans the work of devices that hold a model in stages. A schedule is
// data: for each device the forward and backward passes of micro-batches, in order. One
// function proves a plan, one prices it, one draws it, one writes it for PyTorch; none of
// them knows a schedule.
//
// A batch is cut into micro-batches. Stage s takes micro-batch i forward once stage s−1
// has, and backward once stage s+1 has. The backward pass makes two gradients, that of a
// stage's inputs, which the stage before waits for, and that of its weights, for which
// nothing waits; a schedule may part them (Qi et al. 2023, arXiv 2401.10241).
package pipeline

import (
	"fmt"

	"github.com/gradlab/gradlab/registry"
)

// Kind is what a device does with a micro-batch, in the letters of
// torch.distributed.pipelining.
type Kind byte

const (
	Forward  Kind = 'F'
	Backward Kind = 'B' // both gradients at once
	Inputs   Kind = 'I' // the gradient of the inputs alone
	Weights  Kind = 'W' // the gradient of the weights, after Inputs
)

// Action is a pass of one micro-batch through one stage.
type Action struct {
	Stage int
	Kind  Kind
	Micro int
}

// MarshalText writes an action as String does.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String writes an action as PyTorch does: stage, letter, micro-batch.
func (a Action) String() string { return fmt.Sprintf("%d%c%d", a.Stage, a.Kind, a.Micro) }

// Cell is what a device does at once: one action, or a forward and a backward pass of two
// micro-batches that overlap.
type Cell []Action

// Plan is what every device does, in order.
type Plan struct {
	Micros  int      `json:"micros"`
	Stages  []int    `json:"stages"`  // the device of each stage
	Devices [][]Cell `json:"devices"` // in the order of work
}

// Schedule plans a batch of micros micro-batches, at least 1, on as many devices, at least
// 1. The error says which numbers it can plan for.
type Schedule interface {
	Plan(devices, micros int) (*Plan, error)
}

// Schedules holds every schedule by name.
var Schedules = registry.New[Schedule]("pipeline schedule")

// looped lays chunks stages on each device: stage s is on device s mod devices.
func looped(devices, chunks int) []int {
	on := make([]int, devices*chunks)
	for s := range on {
		on[s] = s % devices
	}
	return on
}

// folded lays two stages on each device in the form of a V: device d has stages d and
// 2·devices−1−d, so the last device hands to itself.
func folded(devices int) []int {
	on := make([]int, 2*devices)
	for d := range devices {
		on[d], on[2*devices-1-d] = d, d
	}
	return on
}

// line gathers the cells of one device.
type line []Cell

func (l *line) add(stage int, kind Kind, micro int) { *l = append(*l, Cell{{stage, kind, micro}}) }

// check refuses numbers of devices and micro-batches that no schedule has.
func check(devices, micros int) error {
	if devices < 1 || micros < 1 {
		return fmt.Errorf("pipeline: %d devices and %d micro-batches: want at least 1 of each", devices, micros)
	}
	return nil
}

// plan asks each device for its cells, unless the numbers are wrong.
func plan(devices, micros int, on []int, cells func(device int) line) (*Plan, error) {
	if err := check(devices, micros); err != nil {
		return nil, err
	}
	p := &Plan{Micros: micros, Stages: on}
	for d := range devices {
		p.Devices = append(p.Devices, cells(d))
	}
	return p, nil
}
