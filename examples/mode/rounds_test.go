package mode

import (
	"testing"

	"github.com/gradlab/gradlab/sgd/train/traintest"
)

// The suite finds what is enrolled.
func TestModes(t *testing.T) { traintest.Modes(t) }

func TestFragmentsAreSeveral(t *testing.T) {
	if _, err := traintest.World(Fragments{N: 1}); err == nil {
		t.Error("a model in one fragment is taken")
	}
	traintest.Mode(t, Fragments{N: 100}) // a tensor each
}
