package compresstest_test

import (
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
)

// Every enrolled family, in its defaults and in combinations.
func TestFamilies(t *testing.T) {
	for _, spec := range compresstest.Specs() {
		compresstest.OfSeveral(t, spec, func(t *testing.T) compress.Family {
			f, err := compress.Parse(spec)
			if err != nil {
				t.Fatal(err)
			}
			return f
		})
	}
}
