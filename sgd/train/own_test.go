package train_test

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// renamed is a policy from elsewhere: one of ours, of another type, with claims of its
// own where it lies.
type renamed struct {
	of  staleness.Spec
	lie func(*staleness.PolicyTraits)
}

func (r renamed) New(workers int) (staleness.Policy, error) { return r.of.New(workers) }

func (r renamed) Traits(workers int) staleness.PolicyTraits {
	t := r.of.Traits(workers)
	if r.lie != nil {
		r.lie(&t)
	}
	return t
}

// own is a policy by spec text, of another type.
func own(text string, lie func(*staleness.PolicyTraits)) option {
	return func(j *train.Job) { j.Policy = renamed{staleness.Policies.MustParse(text), lie} }
}

// What a mode makes of a policy follows from its claims, whatever it is called.
func TestOwnPolicies(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, m := range []string{"server", "server(barrier=true)", "rudra", "rudra(threads=true)", "downpour", "easgd", "sandblaster(portions=2)", "reduce", "localsgd", "dpsgd", "hogwild"} {
		for _, name := range staleness.Policies.Names() {
			opts := []option{mode(m), policy(name)}
			ours := unchecked(opts...).Check()
			theirs := unchecked(append(opts, own(name, nil))...).Check()
			if (ours == nil) != (theirs == nil) {
				t.Errorf("mode %s, policy %s: ours %v, of another type %v", m, name, ours, theirs)
			}
		}
	}
	for name, same := range map[string]option{"softsync(n=2)": mode("rudra"), "bsp": mode("easgd(tau=2)"), "asp": mode("easgd(tau=2)")} {
		a, _ := runOn(t, simulated(0), job(t, policy(name), same), nil)
		b, _ := runOn(t, simulated(0), job(t, own(name, nil), same), nil)
		if a.SHA256 != b.SHA256 {
			t.Errorf("policy %s of another type: parameters %s, want %s", name, b.SHA256, a.SHA256)
		}
	}
}

// What would hang a run, or lead it astray, is refused before it.
func TestLyingPoliciesAreRefused(t *testing.T) {
	t.Parallel()
	type traits = staleness.PolicyTraits
	for name, c := range map[string]struct {
		opts []option
		want string
	}{
		"waits, in downpour":        {[]option{mode("downpour"), own("kasync", func(t *traits) { t.Waits = false })}, "claim Waits"},
		"drops, in rudra":           {[]option{mode("rudra"), own("bounded(max=0)", func(t *traits) { t.Drops = false })}, "claim Drops"},
		"cancels, with overlap":     {[]option{mode("server"), own("ksync", func(t *traits) { t.Voids = false }), func(j *train.Job) { j.Overlap = train.Buckets{} }}, "claim Voids"},
		"no barrier, claims to be":  {[]option{mode("server"), own("ssp", func(t *traits) { t.Synchronous = true })}, "claims Synchronous"},
		"takes two, claims to take": {[]option{mode("server"), own("softsync(n=2)", func(t *traits) { t.PerUpdate = 1 })}, "PerUpdate says 1"},
		"never answers":             {[]option{mode("server"), func(j *train.Job) { j.Policy = silent{} }}, "deadlock"},
	} {
		if err := unchecked(c.opts...).Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", name, err, c.want)
		}
	}
}

// silent holds workers for good.
type silent struct{ staleness.ASP }

func (silent) New(int) (staleness.Policy, error) { return silence{}, nil }

func (silent) Traits(int) staleness.PolicyTraits {
	return staleness.PolicyTraits{PerUpdate: 1, Waits: true}
}

type silence struct{}

func (silence) Admit(staleness.View, int) staleness.Verdict { return staleness.Apply }
func (silence) Flush(staleness.View) bool                   { return false }
func (silence) Release(staleness.View, int) bool            { return false }
func (silence) Cancel(staleness.View) []int                 { return nil }

// velocity is a corrector from elsewhere: a momentum at the server that it may keep
// quiet about.
type velocity struct{ claims staleness.CorrectorTraits }

func (velocity) Scale(staleness.Past) float64        { return 1 }
func (v velocity) Traits() staleness.CorrectorTraits { return v.claims }
func (velocity) Amender(n, _ int) staleness.Amender  { return &rolling{make([]float32, n)} }

type rolling struct{ v []float32 }

func (r *rolling) Amend(g, _, _ []float32, _ staleness.Past) {
	for i := range g {
		r.v[i] = 0.9*r.v[i] + g[i]
		g[i] = r.v[i]
	}
}

func (r *rolling) State() map[string][]float32 { return map[string][]float32{"v": r.v} }

// nothing is a corrector from elsewhere that leaves gradients as they are.
type nothing struct{}

func (nothing) Scale(staleness.Past) float64      { return 1 }
func (nothing) Traits() staleness.CorrectorTraits { return staleness.CorrectorTraits{None: true} }

// What a mode makes of a corrector follows from its claims; a momentum that one keeps
// quiet about is found before it meets the optimizer's.
func TestOwnCorrectors(t *testing.T) {
	t.Parallel()
	type traits = staleness.CorrectorTraits
	with := func(c staleness.Corrector) option { return func(j *train.Job) { j.Corrector = c } }
	for name, c := range map[string]struct {
		opts []option
		want string // "": taken
	}{
		"behind sgd":               {[]option{policy("asp"), optimizer("sgd"), with(velocity{traits{Amends: true, Momentum: true}})}, ""},
		"behind momentum":          {[]option{policy("asp"), optimizer("momentum"), with(velocity{traits{Amends: true, Momentum: true}})}, "brings its own momentum"},
		"behind momentum, quietly": {[]option{policy("asp"), optimizer("momentum"), with(velocity{traits{Amends: true}})}, "claim Momentum"},
		"amends, quietly":          {[]option{policy("asp"), optimizer("sgd"), with(velocity{traits{None: true}})}, "claim Momentum"},
		"in rudra":                 {[]option{mode("rudra"), policy("asp"), with(velocity{traits{Amends: true, Momentum: true}})}, "use one that scales"},
		"in easgd":                 {[]option{mode("easgd"), with(velocity{traits{Amends: true, Momentum: true}})}, "set corrector=none"},
		"in reduce":                {[]option{mode("reduce"), with(velocity{traits{Amends: true, Momentum: true}})}, "has no servers"},
		"nothing in easgd":         {[]option{mode("easgd"), with(nothing{})}, ""},
		"nothing in reduce":        {[]option{mode("reduce"), with(nothing{})}, ""},
		"nothing in sandblaster":   {[]option{mode("sandblaster(portions=2)"), optimizer("sgd"), with(nothing{})}, ""},
	} {
		err := unchecked(c.opts...).Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want …%s…", name, err, c.want)
		}
	}
}
