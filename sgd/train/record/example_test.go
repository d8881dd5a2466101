package record_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/train/record"
)

func ExampleParseGoal() {
	goal, err := record.ParseGoal("loss<=1.05best")
	if err != nil {
		panic(err)
	}
	goal = goal.Resolve(2)
	fmt.Println(goal, goal.Reached(record.Eval{Values: record.Values{"loss": 2.2}}), goal.Reached(record.Eval{Values: record.Values{"loss": 2.1}}))
	// Output: loss<=2.1 false true
}

func ExampleGauge() {
	var a, b record.Gauge
	for _, age := range []float64{1, 2, 4} {
		a.Add(age)
	}
	b.Add(9)
	both := record.MergeSpreads(a.Spread(), nil, b.Spread())
	fmt.Println(both.N, both.Mean, both.Min, both.P50, both.Max)
	// Output: 4 4 1 2 9
}
