package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/sgd/train"
)

// leaves lists workers that leave an elastic run by plan.
type leaves []train.Departure

// parseLeaves reads "2@40" (worker 2 leaves before step 40), "2@40+0@90" or "none".
// Steps must not fall.
func parseLeaves(text string) (leaves, error) {
	if text == "none" {
		return nil, nil
	}
	var l leaves
	for _, part := range strings.Split(text, "+") {
		who, when, ok := strings.Cut(strings.TrimSpace(part), "@")
		worker, err1 := strconv.Atoi(who)
		step, err2 := strconv.Atoi(when)
		if !ok || err1 != nil || err2 != nil || worker < 0 || step < 0 || (len(l) > 0 && step < l[len(l)-1].Step) {
			return nil, fmt.Errorf("want none, or which worker leaves before which step, in order of steps, such as 2@40 or 2@40+0@90, not %q", text)
		}
		l = append(l, train.Departure{Worker: worker, Step: step})
	}
	return l, nil
}

func canonicalLeaves(text string) (string, error) {
	l, err := parseLeaves(text)
	return l.String(), err
}

// String is the text parseLeaves reads.
func (l leaves) String() string {
	if len(l) == 0 {
		return "none"
	}
	var parts []string
	for _, d := range l {
		parts = append(parts, fmt.Sprintf("%d@%d", d.Worker, d.Step))
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

// elastic lets the job have what the configuration says of workers that leave.
func (c Config) elastic(j *train.Job) {
	j.Elastic, j.MinWorkers = c.Elastic, c.MinWorkers
	j.OnResize, _ = train.ParseOnResize(c.OnResize)
	j.Leaves, _ = parseLeaves(c.Leave)
}
