package record

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// Goal is what an evaluation is to reach: a value of Metric that is no worse than Value. A
// Metric without a name is the first one of the model. A Value of 0 is no goal; Metric says
// even then by which runs are compared. With OfBest, Value is a share of the best of all
// runs that are compared, or a multiple of the least: no evaluation reaches it before
// [Goal.Resolve].
type Goal struct {
	Metric sgd.Metric
	OfBest bool
	Value  float64
}

// ParseGoal reads "0.95", "accuracy>=0.95", "loss<=1.9", "mae<=0.3", "0.95best" or
// "loss<=1.05best". A metric that is not known has the direction that the text gives it,
// which [Goal.Among] compares with the model's.
func ParseGoal(text string) (g Goal, err error) {
	rest := strings.TrimSpace(text)
	for _, op := range []string{atLeast, atMost} {
		name, value, ok := strings.Cut(rest, op)
		if !ok {
			continue
		}
		g.Metric, rest = sgd.Metric{Name: strings.TrimSpace(name), LessIsBetter: op == atMost}, value
		if err := sgd.CheckMetrics([]sgd.Metric{{Name: g.Metric.Name}}); g.Metric.Name == sgd.First {
			return Goal{}, fmt.Errorf("target %q: the first metric needs no name; want a number such as 0.95", text)
		} else if known, ok := sgd.FindMetric(sgd.KnownMetrics(), g.Metric.Name); ok {
			if known.LessIsBetter != g.Metric.LessIsBetter {
				return Goal{}, wrongWay(text, known)
			}
			g.Metric = known
		} else if err != nil {
			return Goal{}, fmt.Errorf("target %q: %w", text, err)
		}
		break
	}
	rest, g.OfBest = strings.CutSuffix(rest, "best")
	g.Value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || math.IsNaN(g.Value) || math.IsInf(g.Value, 0) {
		return Goal{}, fmt.Errorf("%q is no target; want a number such as 0.95, NAME>=x or NAME<=x with a metric's name, such as loss<=1.9, or 0.95best, a share of the best that the runs compared reach", text)
	}
	if g.Value == 0 && (g.OfBest || g.Metric.Name != "") {
		return Goal{}, fmt.Errorf("target %q: 0 stands for no target; want a number beside it, such as %s1e-9", text, g.prefix())
	}
	return g, g.Check()
}

// Operators of a target.
const (
	atLeast = ">="
	atMost  = "<="
)

// operator is that of a metric's targets.
func operator(m sgd.Metric) string {
	if m.LessIsBetter {
		return atMost
	}
	return atLeast
}

// wrongWay is the error of a target that asks for a value no better than a bound.
func wrongWay(text string, m sgd.Metric) error {
	way := "more"
	if m.LessIsBetter {
		way = "less"
	}
	return fmt.Errorf("target %q: of %s %s is better; want %s%sx", text, m.Name, way, m.Name, operator(m))
}

// Check refuses what no evaluation can reach, as far as the metric is known.
func (g Goal) Check() error {
	m := g.Metric
	named := m.Name != ""
	switch {
	case g.OfBest && g.Value < 0:
		return fmt.Errorf("a target of %gbest; want a share above 0", g.Value)
	case g.OfBest && !m.LessIsBetter && g.Value > 1 && named:
		return fmt.Errorf("%gbest is more than the best %s; want at most 1best, or for a loss loss<=%[1]gbest", g.Value, m.Name)
	case g.OfBest && m.LessIsBetter && g.Value < 1 && g.Value > 0:
		return fmt.Errorf("%s is less than the least %s; want at least 1best, such as %[2]s<=1.05best", g, m.Name)
	case m.Unit == sgd.Share && !g.OfBest && g.Value < 0:
		return fmt.Errorf("a target of %g; want 0 or more, as %s is a share", g.Value, m.Name)
	case m.Unit == sgd.Share && !g.OfBest && g.Value > 1:
		return fmt.Errorf("no %s is above 1: want at most 1, not %g; of a loss say loss<=%[2]g", m.Name, g.Value)
	}
	return nil
}

