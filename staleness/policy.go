package staleness

import "fmt"

// keepGoing is embedded by policies that never make a running gradient void.
type keepGoing struct{}

func (keepGoing) Cancel(View) []int { return nil }

// serve returns p unless there is nobody to serve.
func serve(workers int, p Policy) (Policy, error) {
	if workers < 1 {
		return nil, fmt.Errorf("a policy for %d workers; want at least 1", workers)
	}
	return p, nil
}
