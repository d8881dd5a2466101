package train_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
)

// pretender is a mode that claims something else than it is.
type pretender struct {
	train.Mode
	lie func(*train.Traits)
}

func (p pretender) Traits(j *train.Job) train.Traits {
	t := p.Mode.Traits(j)
	p.lie(&t)
	return t
}

// dreamer is a mode that claims to run without weights, and is slower then.
type dreamer struct{ train.Mode }

func (d dreamer) Check(j *train.Job) error {
	if j.Weightless {
		j.Timing.FLOPS /= 2
	}
	return d.Mode.Check(j)
}

// grumbler is a mode that refuses what it claims to take.
type grumbler struct{ train.Mode }

func (grumbler) Check(j *train.Job) error {
	if j.Gap {
		return errors.New("not today")
	}
	return nil
}

// Each trait of a mode is proved: a claim without cause, and one that is missing, are
// found, by the check of that name. Some claims the engine makes true, as it does what
// they say: a server that claims Acked is one.
func TestLyingModes(t *testing.T) {
	type traits = train.Traits
	checks := map[string]func(train.Mode) error{}
	for _, c := range modeTraits {
		checks[c.name] = c.check
	}
	lies := map[string][]struct {
		mode string
		lie  func(*traits)
	}{
		"ranks": {
			{"reduce", func(t *traits) { t.Servers = 1 }}, {"server", func(t *traits) { t.Servers = 0 }}, {"server", func(t *traits) { t.Coordinator = true }},
			{"sandblaster(portions=3)", func(t *traits) { t.Coordinator = false }}, {"dpsgd", func(t *traits) { t.Models-- }}, {"adpsgd", func(t *traits) { t.Models-- }},
			{"sgp", func(t *traits) { t.Models++ }}, {"choco", func(t *traits) { t.Conduct, t.Models = train.NotConducted, 0 }},
		},
		"counts": {
			{"server", func(t *traits) { t.PerUpdate++ }}, {"reduce", func(t *traits) { t.PerUpdate-- }}, {"easgd", func(t *traits) { t.PerUpdate /= 2 }},
			{"downpour", func(t *traits) { t.PerUpdate *= 2 }}, {"adpsgd", func(t *traits) { t.PerUpdate = 3 }}, {"sandblaster(portions=3)", func(t *traits) { t.PerUpdate = 50 }},
		},
		"pushes": {
			{"downpour(n_fetch=2,n_push=2)", func(t *traits) { t.PerPush = 1 }}, {"easgd", func(t *traits) { t.PerPush-- }}, {"server", func(t *traits) { t.PerPush = 3 }},
			{"reduce", func(t *traits) { t.PerPush = 1 }}, {"easgd", func(t *traits) { t.Acked = false }}, {"dpsgd", func(t *traits) { t.Acked = true }},
		},
		"points":    {{"downpour(n_fetch=2,n_push=2)", func(t *traits) { t.PerPush = 0 }}, {"easgd", func(t *traits) { t.PerPush = 0 }}, {"server", func(t *traits) { t.PerPush = 2 }}},
		"tree":      {{"server", func(t *traits) { t.Tree = 3 }}, {"rudra", func(t *traits) { t.Tree = 0 }}},
		"beside":    {{"server", func(t *traits) { t.Beside = true }}, {"easgd", func(t *traits) { t.Beside = true }}},
		"sums":      {{"localsgd", func(t *traits) { t.Sums = true }}, {"reduce", func(t *traits) { t.Sums = false }}, {"gather", func(t *traits) { t.Gathers = false }}, {"reduce", func(t *traits) { t.Gathers = true }}, {"dpsgd", func(t *traits) { t.Sums = true }}},
		"conduct":   {{"adpsgd", func(t *traits) { t.Conduct = train.InStep }}, {"dpsgd", func(t *traits) { t.Conduct = train.Free }}, {"reduce", func(t *traits) { t.Conduct = train.InStep }}, {"hogwild", func(t *traits) { t.SharedMemory = false }}, {"agp", func(t *traits) { t.SharedMemory = true }}},
		"under way": {{"sgp(late=2)", func(t *traits) { t.UnderWay = false }}, {"rudra", func(t *traits) { t.UnderWay = false }}, {"reduce", func(t *traits) { t.UnderWay = true }}},
		"timeless":  {{"server", func(t *traits) { t.Timeless = true }}, {"adpsgd", func(t *traits) { t.Timeless = true }}, {"downpour", func(t *traits) { t.Timeless = true }}},
		"outlives":  {{"reduce", func(t *traits) { t.Outlives = true }}, {"server", func(t *traits) { t.Outlives = !t.Outlives }}, {"agp", func(t *traits) { t.Outlives = true }}},
		"weightless": {
			{"localsgd", func(t *traits) { t.Weightless = true }}, {"hogwild", func(t *traits) { t.Weightless = true }},
		},
		"steady": {{"localsgd", func(t *traits) { t.Steady = true }}, {"sandblaster(portions=3)", func(t *traits) { t.Steady = true }}, {"downpour(warm_start=40)", func(t *traits) { t.Steady = true }}, {"reduce", func(t *traits) { t.Steady = false }}},
		"codecs": {
			{"dpsgd", func(t *traits) { t.Codec = train.TakesForgetful }}, {"sgp", func(t *traits) { t.Codec = train.TakesAll }}, {"reduce", func(t *traits) { t.Codec = train.TakesCasts }},
			{"rudra", func(t *traits) { t.Down = train.TakesAll }}, {"server", func(t *traits) { t.Down = train.TakesAll }},
		},
		"refusals": {
			{"server", func(t *traits) { t.Refuses = map[string]string{"overlap": "no"} }}, {"reduce", func(t *traits) { t.Heeds = t.Heeds[:1] }},
			{"rudra", func(t *traits) { t.Refuses = map[string]string{"overlap": ""} }}, {"server", func(t *traits) { t.Refuses = map[string]string{"colour": "no"} }},
			{"easgd", func(t *traits) { t.Refuses = maps.Clone(t.Refuses); delete(t.Refuses, "overlap") }}, {"dpsgd", func(t *traits) { t.Heeds = []string{"colour"} }},
		},
		"quiet": {{"server", func(t *traits) { t.Heeds = append([]string(nil), t.Heeds...) }}},
	}
	for name, check := range checks {
		if len(lies[name]) == 0 {
			t.Errorf("nobody lies to check %q", name)
		}
		for i, c := range lies[name] {
			if err := check(pretender{train.Modes.MustParse(c.mode), c.lie}); err == nil {
				t.Errorf("%s: lie %d of mode %s is believed", name, i, c.mode)
			} else if testing.Verbose() {
				t.Logf("%s, %s: %v", name, c.mode, err)
			}
		}
	}
	if showsWeightless(dreamer{train.Reduce{}}) == nil {
		t.Error("a mode that takes longer without weights is believed")
	}
	if showsRefusals(grumbler{train.Server{}}) == nil {
		t.Error("a mode that refuses what it does not say it refuses is believed")
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
			"plain": func(*train.Job) {}, "overlap": func(j *train.Job) { j.Overlap, j.Bucket, j.Servers = true, 500, 2 },
			"priority": prior(500), "marks": func(j *train.Job) { j.CheckpointEvery = 6 }, "gap": func(j *train.Job) { j.Gap = true },
			"weightless": func(j *train.Job) { j.Weightless, j.EvalEvery = true, 0 }, "outer": outer("momentum(beta=0.5)"), "ef21": with("ef21(topk(keep=0.3))"),
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
