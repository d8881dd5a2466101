package staleness

import "fmt"

// keepGoing is embedded by policies that never make a running gradient void.
type keepGoing struct{}

func (keepGoing) Cancel(View) []int { return nil }

// startOver is embedded by policies that leave nobody behind: after an update
// all who compute start over on the new parameters.
type startOver struct{}

func (startOver) Cancel(v View) (void []int) {
	for w, live := range v.Live {
		if live && !v.Waiting[w] {
			void = append(void, w)
		}
	}
	return void
}

// fresh holds what was computed on the present parameters and drops the rest:
// gradients that were on their way when their worker was told to start over.
type fresh struct{}

func (fresh) Admit(v View, _ int) Verdict {
	if v.Delay > 0 {
		return Drop
	}
	return Hold
}

// serve returns p unless there is nobody to serve.
func serve(workers int, p Policy) (Policy, error) {
	if workers < 1 {
		return nil, fmt.Errorf("a policy for %d workers; want at least 1", workers)
	}
	return p, nil
}
