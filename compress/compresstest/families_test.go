package compresstest_test

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/internal/patience"
)

// Every enrolled family, in its defaults and in combinations, of those a part without the
// tag long.
func TestFamilies(t *testing.T) {
	specs, families := compresstest.Specs(), len(compress.Families.Names())
	for _, spec := range slices.Concat(specs[:families], patience.Few(30, specs[families:])) {
		compresstest.OfSeveral(t, spec, func(t *testing.T) compress.Family {
			f, err := compress.Parse(spec)
			if err != nil {
				t.Fatal(err)
			}
			return f
		})
	}
}
