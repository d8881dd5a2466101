package data_test

import (
	"os"
	"testing"

	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/data/datatest"
)

// What is enrolled and what this machine has.
func TestSets(t *testing.T) {
	t.Parallel()
	datatest.Sets(t, data.Options{Dir: os.Getenv("GRADLAB_DATA_DIR")})
}

// A set of every format, made for this test.
func TestMadeSets(t *testing.T) {
	t.Parallel()
	dir, specs := data.Made(t)
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			set, err := data.Sets.Parse(spec)
			if err != nil {
				t.Fatal(err)
			}
			datatest.Set(t, set, data.Options{Dir: dir})
		})
	}
}
