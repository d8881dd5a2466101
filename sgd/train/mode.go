package train

import (
	"errors"
	"fmt"
	"maps"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Mode is a way to spread the work: which ranks there are and what each does.
type Mode interface {
	// Traits is what the mode claims of itself for a job. Parts of the job may be
	// missing: it looks at numbers, policy and corrector. It is asked often and
	// allocates nothing.
	Traits(j *Job) Traits
	// Check refuses a job this mode cannot run for a reason that Traits cannot say.
	Check(j *Job) error
	// Part makes what a rank does: workers first, then the ranks of Servers.
	Part(r *Rank) (Part, error)
}

// Modes holds every mode by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Modes = registry.New[Mode]("mode")

// Traits is what a mode claims of itself for a job. What is not said is the value
// that promises least; tests show each claim for every mode that is enrolled.
type Traits struct {
	// Servers is the number of ranks behind the workers, 0 if there are none. With
	// Coordinator the last of them holds no shard of the parameters.
	Servers     int
	Coordinator bool

	// PerUpdate is the number of gradients in one update, at least 1.
	PerUpdate int
	// PerPush is the number of gradients behind one push of a worker that steps on
	// parameters of its own between pushes; 0: workers compute on what servers sent.
	PerPush int
	// Acked: a push is answered without parameters, which workers ask for.
	Acked bool
	// Tree is how many ranks at most push to one, where workers relay the sums of
	// others; 0: all push to the servers. Beside: they push and pull beside computing.
	Tree   int
	Beside bool

	// Sums: the gradients of every step are exchanged among the workers, who all make
	// the same update. With Gathers everybody gets everybody's payload, whatever sums
	// its codec has a road for.
	Sums, Gathers bool

	// Conduct says what workers hear from the observer, and Models how many of them,
	// from rank 0 on, show it parameters; it evaluates their mean.
	Conduct Conduct
	Models  int
	// SharedMemory: workers share memory, which only net=local gives them.
	SharedMemory bool
	// UnderWay: frames may be under way from step to step.
	UnderWay bool

	// Timeless: bits and sizes are the same whatever anything takes, on every net and
	// every device. Such a run is trained once and priced elsewhere; see Job.Sizes.
	Timeless bool
	// Outlives: the run goes on without a worker that died.
	Outlives bool
	// Elastic: the run can go on without a worker that left it, to the bits of one that
	// it left at the same update by plan. Its parts call Rank.Boundary before every step,
	// and name by checkpoint.Keeper.Alike what a worker that joins needs of a peer.
	Elastic bool
	// Admits: workers of an elastic run come and go by themselves, at once, and nobody waits
	// for them; what dies may be replaced.
	Admits bool
	// Weightless: runs without weights have the times and bytes of those with them.
	Weightless bool
	// Steady: updates take alike, so that the first say how long all take.
	Steady bool

	// Codec and Down say which codecs it takes, for gradients and for parameters.
	Codec, Down Takes
	// Heeds lists which of Choices make a difference to it. A key that is not in it
	// leaves bits, bytes and virtual times as they are.
	Heeds []string
	// Refuses gives the reason for each key of Refusals of which the mode takes the
	// default only, and for "codec" and "down_codec" the reason for what they take.
	Refuses map[string]string
	// Try is what must be set beside the defaults for the mode to be tried, as keys and
	// values: "policy=asp". Help shows it.
	Try string
}

// Conduct is how the observer conducts workers where there is no server to end the
// run; see pace.
type Conduct uint8

const (
	// NotConducted: servers or the workers themselves end the run.
	NotConducted Conduct = iota
	// InStep: every worker makes as many steps as there are updates.
	InStep
	// Free: nobody waits for anybody. An update of the run is a step of any worker,
	// and the observer counts them.
	Free
)

// Takes is a kind of codecs. Each takes those before it, too.
type Takes uint8

const (
	// TakesPlain: raw alone, as nothing is encoded.
	TakesPlain Takes = iota
	// TakesCasts: those that send every value as it is, in some format.
	TakesCasts
	// TakesForgetful: those that keep nothing of what they leave out for a later step,
	// at neither end.
	TakesForgetful
	// TakesAll codecs.
	TakesAll
)

// String words which codecs are taken.
func (k Takes) String() string {
	return [...]string{"raw alone", "raw, fp16, bf16 or another cast", "codecs without memory", "every codec"}[k]
}

// allows says whether a codec is of the kind; none is raw.
func (k Takes) allows(f compress.Family) bool {
	if f == nil {
		return true
	}
	switch k {
	case TakesPlain:
		return compress.Plain(f)
	case TakesCasts:
		return wire.IsCast(f)
	case TakesForgetful:
		return !wire.FeedsBack(f) && !compress.KeepsReceiver(f)
	}
	return true
}

// with is a copy of reasons with one more.
func with(reasons map[string]string, key, why string) map[string]string {
	out := maps.Clone(reasons)
	out[key] = why
	return out
}

// Traits is what the job's mode claims.
func (j *Job) Traits() Traits {
	t := j.Mode.Traits(j)
	if j.Elastic { // when workers leave depends on the clock
		t.Timeless = false
	}
	return t
}

// Timeless says whether the parameters, the evaluations and the sizes of all
// payloads of this job's run depend on nothing that time decides. Such a run needs
// to be trained only once, and its times on other networks and devices come from a
// weightless one with its Sizes. A test runs every mode with every policy on two
// clusters and compares.
func (j *Job) Timeless() bool { return j.Traits().Timeless }

// ErrNotShared ends a run whose workers share memory, where they have none to share.
var ErrNotShared = errors.New("workers write to memory that they share, and only net=local gives them some; use mode adpsgd or agp between processes and on the virtual cluster")

// served is the number of servers asked for, at least 1.
func (j *Job) served() int { return max(1, j.Servers) }

// Served says whether the job's mode has servers.
func (j *Job) Served() bool { return j.Traits().Servers > 0 }

// PerUpdate is the number of gradients in one update.
func (j *Job) PerUpdate() int { return j.Traits().PerUpdate }

// refusal is a key, or a word of key observe, that modes may refuse: what it is set to, if
// not to its default, and what to set it to; empty: a word of observe.
type refusal struct {
	key string
	set func(*Job) bool
	to  string
}

var refusals = []refusal{
	{"optimizer", func(j *Job) bool { return j.Optimizer != nil && !sgd.IsBare(j.Optimizer) }, "sgd"},
	{"policy", func(j *Job) bool { return j.Policy != nil && !j.synchronous() }, "bsp"},
	{"corrector", func(j *Job) bool { return !j.corrector().None }, "none"},
	{"overlap", func(j *Job) bool { return j.Plan().Beside }, "none"},
	{"gap", func(j *Job) bool { return j.Gap }, ""},
	{"order_log", func(j *Job) bool { return j.LogOrder || j.Replay != nil }, ""},
	{"checkpoint_every", func(j *Job) bool { return j.CheckpointEvery > 0 }, "0"},
}

// Refusals lists the keys of which modes may take the default only, and the words of key
// observe that modes may refuse; see Traits.Refuses.
func Refusals() (keys []string) {
	for _, r := range refusals {
		keys = append(keys, r.key)
	}
	return keys
}

// checkTraits refuses what the mode does not take, with its reason.
func (j *Job) checkTraits() error {
	t, mode := j.Traits(), Modes.Spec(j.Mode)
	switch {
	case t.Servers > 0 && j.Servers < 1:
		return fmt.Errorf("servers is %d, want at least 1 in mode %s", j.Servers, mode)
	case t.SharedMemory && j.Here > 0 && j.Here < j.Workers:
		return fmt.Errorf("mode %s: %w", mode, ErrNotShared)
	}
	for _, r := range refusals {
		why, refused := t.Refuses[r.key]
		switch {
		case !refused || !r.set(j):
		case r.to == "":
			return fmt.Errorf("mode %s cannot observe %s: %s; take %s out of observe", mode, r.key, why, r.key)
		default:
			return fmt.Errorf("mode %s takes no other %s than %s: %s; set %s=%s", mode, r.key, r.to, why, r.key, r.to)
		}
	}
	if !t.Codec.allows(j.Codec) {
		return fmt.Errorf("codec %s: mode %s takes %v: %s", compress.Spec(j.Codec), mode, t.Codec, t.Refuses["codec"])
	}
	if !t.Down.allows(j.DownCodec) {
		return fmt.Errorf("down_codec %s: mode %s takes %v: %s", compress.Spec(j.DownCodec), mode, t.Down, t.Refuses["down_codec"])
	}
	return nil
}
