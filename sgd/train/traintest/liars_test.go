package traintest

import (
	"errors"
	"maps"
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
	_ "github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/mean"
	_ "github.com/gradlab/gradlab/sgd/train/replicas"
	_ "github.com/gradlab/gradlab/sgd/train/sandblaster"
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
	for _, c := range claims {
		checks[c.name] = c.fails
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
		"outlives":  {{"reduce", func(t *traits) { t.Outlives = true }}, {"server", func(t *traits) { t.Outlives = !t.Outlives }}, {"choco", func(t *traits) { t.Outlives = true }}},
		"elastic":   {{"server", func(t *traits) { t.Elastic = false }}, {"server(barrier=true)", func(t *traits) { t.Elastic = true }}, {"easgd", func(t *traits) { t.Elastic = true }}, {"rudra", func(t *traits) { t.Elastic = true }}, {"reduce", func(t *traits) { t.Elastic = false }}, {"dpsgd", func(t *traits) { t.Elastic = false }}, {"adpsgd", func(t *traits) { t.Elastic = true }}},
		"admits":    {{"server", func(t *traits) { t.Admits = !t.Admits }}, {"downpour", func(t *traits) { t.Admits = !t.Admits }}, {"easgd", func(t *traits) { t.Admits = !t.Admits }}, {"rudra", func(t *traits) { t.Admits = !t.Admits }}, {"rudra(tree=2)", func(t *traits) { t.Admits = !t.Admits }}, {"sandblaster(portions=3)", func(t *traits) { t.Admits = !t.Admits }}, {"dpsgd", func(t *traits) { t.Admits = true }}, {"adpsgd", func(t *traits) { t.Admits = false }}, {"agp", func(t *traits) { t.Admits = false }}, {"hogwild", func(t *traits) { t.Admits = true }}},
		"weightless": {
			{"sandblaster(portions=3)", func(t *traits) { t.Weightless = true }}, {"hogwild", func(t *traits) { t.Weightless = true }},
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
	if showsWeightless(dreamer{mean.Reduce{}}) == nil {
		t.Error("a mode that takes longer without weights is believed")
	}
	if showsRefusals(grumbler{train.Server{}}) == nil {
		t.Error("a mode that refuses what it does not say it refuses is believed")
	}
}
