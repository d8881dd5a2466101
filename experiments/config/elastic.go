package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/sgd/train"
)

// moves lists workers that leave an elastic run by plan, or join it.
type moves []train.Departure

// parseMoves reads "2@40" (worker 2, before step 40), "2@40+0@90", or "none"; "2@40.1" is
// behind what is done before step 40 without a turn, or in turn 0. Steps must not fall.
func parseMoves(text string) (moves, error) {
	if text == "none" {
		return nil, nil
	}
	var l moves
	for _, part := range strings.Split(text, "+") {
		who, when, ok := strings.Cut(strings.TrimSpace(part), "@")
		when, nth, turns := strings.Cut(when, ".")
		worker, err1 := strconv.Atoi(who)
		step, err2 := strconv.Atoi(when)
		turn, err3 := strconv.Atoi(nth)
		if !turns {
			turn, err3 = 0, nil
		}
		d := train.Departure{Worker: worker, Step: step, Turn: turn}
		if !ok || errors.Join(err1, err2, err3) != nil || min(worker, step, turn) < 0 || len(l) > 0 && before(d, l[len(l)-1]) {
			return nil, fmt.Errorf("want none, or which worker before which step, in order of steps, such as 2@40 or 2@40+0@90, not %q", text)
		}
		l = append(l, d)
	}
	return l, nil
}

func before(a, b train.Departure) bool {
	return a.Step < b.Step || a.Step == b.Step && a.Turn < b.Turn
}

func canonicalMoves(text string) (string, error) {
	l, err := parseMoves(text)
	return l.String(), err
}

// String is the text parseMoves reads.
func (l moves) String() string {
	if len(l) == 0 {
		return "none"
	}
	var parts []string
	for _, d := range l {
		part := fmt.Sprintf("%d@%d", d.Worker, d.Step)
		if d.Turn > 0 {
			part += fmt.Sprintf(".%d", d.Turn)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "+")
}

// checkElastic refuses nets that cannot change who takes part in a run.
func (c Config) checkElastic() error {
	switch {
	case !c.Elastic:
		return nil
	case c.Net == "mpi":
		return errors.New("key \"elastic\": MPI ends all processes when one of them dies; use net=grpc")
	case c.Emulate:
		return errors.New("key \"elastic\": emulated NICs do not know who takes part; use net=sim, or emulate=false")
	}
	return nil
}

// elastic lets the job have what the configuration says of workers that leave and join.
func (c Config) elastic(j *train.Job) {
	j.Elastic, j.MinWorkers = c.Elastic, c.MinWorkers
	j.OnResize, _ = train.ParseOnResize(c.OnResize)
	j.Leaves, _ = parseMoves(c.Leave)
	joins, _ := parseMoves(c.Join)
	for _, d := range joins {
		j.Joins = append(j.Joins, train.Joining(d))
	}
}
