package soak

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

// upTo says yes so many times.
func upTo(n int) func() bool {
	left := n
	return func() bool { left--; return left >= 0 }
}

// Two hundred seeds over all modes: whatever befalls a run, what was promised holds.
func TestSeeds(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	var s Soak
	seen, done, ended, lived := map[string]bool{}, 0, 0, 0
	s.Many(t.Context(), 0, 2, upTo(200), func(_ uint64, tr, least *Trial, err error) {
		switch {
		case err != nil:
			t.Error(err)
			return
		case least != nil:
			t.Errorf("seed %d: %q\n%s", tr.Seed, least.Wrong, least.Recipe())
			return
		case tr.Ended != nil:
			ended++
		default:
			done++
			if tr.Deaths > 0 {
				lived++
			}
		}
		m, _ := train.Modes.Parse(tr.Config.Mode)
		seen[train.Modes.Name(m)] = true
	})
	if len(seen) != len(Modes()) || done < 50 || ended < 20 || lived < 10 {
		t.Errorf("of %d modes %d were tried; %d runs were done, %d of them outlived somebody, %d ended", len(Modes()), len(seen), done, lived, ended)
	}
}

// deaf is a rank whose program is not told of deaths, unless it waits for the dead alone.
type deaf struct{ comm.Elastic }

func (h deaf) Go(name string, p comm.Program) {
	h.Elastic.Go(name, func(ctx context.Context, o comm.Host) error { return p(ctx, deaf{o.(comm.Elastic)}) })
}

func (h deaf) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	for {
		f, err := h.Elastic.Recv(ctx, from, tag)
		var gone *comm.PeerError
		if from == comm.AnyRank && errors.As(err, &gone) && !gone.Ended {
			continue
		}
		return f, err
	}
}

// rewound is a rank whose answers tell an old version once the clock shows ten seconds and
// a step has taken more than five.
type rewound struct {
	comm.Elastic
	last *atomic.Int64
}

func (h rewound) Go(name string, p comm.Program) {
	h.Elastic.Go(name, func(ctx context.Context, o comm.Host) error { return p(ctx, rewound{o.(comm.Elastic), h.last}) })
}

func (h rewound) Send(ctx context.Context, to int, f comm.Frame) error {
	if f.Header.Kind == comm.Parameters {
		was := h.last.Swap(int64(h.Now()))
		if int64(h.Now())-was > 5e9 && was > 0 {
			f.Header.Version = 0
		}
	}
	return h.Elastic.Send(ctx, to, f)
}

// chancy is a rank that does something else each time it is run.
type chancy struct {
	comm.Elastic
	runs *atomic.Int64
}

func (h chancy) Send(ctx context.Context, to int, f comm.Frame) error {
	if f.Header.Kind == comm.Gradient && h.Now() > 4e9 {
		f.Header.Value += float64(h.runs.Add(1))
	}
	return h.Elastic.Send(ctx, to, f)
}

// A defect that is planted between programs and their net is found, and the schedule is cut
// down to what brings it out: one death, one stall, or nothing at all.
func TestPlantedDefects(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	var runs atomic.Int64
	for name, c := range map[string]struct {
		beside func(comm.Host) comm.Host
		least  int
		says   string
	}{
		"deaf":    {func(h comm.Host) comm.Host { return deaf{h.(comm.Elastic)} }, 1, "names no rank"},
		"rewound": {func(h comm.Host) comm.Host { return rewound{h.(comm.Elastic), new(atomic.Int64)} }, 1, "version 0 after version"},
		"chancy":  {func(h comm.Host) comm.Host { return chancy{h.(comm.Elastic), &runs} }, 0, "made again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Soak{Beside: c.beside, Modes: []string{"server"}}
			ctx, enough := context.WithCancel(t.Context())
			defer enough()
			found := false
			s.Many(ctx, 0, 1, upTo(100), func(_ uint64, tr, least *Trial, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if least == nil {
					return
				}
				was, _ := nemesis.Parse(tr.Config.Faults)
				is, _ := nemesis.Parse(least.Config.Faults)
				_, was = was.Split()
				_, is = is.Split() // moves by plan stay
				if len(was) < 3 || len(is) < c.least || !strings.Contains(strings.Join(least.Wrong, "; "), c.says) {
					return // look for one with more to cut, that a fault brings out
				}
				found = true
				enough()
				if len(is) != c.least {
					t.Errorf("seed %d: %q, and of %v is left %v", tr.Seed, least.Wrong, was, is)
				}
			})
			if !found {
				t.Error("it was not found in a hundred seeds")
			}
		})
	}
}

// What is printed of a seed is a recipe that makes the same run.
func TestRecipe(t *testing.T) {
	t.Parallel()
	var s Soak
	for _, seed := range []uint64{3, 4, 5, 40} {
		tr, err := s.Try(t.Context(), seed)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "seed.yaml")
		if err := os.WriteFile(path, []byte(tr.Recipe()), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := config.LoadRecipe(path)
		if err != nil {
			t.Fatalf("%v\n%s", err, tr.Recipe())
		}
		runs, err := r.Runs(nil, false)
		if err != nil || len(runs) != 1 || runs[0].Config.Hash() != tr.Config.Hash() {
			t.Fatalf("%d runs, %v\n%s", len(runs), err, tr.Recipe())
		}
		again, err := s.Again(t.Context(), runs[0].Config)
		if err != nil || again.Took != tr.Took || again.Deaths != tr.Deaths {
			t.Errorf("seed %d took %v, its recipe %v, %v", seed, tr.Took, again.Took, err)
		}
	}
}

// A worker that is cut off from a server is out, and hears it first where it waits for any
// rank: the run goes on without it.
func TestElasticWorkerCutOffFromAServer(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	var s Soak
	for _, seed := range []uint64{167, 804} {
		if tr, err := s.Try(t.Context(), seed); err != nil || tr.Config.Elastic == "none" || len(tr.Wrong) > 0 {
			t.Errorf("seed %d: %v, %q", seed, err, tr.Wrong)
		}
	}
}
