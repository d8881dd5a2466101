package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/store"
)

// axis is a numeric key that runs were swept over, or a numeric option in the spec text of
// a key: "codec.keep".
type axis struct {
	key    string // of the configuration
	option string // within its spec text; "" for the key's own value
	field  store.Field
}

func (a axis) String() string {
	if a.option != "" {
		return a.key + "." + a.option
	}
	return a.key
}

// optionNumber finds options with a number in spec text.
var optionNumber = regexp.MustCompile(`\b(\w+)=([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)[,)\]]`)

// at is where a configuration lies on the axis, and what remains of the key's value.
func (a axis) at(c *Config) (x float64, rest string, ok bool) {
	if a.option == "" {
		x, ok = a.field.Number(c.Runs[0])
		return x, "", ok
	}
	text := c.show(a.key)
	for _, m := range optionNumber.FindAllStringSubmatchIndex(text, -1) {
		if text[m[2]:m[3]] != a.option {
			continue
		}
		x, err := strconv.ParseFloat(text[m[4]:m[5]], 64)
		return x, text[:m[4]] + "…" + text[m[5]:], err == nil
	}
	return 0, "", false
}

// word writes a place on the axis with two digits, in the unit of the key.
func (a axis) word(x float64, c *Config) string {
	if a.option != "" || a.field.Kind != store.Number {
		if a.option == "" && a.field.Kind == store.Seconds {
			return a.field.Format(x)
		}
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	_, times := a.drawn(false)
	round, _ := strconv.ParseFloat(strconv.FormatFloat(x*times, 'g', 2, 64), 64)
	text := strconv.FormatFloat(round/times, 'g', -1, 64)
	at := c.Runs[0].Config
	if at.Set(a.key, text) != nil {
		return text
	}
	return at.Show(a.key)
}

// drawn is the axis of a figure, and by how much places on it are to be multiplied.
func (a axis) drawn(log bool) (figure.Axis, float64) {
	x := figure.Axis{Label: a.String(), Log: log}
	if a.option != "" {
		return x, 1
	}
	for _, k := range config.Keys() {
		if k.Name != a.key {
			continue
		}
		switch {
		case k.Type == "duration":
			x.Unit = figure.Seconds
		case k.Type == "bandwidth" && strings.HasPrefix(a.key, "network."):
			x.Label += " (bit/s)"
			return x, 8
		case k.Type == "bandwidth":
			x.Label += " (per second)"
			x.Unit = figure.Bytes
		case k.Type == "flops":
			x.Label += " (FLOP/s)"
		}
	}
	return x, 1
}

// axes are the axes of tasks: numeric keys in which their runs differ, and numeric options
// of the other ones.
func axes(tasks []*Task) (out []axis) {
	var runs []*store.Run
	for _, t := range tasks {
		for _, c := range t.Configs {
			runs = append(runs, c.Runs...)
		}
	}
	for _, key := range store.Varying(runs) {
		f := field(key)
		if f.Kind.Numeric() {
			out = append(out, axis{key: key, field: f})
			continue
		}
		for _, t := range tasks {
			for _, c := range t.Configs {
				for _, m := range optionNumber.FindAllStringSubmatch(c.show(key), -1) {
					if a := (axis{key: key, option: m[1], field: f}); !slices.ContainsFunc(out, func(o axis) bool { return o.key == key && o.option == m[1] }) {
						out = append(out, a)
					}
				}
			}
		}
	}
	return out
}

// line is configurations that differ in their place on an axis alone.
type line struct {
	label  string
	alone  bool
	rest   map[string]string // the other keys in which configurations differ
	points []place
}

// place is a configuration on an axis.
type place struct {
	x      float64
	task   *Task
	config *Config
}

func (l *line) at(x float64) *place {
	for i := range l.points {
		if l.points[i].x == x {
			return &l.points[i]
		}
	}
	return nil
}

// View is how configurations do over an axis: time, bytes and the best score, a line each,
// and where the first of them change places.
type View struct {
	Section
	Key       string // the axis
	Where     string // environment keys that other views of the axis have otherwise
	Crossings []Crossing
	Answers   []string // the crossings, in sentences

	axis  axis
	tasks []*Task
	lines []*line
	rests map[string]*line // by the other keys
	log   bool             // places and what lies between them are compared by ratio
}

// views are those of tasks that compute the same: one for each axis and for each
// environment beside it. Views of one axis have as many draws throughout, or none.
func views(tasks []*Task) (out []*View) {
	all := axes(tasks)
	var keys []string
	for _, a := range all {
		if !slices.Contains(keys, a.key) {
			keys = append(keys, a.key)
		}
	}
	for _, t := range tasks {
		for _, k := range t.Varying {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	for _, a := range all {
		byPlace := map[string]*View{}
		var found []*View
		for _, t := range tasks {
			for _, c := range t.Configs {
				x, rest, ok := a.at(c)
				if !ok {
					continue
				}
				others, where := map[string]string{}, ""
				for _, k := range keys {
					switch {
					case k == a.key && rest != "":
						others[k] = rest
					case k == a.key:
					case isEnvironment(k):
						where = strings.TrimSpace(where + " " + k + "=" + c.show(k))
					default:
						others[k] = c.show(k)
					}
				}
				id := fmt.Sprint(where, "\x00", t.draws)
				v := byPlace[id]
				if v == nil {
					v = &View{Key: a.String(), Where: where, axis: a, rests: map[string]*line{}}
					byPlace[id] = v
					found = append(found, v)
				}
				v.add(place{x, t, c}, others)
			}
		}
		for _, v := range found {
			if v.settle() {
				out = append(out, v)
			}
		}
		if len(found) == 1 {
			found[0].Where = ""
		}
	}
	for _, v := range out {
		v.cross()
		v.show()
	}
	return slices.DeleteFunc(out, func(v *View) bool { return len(v.Panels) == 0 }) // nothing changes over the axis
}

func isEnvironment(key string) bool {
	return slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Name == key && k.Effect() == config.Environment })
}

// add puts a configuration on the line of its other keys.
func (v *View) add(p place, rest map[string]string) {
	if !slices.Contains(v.tasks, p.task) {
		v.tasks = append(v.tasks, p.task)
	}
	id := store.Alone
	if !p.config.Alone {
		id = fmt.Sprint(rest)
	}
	l := v.rests[id]
	if l == nil {
		l = &line{rest: rest, alone: p.config.Alone}
		v.rests[id], v.lines = l, append(v.lines, l)
	}
	if l.at(p.x) == nil {
		l.points = append(l.points, p)
	}
}

// settle sorts and names the lines and drops those of one point; false: no configuration
// has a line.
func (v *View) settle() bool {
	v.lines = slices.DeleteFunc(v.lines, func(l *line) bool { return len(l.points) < 2 })
	if !slices.ContainsFunc(v.lines, func(l *line) bool { return !l.alone }) {
		return false
	}
	least := math.Inf(1)
	for _, l := range v.lines {
		slices.SortFunc(l.points, func(a, b place) int { return cmp.Compare(a.x, b.x) })
		least = min(least, l.points[0].x)
	}
	v.log = least > 0
	var keys []string
	for _, l := range v.lines {
		for k, x := range l.rest {
			if !l.alone && !slices.Contains(keys, k) && slices.ContainsFunc(v.lines, func(o *line) bool { return !o.alone && o.rest[k] != x }) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	for _, l := range v.lines {
		switch c := l.points[0].config; {
		case l.alone:
			l.label = store.Alone
		case len(keys) == 0:
			if l.label = l.rest[v.axis.key]; l.label == "" {
				l.label = c.Trials[0].Recipe
			}
		case len(keys) == 1:
			l.label = l.rest[keys[0]]
		default:
			var parts []string
			for _, k := range keys {
				parts = append(parts, k+"="+l.rest[k])
			}
			l.label = strings.Join(parts, " ")
		}
	}
	return true
}

// quantity is what a view shows of configurations, and compares them in. Less is better.
type quantity struct {
	name    string // in JSON
	ratios  bool
	better  string // "sooner", with less
	contest func(*Task) *contest
	value   func(*Task, *Trial) float64
	factors func(*Config) []float64 // of draws, which the value is multiplied by
	shown   func(*Task, *Config) (middle, low, high float64)
}

func undrawn(*Config) []float64 { return []float64{1} }

var quantities = []quantity{
	{"seconds", true, "is sooner", func(t *Task) *contest { return t.soonest }, reachedIn, (*Config).clusters,
		func(t *Task, c *Config) (middle, low, high float64) {
			if low, high = c.Low, c.High; t.Target.Asked() {
				if t.draws == 0 {
					low, high = c.ToSeconds.Min, c.ToSeconds.Max
				}
				return c.ToSeconds.Median, low, high
			}
			if t.draws == 0 {
				low, high = c.Seconds.Min, c.Seconds.Max
			}
			return c.Seconds.Mean, low, high
		}},
	{"bytes", true, "takes fewer bytes", func(t *Task) *contest { return t.lightest }, (*Task).bytesOf, undrawn,
		func(t *Task, c *Config) (middle, low, high float64) {
			if t.Target.Asked() {
				return c.ToBytes.Median, c.ToBytes.Min, c.ToBytes.Max
			}
			return c.Bytes.Mean, c.Bytes.Min, c.Bytes.Max
		}},
	{"score", false, "has the better best evaluation", func(t *Task) *contest { return t.keenest },
		func(t *Task, x *Trial) float64 {
			return signOf(t) * bestOf(x.Run, t.Target)
		}, undrawn,
		func(t *Task, c *Config) (middle, low, high float64) {
			low, high = within(t, c.Best)
			return c.Best.Mean, low, high
		}},
}

// show draws the lines with their bands, and the crossings.
func (v *View) show() {
	v.Section = Section{Name: "over-" + strings.ReplaceAll(v.Key, ".", "-"), Title: "Over " + v.Key}
	if v.Where != "" {
		v.Title += ", " + v.Where
	}
	v.Text = "A line is one configuration otherwise. A band is the range over seeds, of the best evaluation the 95 % interval of its mean"
	t := v.tasks[0]
	if t.draws > 0 {
		v.Text = "A line is one configuration otherwise. Bands: of time, nine cases of ten over seeds and draws; of bytes, the range over seeds; of the best evaluation, the 95 % interval of its mean"
	}
	v.Text += ". Crossings are interpolated between neighbouring runs, on logarithms where an axis has them, for each seed and draw; one is there only where the order is told on both sides of it."
	lines := v.lines
	if folds(len(lines)) {
		v.Notes = append(v.Notes, fmt.Sprintf("Of %d lines the first %d.", len(lines), most))
		lines = lines[:most]
	}
	x, times := v.axis.drawn(v.wide())
	goal := ""
	if t.Target.Asked() {
		goal = " to the target"
		if !slices.ContainsFunc(v.tasks, func(o *Task) bool { return o.Target != t.Target }) {
			goal = " to " + t.Goal()
		}
	}
	for _, q := range quantities {
		f := figure.Figure{X: x}
		switch q.name {
		case "seconds":
			f.Title, f.Y = "time"+goal, figure.Axis{Label: t.Clock() + goal, Log: true, Unit: figure.Seconds}
		case "bytes":
			f.Title, f.Y = "bytes"+goal, figure.Axis{Label: "bytes" + goal, Log: true, Unit: figure.Bytes}
		default:
			f.Title, f.Y = t.Target.Metric.Best(), store.Axis("best ", t.Target.Metric)
		}
		changes := false
		for _, l := range lines {
			s := figure.Series{Name: l.label, Tag: l.label, Faded: l.alone}
			first := math.NaN()
			for _, p := range l.points {
				y, low, high := q.shown(p.task, p.config)
				if !f.Y.Log || y > 0 {
					changes = changes || first != y && finite(first)
					first = y
				}
				if !finite(low) || !finite(high) {
					low, high = y, y
				}
				s.X, s.Y, s.Lo, s.Hi = append(s.X, times*p.x), append(s.Y, y), append(s.Lo, low), append(s.Hi, high)
			}
			f.Series = append(f.Series, s)
		}
		if !changes || q.name == "score" && !t.Learned() {
			continue
		}
		for _, c := range v.Crossings {
			if c.Of == q.name {
				f.Series = append(f.Series, figure.Series{Name: "crossing", Tag: c.word, Marks: true, X: []float64{times * float64(c.At)}, Y: []float64{c.y}})
			}
		}
		v.Panels = append(v.Panels, f)
	}
	v.Notes = append(v.Notes, v.Answers...)
}

// wide reports whether the axis goes over so much that it is logarithmic.
func (v *View) wide() bool {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, l := range v.lines {
		lo, hi = min(lo, l.points[0].x), max(hi, l.points[len(l.points)-1].x)
	}
	return lo > 0 && hi >= 5*lo
}

// Winners is which configuration is soonest by the values of two keys.
type Winners struct {
	Rows, Columns         string // keys
	RowNames, ColumnNames []string
	Cells                 [][]Cell
}

// winners are those of the first two numeric keys that tasks of one computation are swept
// over, keys of the environment first; nil where there are fewer, or nothing is left to
// compare at their values, or other keys of the environment differ too.
func winners(tasks []*Task) *Winners {
	var two []axis
	for _, environment := range []bool{true, false} {
		for _, a := range axes(tasks) {
			if a.option == "" && isEnvironment(a.key) == environment {
				two = append(two, a)
			}
		}
	}
	if len(two) < 2 {
		return nil
	}
	two = two[:2]
	type cell struct {
		task    *Task
		configs []*Config
	}
	cells := map[[2]float64]*cell{}
	var values [2][]float64
	names := map[[2]any]string{}
	several := false
	for _, t := range tasks {
		for _, c := range t.choices() {
			x, _, okx := two[0].at(c)
			y, _, oky := two[1].at(c)
			if !okx || !oky {
				continue
			}
			for i, z := range []float64{x, y} {
				if !slices.Contains(values[i], z) {
					values[i] = append(values[i], z)
				}
				names[[2]any{i, z}] = c.show(two[i].key)
			}
			at := cells[[2]float64{x, y}]
			if at == nil {
				at = &cell{task: t}
				cells[[2]float64{x, y}] = at
			}
			if at.task != t {
				return nil
			}
			at.configs = append(at.configs, c)
			several = several || len(at.configs) > 1
		}
	}
	if !several || len(values[0]) < 2 || len(values[1]) < 2 {
		return nil
	}
	w := &Winners{Rows: two[0].key, Columns: two[1].key}
	for i, list := range []*[]string{&w.RowNames, &w.ColumnNames} {
		slices.Sort(values[i])
		for _, z := range values[i] {
			*list = append(*list, names[[2]any{i, z}])
		}
	}
	for _, x := range values[0] {
		var row []Cell
		for _, y := range values[1] {
			at := cells[[2]float64{x, y}]
			if at == nil {
				row = append(row, Cell{})
				continue
			}
			row = append(row, Cell{Text: soonestOf(at.task, at.configs, two)})
		}
		w.Cells = append(w.Cells, row)
	}
	return w
}

// soonestOf words which of some choices is the soonest, by how much, and which cannot be
// told from it. Names leave out the keys of the axes.
func soonestOf(t *Task, configs []*Config, but []axis) string {
	cs := slices.Clone(configs)
	slices.SortStableFunc(cs, func(a, b *Config) int { return cmp.Compare(t.soonest.middle(a), t.soonest.middle(b)) })
	name := func(c *Config) string {
		var parts []string
		for _, k := range t.Varying {
			if !slices.ContainsFunc(but, func(a axis) bool { return a.key == k }) {
				parts = append(parts, c.show(k))
			}
		}
		return strings.Join(parts, " ")
	}
	best := t.soonest.middle(cs[0])
	if !finite(best) {
		return "never"
	}
	s := name(cs[0])
	var level []string
	for _, c := range cs[1:] {
		if t.soonest.order(cs[0], c) == 0 {
			level = append(level, name(c))
		}
	}
	switch {
	case len(level) > 0:
		s += " ≈ " + few(level)
	case len(cs) > 1 && best > 0 && finite(t.soonest.middle(cs[1])):
		s += ", " + ahead(t.soonest.middle(cs[1])/best)
	}
	return s
}

// ahead words the ratio of the next to the first.
func ahead(ratio float64) string {
	if ratio >= 10 {
		return fmt.Sprintf("%.0f× ahead", ratio)
	}
	return fmt.Sprintf("%.1f× ahead", ratio)
}

// quantile is the value that a share of sorted values lies below.
func quantile(sorted []float64, q float64) float64 {
	return sorted[int(math.Round(q*float64(len(sorted)-1)))]
}
