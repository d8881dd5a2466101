package sgd

// ClipValue bounds every coordinate, a filter:
//
//	g ← max(−limit, min(limit, g))
//
// Unlike Clip it turns the direction, but it needs no norm and so runs on
// split tensors.
//
// Tuning: a limit that touches more than a few coordinates in a thousand makes
// the rule a sign method.
type ClipValue struct {
	Limit float64 `doc:"largest magnitude of a coordinate, more than 0"`
}

var _ = Optimizers.Add("clipvalue", "filter: bound every coordinate of the gradient", ClipValue{Limit: 1})

var _ Filter = ClipValue{}

// Validate checks the range of Limit.
func (o ClipValue) Validate() error { return check(o.Limit > 0, "limit", o.Limit, "more than 0") }

// New refuses: a filter needs an update rule behind it.
func (o ClipValue) New(Layout) (Transform, error) { return nil, alone(o) }

// NewFilter makes the Transform; it has no state.
func (o ClipValue) NewFilter(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &clipvalue{trainable(l), float32(o.Limit)}, nil
}

type clipvalue struct {
	domain
	limit float32
}

func (t *clipvalue) Apply(u, _ []float32, _ Step) {
	hi := t.limit
	for _, r := range t.of(u) {
		u := u[r.Lo:r.Hi]
		for i, g := range u {
			u[i] = max(-hi, min(hi, g))
		}
	}
}
