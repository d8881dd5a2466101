package record

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Goal is what an evaluation is to reach: an accuracy that is no less than Value or, with
// Loss, a mean loss that is no more. A Value of 0 is no goal; Loss says even then by
// which of the two runs are compared. With OfBest, Value is a share of the best accuracy,
// or a multiple of the least loss, of all runs that are compared: no evaluation reaches it
// before [Goal.Resolve].
type Goal struct {
	Loss, OfBest bool
	Value        float64
}

// ParseGoal reads "0.95", "accuracy>=0.95", "loss<=1.9", "0.95best" or "loss<=1.05best".
func ParseGoal(text string) (g Goal, err error) {
	rest := strings.TrimSpace(text)
	if after, ok := strings.CutPrefix(rest, "loss<="); ok {
		g.Loss, rest = true, after
	} else {
		rest = strings.TrimPrefix(rest, "accuracy>=")
	}
	rest, g.OfBest = strings.CutSuffix(rest, "best")
	g.Value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || math.IsNaN(g.Value) || math.IsInf(g.Value, 0) {
		return Goal{}, fmt.Errorf("%q is no target; want an accuracy such as 0.95, loss<=1.9, or 0.95best, a share of the best that the runs compared reach", text)
	}
	return g, g.Check()
}

// Check refuses what no evaluation can reach.
func (g Goal) Check() error {
	switch {
	case g.Value < 0:
		return fmt.Errorf("a target of %g; want 0 or more", g.Value)
	case g.OfBest && !g.Loss && g.Value > 1:
		return fmt.Errorf("%gbest is more than the best accuracy; want at most 1best, or for a loss loss<=%[1]gbest", g.Value)
	case g.OfBest && g.Loss && g.Value < 1 && g.Value > 0:
		return fmt.Errorf("loss<=%gbest is less than the least loss; want at least 1best, such as loss<=1.05best", g.Value)
	case g.Value > 1 && !g.Loss:
		return fmt.Errorf("no accuracy is above 1, and the target is %g; of a loss say loss<=%[1]g", g.Value)
	}
	return nil
}

// Asked is false where there is nothing to reach.
func (g Goal) Asked() bool { return g.Value > 0 }

// IsZero is true where there is nothing to reach.
func (g Goal) IsZero() bool { return !g.Asked() }

// Resolve is the goal whose value is the share of this best accuracy, or the multiple of
// this least loss; any other goal is itself.
func (g Goal) Resolve(best float64) Goal {
	if g.OfBest {
		g.OfBest, g.Value = false, g.Value*best
	}
	return g
}

// MarshalJSON writes an accuracy as a number, and any other goal as ParseGoal reads it.
func (g Goal) MarshalJSON() ([]byte, error) {
	if g.Loss || g.OfBest {
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
	return g.Asked() && !g.OfBest && (g.Loss && e.Loss <= g.Value || !g.Loss && e.Accuracy >= g.Value)
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
	text := fmt.Sprintf("%g", g.Value)
	if g.OfBest {
		text += "best"
	}
	if g.Loss {
		return "loss<=" + text
	}
	return text
}