// Among is the goal for a model with these metrics: its metric with unit and direction. The
// error says what metrics there are. Without metrics, as of runs without weights, there is
// no goal.
func (g Goal) Among(metrics []sgd.Metric) (Goal, error) {
	if len(metrics) == 0 {
		return Goal{}, nil
	}
	asked := g.Metric
	if asked.Name == "" {
		g.Metric = metrics[0]
		return g, g.Check()
	}
	m, ok := sgd.FindMetric(metrics, asked.Name)
	if !ok {
		return Goal{}, NoMetric(asked.Name, metrics)
	}
	if m.LessIsBetter != asked.LessIsBetter {
		return Goal{}, wrongWay(g.String(), m)
	}
	g.Metric = m
	return g, g.Check()
}

// NoMetric is the error about a metric that a model does not have.
func NoMetric(name string, metrics []sgd.Metric) error {
	var all []string
	for _, m := range metrics {
		all = append(all, m.Name)
	}
	return fmt.Errorf("the model has no metric %q; it has %s", name, strings.Join(all, ", "))
}

// Asked is false where there is nothing to reach.
func (g Goal) Asked() bool { return g.Value != 0 }

// IsZero is true where there is nothing to reach.
func (g Goal) IsZero() bool { return !g.Asked() }

// Resolve is the goal whose value is the share of this best value, or the multiple of this
// least one; any other goal is itself.
func (g Goal) Resolve(best float64) Goal {
	switch {
	case !g.OfBest:
		return g
	case best < 0: // the share is still the worse one
		g.Value = best / g.Value
	default:
		g.Value *= best
	}
	g.OfBest = false
	return g
}

// MarshalText writes the goal as ParseGoal reads it.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText is ParseGoal.
func (g *Goal) UnmarshalText(text []byte) (err error) {
	*g, err = ParseGoal(string(text))
	return err
}

// Scalar is the goal as YAML holds it: a number where that is all, else its text.
func (g Goal) Scalar() any {
	if !g.OfBest && g.Metric.Name == "" {
		return g.Value
	}
	return g.String()
}

// MarshalJSON writes an accuracy as a number, and any other goal as ParseGoal reads it.
func (g Goal) MarshalJSON() ([]byte, error) {
	if g.Metric == sgd.Accuracy {
		g.Metric = sgd.Metric{}
	}
	return json.Marshal(g.Scalar())
}

// Of is the value of the goal's metric in an evaluation; NaN where it was not measured.
func (g Goal) Of(e Eval) float64 {
	if x, ok := e.Values[g.Metric.Name]; ok {
		return x
	}
	return math.NaN()
}

// Reached reports whether an evaluation reaches the goal.
func (g Goal) Reached(e Eval) bool {
	if !g.Asked() || g.OfBest {
		return false
	}
	if g.Metric.LessIsBetter {
		return g.Of(e) <= g.Value
	}
	return g.Of(e) >= g.Value
}

// Best is the index of the best evaluation, the first of equals; -1 without evaluations that
// have a value.
func (g Goal) Best(evals []Eval) int {
	best := -1
	for i, e := range evals {
		x := g.Of(e)
		if !math.IsNaN(x) && (best < 0 || g.Metric.Better(x, g.Of(evals[best]))) {
			best = i
		}
	}
	return best
}

// prefix is the goal's text before its value.
func (g Goal) prefix() string {
	if g.Metric.Name == "" {
		return ""
	}
	return g.Metric.Name + operator(g.Metric)
}

// String is as ParseGoal reads it; of the first metric the number alone.
func (g Goal) String() string {
	text := g.prefix() + strconv.FormatFloat(g.Value, 'g', -1, 64)
	if g.OfBest {
		text += "best"
	}
	return text
}
