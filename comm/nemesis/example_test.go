package nemesis_test

import (
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/internal/rng"
)

// A law becomes single faults, and these the shortest schedule that still does harm.
func Example() {
	s, err := nemesis.Parse("poisson(every=1s,of=[kill,delay],ranks=[w*],until=1m)+kill(s0,at=30s)")
	if err != nil {
		panic(err)
	}
	world := nemesis.World{Workers: 3, Servers: 1, Key: rng.New(1, "faults")}
	drawn, err := s.Drawn(world)
	if err != nil {
		panic(err)
	}
	harmful := func(s nemesis.Schedule) bool { // here: a server dies
		plan, err := s.Plan(world)
		if err != nil {
			panic(err)
		}
		for _, a := range plan {
			if a.What == nemesis.Killing && a.Rank == 3 && a.At < time.Minute {
				return true
			}
		}
		return false
	}
	fmt.Println(len(drawn) > 30, nemesis.Minimise(drawn, harmful))
	// Output: true kill(rank=s0,at=30s)
}
