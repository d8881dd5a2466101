package traintest

import (
	"errors"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// Modes are what they claim with other options, too.
func TestVariants(t *testing.T) {
	for _, spec := range patience.Few(4, []string{"server(barrier=true)", "rudra(tree=2,threads=true)", "sgp(late=2)", "dpsgd(adapt=true)", "downpour(n_fetch=2,n_push=2)", "localsgd(h=3)", "downpour(warm_start=40)", "sandblaster(portions=3)"}) {
		m := train.Modes.MustParse(spec)
		for _, c := range claims {
			if strings.HasPrefix(spec, "downpour(warm") && c.name != "steady" {
				continue // for as many updates as the other checks take, one worker trains alone
			}
			t.Run(spec+"/"+c.name, func(t *testing.T) {
				if err := safely(func() error { return c.fails(m) }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// renamedMode is a mode of another type.
type renamedMode struct{ train.Mode }

// What a mode is follows from its claims, whatever its type: one of another type ends
// with the same bits, at the same instant, and takes the same jobs.
func TestModesOfAnotherType(t *testing.T) {
	for _, spec := range append(train.Modes.Names(), "server(barrier=true)", "rudra(tree=2,threads=true)", "sgp(late=2)") {
		m := train.Modes.MustParse(spec)
		for name, way := range map[string]option{
			"plain": func(*train.Job) {}, "overlap": func(j *train.Job) { j.Overlap, j.Servers = train.Buckets{Bytes: 500}, 2 },
			"priority": func(j *train.Job) { j.Overlap = train.Priority{Bytes: 500} }, "marks": func(j *train.Job) { j.CheckpointEvery = 6 }, "gap": func(j *train.Job) { j.Gap = true },
			"weightless": func(j *train.Job) { j.Weightless, j.EvalEvery = true, 0 }, "outer": func(j *train.Job) { j.Outer = sgd.Momentum{Beta: 0.5} }, "ef21": with("ef21(topk(keep=0.3))"),
		} {
			a, errA := fit(m, rounds(12), way)
			b, errB := fit(renamedMode{m}, rounds(12), way)
			if (errA == nil) != (errB == nil) {
				t.Errorf("%s, %s: %v, of another type %v", spec, name, errA, errB)
			}
			if errA != nil || errB != nil || m.Traits(a).SharedMemory {
				continue
			}
			was, errA := try(a, nil, nil)
			is, errB := try(b, nil, nil)
			if err := errors.Join(errA, errB); err != nil {
				t.Errorf("%s, %s: %v", spec, name, err)
				continue
			}
			if was.obs.SHA256 != is.obs.SHA256 || was.obs.Final.Seconds != is.obs.Final.Seconds {
				t.Errorf("%s, %s: of another type it ends at %v s with %.8s, want %v s and %.8s", spec, name, is.obs.Final.Seconds, is.obs.SHA256, was.obs.Final.Seconds, was.obs.SHA256)
			}
		}
	}
}
