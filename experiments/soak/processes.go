package soak

import (
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// Leg is a run of real processes under kills, from which they come back.
type Leg struct {
	Mode    string
	Codec   string // the first of a few that the mode takes
	Workers int
	Servers int
	Steps   int
	Seed    uint64
	Faults  nemesis.Schedule
}

// NewLeg is a leg of so many processes in a mode. Two of them are servers, if the mode has
// some.
func NewLeg(seed uint64, mode string, processes, steps int) (Leg, error) {
	m, err := train.Modes.Parse(mode)
	if err != nil {
		return Leg{}, err
	}
	l := Leg{Mode: mode, Workers: processes, Steps: steps, Seed: seed}
	policy, err := staleness.Policies.Parse("bsp")
	if err != nil {
		return l, err
	}
	traits := m.Traits(&train.Job{Mode: m, Policy: policy, Servers: 2, Workers: processes})
	switch traits.Codec {
	case train.TakesAll:
		l.Codec = "feedback(topk(keep=0.1))"
	case train.TakesForgetful:
		l.Codec = "qsgd"
	default:
		l.Codec = "raw"
	}
	if !traits.Elastic {
		return l, fmt.Errorf("mode %s does not go on without a worker that is in step with the others", mode)
	}
	if traits.Servers > 0 {
		l.Servers, l.Workers = 2, processes-2
	}
	if l.Workers < 2 {
		return l, fmt.Errorf("%d processes are too few for mode %s", processes, mode)
	}
	return l, nil
}

// Kill draws deaths between two instants, a mean time apart, after each of which the process
// comes back. One in four takes two workers at once. One worker is spared: a run without
// any is over, and nobody knows how soon the others are back.
func (l *Leg) Kill(from, until, every time.Duration) {
	l.Faults = nil
	key := rng.New(l.Seed, "processes")
	spared := rng.New(l.Seed, "spared").IntN(0, l.Workers)
	var mortal []int
	for w := range l.Workers {
		if w != spared {
			mortal = append(mortal, w)
		}
	}
	at := from
	for n := uint64(0); ; n++ {
		k := key.With(n)
		if at += time.Duration(k.Exp(0) * float64(every)); at > until {
			return
		}
		first, n := k.IntN(1, len(mortal)), len(mortal)
		victims := mortal[first : first+1 : first+1]
		if n > 1 && k.IntN(2, 4) == 0 {
			victims = append(victims, mortal[(first+1+k.IntN(3, n-1))%n])
		}
		for i, v := range victims {
			name := fmt.Sprint("w", v)
			back := at + time.Duration((0.1+k.Float64(uint64(4+i)))*float64(every)/4)
			l.Faults = append(l.Faults, nemesis.Kill{Rank: name, At: at.Round(time.Millisecond)}, nemesis.Rejoin{Rank: name, At: back.Round(time.Millisecond)})
		}
	}
}

// Args is the leg as what follows gradlab run: on processes, or as the virtual cluster makes
// it by the plan that the processes came to.
func (l *Leg) Args(plan []train.Membership) []string {
	args := []string{
		"quickstart", "data=digits", "model=logistic", "codec=" + l.Codec, "optimizer=adam", "epochs=0", "eval_every=0", "batch=4",
		"schedule=constant(lr=0.001)", "elastic=on", "mode=" + l.Mode, fmt.Sprint("workers=", l.Workers), fmt.Sprint("steps=", l.Steps), fmt.Sprint("seed=", l.Seed%8+1),
	}
	if l.Servers > 0 {
		args = append(args, fmt.Sprint("servers=", l.Servers), "policy=bsp")
	}
	if plan == nil {
		args = append(args, "net=grpc", "links=grpc")
		if len(l.Faults) > 0 {
			args = append(args, "faults="+l.Faults.String())
		}
		return args
	}
	left, joined := train.PlanOf(l.Workers, l.Steps, plan)
	return append(args, "net=sim", "device.codec=free", "faults="+config.Planned(left, joined).String())
}

// Judge says what a leg broke: all its steps are made, and what servers were sent counts.
func (l *Leg) Judge(r *experiments.Result) (wrong []string) {
	if r.Steps != l.Steps {
		wrong = append(wrong, fmt.Sprintf("of %d steps %d are made", l.Steps, r.Steps))
	}
	if s := r.Ledger; r.Servers && (s.Sent != s.Applied || s.Lost > 0) {
		wrong = append(wrong, fmt.Sprintf("the ledger does not balance: %d sent, %d applied, %d rejected, %d lost", s.Sent, s.Applied, s.Rejected, s.Lost))
	}
	return wrong
}

// Moves counts the deaths of workers in a run and how often one has come back.
func Moves(members []train.Membership) (deaths, back int) {
	for _, m := range members[min(1, len(members)):] {
		deaths, back = deaths+len(m.Left), back+len(m.Joined)
	}
	return deaths, back
}

// Memory is what processes held, at marks: bytes by process, of which Observer is the one
// that started the others.
type Memory []map[int]uint64

// Observer is the rank of the process that starts the others.
const Observer = -1

// mostGrowth is how much more processes may hold in the last third of a leg than in the
// first, in which they begin.
const mostGrowth = 1.2

// Thirds is the mean of what the processes that count held together in the first third of
// the marks, and in the last.
func (m Memory) Thirds(counts func(rank int) bool) (first, last float64) {
	mean := func(some Memory) (sum float64) {
		for _, at := range some {
			for rank, bytes := range at {
				if counts(rank) {
					sum += float64(bytes)
				}
			}
		}
		return sum / float64(max(1, len(some)))
	}
	n := len(m) / 3
	return mean(m[:n]), mean(m[len(m)-n:])
}

// Grows says which processes hold more and more: all together, or the one that lives as long
// as the run; "": none.
func (m Memory) Grows() string {
	for _, c := range []struct {
		who    string
		counts func(int) bool
	}{
		{"all processes", func(int) bool { return true }},
		{"the observer's process", func(rank int) bool { return rank == Observer }},
	} {
		if first, last := m.Thirds(c.counts); first > 0 && last > mostGrowth*first {
			return fmt.Sprintf("%s held %.1f MB in the first third of the time and %.1f MB in the last", c.who, first/1e6, last/1e6)
		}
	}
	return ""
}
