package train

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Goal is what an evaluation is to reach: an accuracy that is no less than Value or, with
// Loss, a mean loss that is no more. A Value of 0 is no goal; Loss says even then by
// which of the two runs are compared.
type Goal struct {
	Loss  bool
	Value float64
}

// ParseGoal reads "0.95", "accuracy>=0.95" or "loss<=1.9".
func ParseGoal(text string) (g Goal, err error) {
	rest := strings.TrimSpace(text)
	if after, ok := strings.CutPrefix(rest, "loss<="); ok {
		g.Loss, rest = true, after
	} else {
		rest = strings.TrimPrefix(rest, "accuracy>=")
	}
	g.Value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || math.IsNaN(g.Value) || math.IsInf(g.Value, 0) {
		return Goal{}, fmt.Errorf("%q is no target; want an accuracy such as 0.95, or loss<=1.9", text)
	}
	return g, g.Check()
}

// Check refuses what no evaluation can reach.
func (g Goal) Check() error {
	switch {
	case g.Value < 0:
		return fmt.Errorf("a target of %g; want 0 or more", g.Value)
	case g.Value > 1 && !g.Loss:
		return fmt.Errorf("no accuracy is above 1, and the target is %g; of a loss say loss<=%[1]g", g.Value)
	}
	return nil
}

// Asked is false where there is nothing to reach.
func (g Goal) Asked() bool { return g.Value > 0 }

// IsZero is true where there is nothing to reach.
func (g Goal) IsZero() bool { return !g.Asked() }

// MarshalJSON writes an accuracy as a number, and a loss as ParseGoal reads it.
func (g Goal) MarshalJSON() ([]byte, error) {
	if g.Loss {
		return json.Marshal(g.String())
	}
	return json.Marshal(g.Value)
}

// Of is what the goal looks at of an evaluation.
func (g Goal) Of(e Eval) float64 {
	if g.Loss {
		return e.Loss
	}
	return e.Accuracy
}

// Reached says whether an evaluation reaches the goal.
func (g Goal) Reached(e Eval) bool {
	return g.Asked() && (g.Loss && e.Loss <= g.Value || !g.Loss && e.Accuracy >= g.Value)
}

// Metric is "loss" or "accuracy".
func (g Goal) Metric() string {
	if g.Loss {
		return "loss"
	}
	return "accuracy"
}

// String is as ParseGoal reads it; of an accuracy the number alone.
func (g Goal) String() string {
	if g.Loss {
		return fmt.Sprintf("loss<=%g", g.Value)
	}
	return fmt.Sprintf("%g", g.Value)
}
