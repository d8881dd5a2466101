// Package gossip holds the modes whose workers have parameters of their own and tell
// each other: averaging with neighbours in a graph, push-sum, differences through any
// codec, and one vector that all write to. They stand on the exported part of package
// train, as a mode from elsewhere does; importing the package enrols them.
package gossip

import (
	"fmt"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd/train"
)

// Names in checkpoints, with the worker's number behind them. Old checkpoints are
// read by these names.
const (
	keyWeight = "weight" // of push-sum
	keyLate   = "late"   // to, from, step: a message that is taken in later; its weight
	keyAt     = "/at"    // behind that: when it came
	keyKnown  = "known"  // choco: what others know of it
	keyHeard  = "heard"  // choco: what it knows of others
)

// What modes that gossip claim alike.
var (
	gossipHeeds   = []string{"graph"}
	gossipRefuses = map[string]string{
		"overlap": "it exchanges whole parameters, and overlap is for gradients that leave as they are made",
		"codec":   "it averages parameters, which other codecs do not keep; use mode choco for differences through any codec",
	}
)

// symmetric refuses directed graphs.
func symmetric(j *train.Job, mode string) error {
	if j.Graph != nil && j.Graph.Symmetric() {
		return nil
	}
	return fmt.Errorf("mode %s wants a graph in which neighbours hear from each other, such as ring, pairs or complete; %s is directed, and for mode sgp", mode, collective.Graphs.Spec(j.Graph))
}
