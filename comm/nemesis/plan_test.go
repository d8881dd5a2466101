package nemesis_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/nemesis"
)

// Workers leave and join before steps, in the order of the schedule, whatever else there is;
// nothing happens to them at an instant, and laws draw what they would draw alone.
func TestMoves(t *testing.T) {
	const law = "poisson(every=1s,until=1m)+poisson(every=2s,until=1m)"
	alone, err := nemesis.Parse("kill(w3,at=2s)+" + law)
	if err != nil {
		t.Fatal(err)
	}
	s, err := nemesis.Parse("leave(w2,before=40)+kill(w3,at=2s)+join(w2,before=60)+poisson(every=1s,until=1m)+leave(w0,before=60,turn=1)+poisson(every=2s,until=1m)")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Moves(world)
	want := []nemesis.Move{{Worker: 2, Before: 40}, {Worker: 2, Before: 60, Joins: true}, {Before: 60, Turn: 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	was, err1 := alone.Plan(world)
	is, err2 := s.Plan(world)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(was, is) || len(was) < 50 {
		t.Errorf("%d faults alone, %d beside moves, %v, %v", len(was), len(is), err1, err2)
	}
	if moves, timed := s.Split(); len(moves) != 3 || timed.String() != alone.String() {
		t.Errorf("%v is split into %v and %v", s, moves, timed)
	}
}

// What is wrong with a move is told with its option, or its worker, and what is allowed.
func TestMovesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"leave(s0,before=3)":           `option "rank": want a worker, such as w2, not "s0"`,
		"join(observer,before=3)":      "want a worker",
		"leave(2,before=3)":            "want w0",
		"leave(w2,before=-1)":          `option "before"`,
		"join(w2,before=1s)":           `option "before": want a whole number`,
		"join(w2,before=3,turn=-1)":    `option "turn"`,
		"leave(w2,at=3s)":              `leave has no option "at"; there are: before, rank, turn`,
		"2@40":                         "leave(w1,before=40)",
		"leave(w9,before=3)":           "there is no w9",
		"join(w*,before=3)":            "want one",
		"poisson(of=[leave],every=1s)": "want kill",
	} {
		s, err := nemesis.Parse(text)
		if err == nil {
			_, err = s.Moves(world)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
