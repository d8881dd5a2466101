package mode

import (
	"testing"

	"github.com/gradlab/gradlab/sgd/train/traintest"
)

// The suite finds what is enrolled.
func TestModes(t *testing.T) { traintest.Modes(t) }
