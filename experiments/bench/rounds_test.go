package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// steady takes a fixed time for a step, on no clock.
type steady struct {
	name   string
	step   float64
	fails  int // at this block, 0: never
	blocks int
	log    *[]string
}

var errTired = errors.New("tired")

func (s *steady) block(_ context.Context, n int) (float64, error) {
	if s.blocks++; s.blocks == s.fails {
		return 0, errTired
	}
	*s.log = append(*s.log, s.name)
	return float64(n) * s.step, nil
}

// Whatever the paces and the time: everybody has a block in each round, blocks
// are whole steps, and the time given is about the time taken.
func TestCompeteShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Float64Range(0.01, 20).Draw(t, "seconds")
		var log []string
		var cs []contender
		for i := range rapid.IntRange(1, 4).Draw(t, "contenders") {
			cs = append(cs, &steady{name: fmt.Sprint(i), step: rapid.Float64Range(1e-4, 5).Draw(t, "step"), log: &log})
		}
		rounds := 0
		scores, err := compete(t.Context(), cs, seconds, func() { rounds++ })
		if err != nil {
			t.Fatal(err)
		}
		if rounds < minRounds || rounds > maxRounds {
			t.Errorf("%d rounds", rounds)
		}
		for i, s := range scores {
			step := cs[i].(*steady).step
			if len(s.perS) != rounds || s.err != nil || s.steps < 1 {
				t.Fatalf("contender %d: %+v in %d rounds", i, s, rounds)
			}
			for _, v := range s.perS {
				if v < 0.999/step || v > 1.001/step {
					t.Errorf("%v steps a second, want %v", v, 1/step)
				}
			}
			if took := float64(s.steps*rounds) * step; took > 1.6*seconds+float64(rounds)*step {
				t.Errorf("%v seconds where %v were given, step %v", took, seconds, step)
			}
		}
	})
}

func TestCompeteRotates(t *testing.T) {
	var log []string
	cs := []contender{
		&steady{name: "a", step: 1, log: &log}, &steady{name: "b", step: 1, log: &log}, &steady{name: "c", step: 1, log: &log},
	}
	if _, err := compete(t.Context(), cs, 1, func() { log = append(log, "|") }); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(log), "[a b c a b c | b c a | c a b |]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCompeteLeavesOutWhoFails(t *testing.T) {
	for fails := 1; fails < 5; fails++ {
		var log []string
		cs := []contender{&steady{name: "a", step: 1, log: &log}, &steady{name: "b", step: 1, fails: fails, log: &log}}
		scores, err := compete(t.Context(), cs, 1, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if scores[0].err != nil || len(scores[0].perS) != minRounds {
			t.Errorf("block %d: the other one: %+v", fails, scores[0])
		}
		if b := scores[1]; !errors.Is(b.err, errTired) || len(b.perS) != max(0, fails-2) {
			t.Errorf("block %d: %+v", fails, b)
		}
	}
}

func TestCompeteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log []string
	cs := []contender{&steady{name: "a", step: 1, log: &log}}
	if _, err := compete(ctx, cs, 1, cancel); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestPaceOfNothing(t *testing.T) {
	var log []string
	if _, err := paceOf(t.Context(), &steady{log: &log}, 0.1); err == nil {
		t.Error("steps of no time have a pace")
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{2}, Spread{2, 2, 2}},
		{[]float64{4, 1, 3}, Spread{3, 1, 4}},
		{[]float64{4, 1, 3, 2}, Spread{2.5, 1, 4}},
	} {
		if got := SpreadOf(c.v); got != c.want {
			t.Errorf("%v: %v, want %v", c.v, got, c.want)
		}
	}
	if h := (Spread{2.5, 2, 3}).Half(); h != 0.2 {
		t.Error(h)
	}
	if h := (Spread{}).Half(); h != 0 {
		t.Error(h)
	}
}
