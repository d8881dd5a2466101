package traintest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/record"
	_ "github.com/gradlab/gradlab/sgd/train/replicas"
	_ "github.com/gradlab/gradlab/sgd/train/sandblaster" // its mode is tried
	"github.com/gradlab/gradlab/sgd/train/traintest"
)

func TestModes(t *testing.T) { traintest.Modes(t) }

// liar is D-PSGD but for one thing.
type liar struct {
	gossip.DPSGD
	claims func(train.Traits) train.Traits
	part   func(train.Part) train.Part
}

func (l liar) Traits(j *train.Job) train.Traits {
	t := l.DPSGD.Traits(j)
	if l.claims != nil {
		t = l.claims(t)
	}
	return t
}

func (l liar) Part(r *train.Rank) (train.Part, error) {
	p, err := l.DPSGD.Part(r)
	if err == nil && l.part != nil {
		p = l.part(p)
	}
	return p, err
}

type forgets struct{ train.Part }

func (p forgets) Keep(k *checkpoint.Keeper) {
	if !k.Loads() {
		p.Part.Keep(k)
	}
}

type counts struct{ train.Part }

func (p counts) Final(r *record.RankReport) {
	p.Part.Final(r)
	r.Sent *= 2
}

type gives struct{ train.Part }

func (gives) Run(context.Context) error { return nil }

// Modes that keep to nothing, one thing at a time, are found by the check for it, and
// one that keeps to all by none.
func TestLiars(t *testing.T) {
	for name, c := range map[string]struct {
		liar
		check, says string
	}{
		"state that is not taken up again": {liar{part: func(p train.Part) train.Part { return forgets{p} }}, "resume", "resumed at update"},
		"a push counted twice":             {liar{part: func(p train.Part) train.Part { return counts{p} }}, "ledger", "are sent"},
		"it outlives nobody":               {liar{claims: func(t train.Traits) train.Traits { t.Outlives = true; return t }}, "death", "Outlives is claimed"},
		"it does nothing":                  {liar{part: func(p train.Part) train.Part { return gives{p} }}, "bits", "ended at update"},
		"nothing wrong":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			got := traintest.Failures(c.liar)
			if err := got[c.check]; c.check != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("check %s says %v; all: %v", c.check, err, got)
			}
			if c.check == "" && len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}
