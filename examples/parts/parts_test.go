package parts

import (
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/data/datatest"
	"github.com/gradlab/gradlab/sgd/sgdtest"
	"github.com/gradlab/gradlab/sgd/train/timing/timingtest"
	"github.com/gradlab/gradlab/staleness/staletest"
)

// The suites find what is enrolled.
func TestFamilies(t *testing.T) { compresstest.Families(t) }

func TestOptimizers(t *testing.T) { sgdtest.Optimizers(t) }

func TestPolicies(t *testing.T) { staletest.Policies(t) }

func TestCorrectors(t *testing.T) { staletest.Correctors(t) }

func TestSets(t *testing.T) { datatest.Sets(t, data.Options{}) }

func TestLaws(t *testing.T) { timingtest.Laws(t) }

// Options and wrappers that the defaults leave out.
func TestCombinations(t *testing.T) {
	for _, spec := range []string{"leftover(n=1)", "shuffle(leftover)", "shuffle(dgc(keep=0.05))", "shuffle(raw)", "shuffle(powersgd(rank=2))", "shuffle(qsgd)", "accumulate(leftover,every=2)", "entropy(leftover)", "scatter(leftover)", "feedback(shuffle(topk(keep=0.1)))"} {
		t.Run(spec, func(t *testing.T) { compresstest.Family(t, compress.Families.MustParse(spec)) })
	}
}
