package train_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/mean"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// layered is layers lo … hi − 1 of a perceptron with a hidden layer, in plain loops. What is
// before the first is on other ranks, and so is what is behind the last.
type layered struct {
	sgd.Model // the whole one
	lo, hi    int
}

// tensors are those of its layers in the whole model.
func (m layered) tensors() []sgd.Span { return m.Model.Layout().Spans[2*m.lo : 2*m.hi] }

func (m layered) Layout() (l sgd.Layout) {
	for _, s := range m.tensors() {
		l.Add(s.Name, s.Role, s.Rows, s.Cols)
	}
	return l
}

func (m layered) Init(params []float32, seed uint64) {
	whole := make([]float32, m.Model.Layout().Size())
	m.Model.Init(whole, seed)
	copy(params, whole[m.tensors()[0].Off:])
}

func (m layered) SpanFLOPs() []float64 { return m.Model.SpanFLOPs()[2*m.lo : 2*m.hi] }

func (m layered) Meetings(samples int) (all []sgd.Meeting) {
	width := m.Model.Layout().Spans[2].Cols
	switch between := make([]float32, samples*width); {
	case m.hi == 1:
		return []sgd.Meeting{{Out: between, In: between}}
	case m.lo == 1:
		return []sgd.Meeting{{In: between}, {Key: 1, Out: between}}
	}
	return nil
}

// Grad meets the ranks of the other layer in the middle: its input comes from there, or its
// output goes there and the output's gradient comes back.
func (m layered) Grad(_ context.Context, p sgd.Pass, b sgd.Batch) (loss float64, err error) {
	l, x := m.Layout(), [][]float32{b.X}
	if m.lo == 1 {
		x[0] = make([]float32, b.N*l.Spans[0].Cols)
		if err := p.Meet(sgd.Meeting{In: x[0]}); err != nil {
			return 0, err
		}
	}
	for i := 0; i < m.hi-m.lo; i++ {
		w, weights, bias, out := l.Spans[2*i], l.View(p.Params, 2*i), l.View(p.Params, 2*i+1), []float32(nil)
		for s := range b.N {
			for o := range w.Rows {
				y := bias[o]
				for k, v := range x[i][s*w.Cols : (s+1)*w.Cols] {
					y += float32(weights[o*w.Cols+k] * v)
				}
				if m.lo+i == 0 {
					y = max(y, 0)
				}
				out = append(out, y)
			}
		}
		x = append(x, out)
	}
	d := make([]float32, len(x[len(x)-1]))
	if m.hi == 1 {
		err = p.Meet(sgd.Meeting{Out: x[1], In: d})
	} else {
		loss = crossEntropy(x[len(x)-1], d, b)
	}
	for i := m.hi - m.lo - 1; i >= 0 && err == nil; i-- {
		w, weights, dw, db := l.Spans[2*i], l.View(p.Params, 2*i), l.View(p.Grad, 2*i), l.View(p.Grad, 2*i+1)
		clear(dw)
		clear(db)
		dx := make([]float32, b.N*w.Cols)
		for s := range b.N {
			for o := range w.Rows {
				dy := d[s*w.Rows+o]
				if m.lo+i == 0 && x[i+1][s*w.Rows+o] <= 0 {
					dy = 0
				}
				db[o] += dy
				for k := range w.Cols {
					dw[o*w.Cols+k] += float32(dy * x[i][s*w.Cols+k])
					dx[s*w.Cols+k] += float32(dy * weights[o*w.Cols+k])
				}
			}
		}
		d = dx
	}
	if m.lo == 1 && err == nil {
		err = p.Meet(sgd.Meeting{Key: 1, Out: d})
	}
	return loss, err
}

// crossEntropy is the mean over a batch, with its gradient.
func crossEntropy(scores, d []float32, b sgd.Batch) (loss float64) {
	classes := len(scores) / b.N
	for s, y := range b.Y {
		of, sum := scores[s*classes:(s+1)*classes], 0.0
		for _, v := range of {
			sum += math.Exp(float64(v - of[y]))
		}
		loss += float64(math.Log(sum) / float64(b.N))
		for c, v := range of {
			d[s*classes+c] = float32(math.Exp(float64(v-of[y])) / sum / float64(b.N))
		}
		d[s*classes+int(y)] -= 1 / float32(b.N)
	}
	return loss
}

// onBetween carries activations from the first stage to the second, and their gradients back.
var onBetween = message.Say("test: between stages", comm.Gradient, message.ReadCount)

// staged is a perceptron cut in two: half of the workers have the first layer and half the
// second, each half in a mode of its own.
type staged struct{ among train.Mode }

func (staged) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: max(1, j.Workers/2), Sums: true, Timeless: true, Weightless: true, Codec: train.TakesAll, Heeds: []string{"topology"}}
}

func (m staged) Check(j *train.Job) error { _, err := m.Part(train.NewRank(j, 0)); return err }

func (m staged) Part(r *train.Rank) (train.Part, error) {
	n := r.Job().Workers / 2
	stage, other := r.ID()/n, (r.ID()+n)%(2*n)
	s := train.Sub{Firsts: []int{0, n}, Model: layered{r.Job().Model.(layered).Model, stage, stage + 1}, Mode: m.among}
	for i := range n {
		s.Ranks = append(s.Ranks, stage*n+i)
	}
	s.Meet = func(ctx context.Context, at int, m sgd.Meeting) error {
		if m.Out != nil {
			b := comm.NewBuffer(4 * len(m.Out))
			f32.AppendBytes(b.B[:0], m.Out)
			if err := onBetween.Carry(ctx, r, other, message.Count{N: at}, 0, b); err != nil {
				return err
			}
		}
		if m.In == nil {
			return nil
		}
		f, err := onBetween.Recv(ctx, r, other)
		if err != nil {
			return err
		}
		defer f.Release()
		if len(f.Body) != 4*len(m.In) {
			return fmt.Errorf("%d bytes from rank %d, want %d", len(f.Body), other, 4*len(m.In))
		}
		f32.FromBytes(m.In, f.Body)
		return nil
	}
	return s.Of(r)
}

func (staged) Parts(j *train.Job) [][]wire.Cut {
	return wire.Cuts(j.Model.Layout(), halfAndHalf{}, 2)
}

// halfAndHalf places the first half of the tensors in one place, and the others in another.
type halfAndHalf struct{}

func (halfAndHalf) Place(tensors []ps.Tensor, n int) [][]ps.Piece {
	out := make([][]ps.Piece, n)
	for i, t := range tensors {
		out[n*i/len(tensors)] = append(out[n*i/len(tensors)], ps.Piece{Tensor: i, Len: t.Len})
	}
	return out
}

// perceptron is a job on the whole model, of so many workers; inTwo cuts it between twice as many.
func perceptron(t *testing.T, workers int) option {
	return func(j *train.Job) {
		j.Model = layered{model(t, "mlp(hidden=[24])", j.Data.Train.Sample().Shape), 0, 2}
		j.Mode, j.Workers, j.Updates, j.EvalEvery = mean.Reduce{}, workers, 25, 10
	}
}

func inTwo(j *train.Job) { j.Mode, j.Workers = staged{j.Mode}, 2*j.Workers }

// sameEval says whether evaluations are of the same update and come to the same.
func sameEval(a, b record.Eval) bool {
	return a.Step == b.Step && a.Samples == b.Samples && a.Last == b.Last && a.Averaged == b.Averaged && maps.Equal(a.Values, b.Values)
}

// A perceptron cut in two, whose stages send each other activations and their gradients and
// average by themselves, is the whole one with as many replicas: in its bits, its evaluations
// and its losses, on all nets. Three replicas add up in one order where a topology does not
// cut the vector, or payloads are gathered.
func TestTwoStagesAreTheWholeModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas int
		opts     []option
	}{
		"one":        {1, nil},
		"two":        {2, nil},
		"three":      {3, []option{topology("tree")}},
		"adam":       {2, []option{optimizer("adam")}},
		"sparse":     {2, []option{with("feedback(topk(keep=0.1))")}},
		"low rank":   {2, []option{with("feedback(powersgd(rank=2))")}},
		"stochastic": {3, []option{with("qsgd")}},
		"gathered":   {3, []option{mode("gather")}},
		"local":      {2, []option{mode("localsgd(h=3)")}},
		"micro":      {2, []option{micros(3)}},
		"average":    {2, []option{func(j *train.Job) { j.EMA = 0.9 }}},
		"one thread": {2, []option{func(j *train.Job) { j.Threads = runtime.NumCPU() }}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := append([]option{perceptron(t, c.replicas)}, c.opts...)
			want, told := runOn(t, simulated(0), job(t, opts...), nil)
			opts = append(opts, inTwo)
			for on, net := range map[string]comm.Net{"sim": simulated(0), "local": &local.Net{}, "grpc": processes{t, opts}} {
				got, s := runOn(t, net, job(t, opts...), nil)
				if got.SHA256 != want.SHA256 {
					t.Errorf("%s: other bits, %g apart", on, distance(got.Params, want.Params))
				}
				if !slices.EqualFunc(s.evals, told.evals, sameEval) {
					t.Errorf("%s: evaluations %+v, want %+v", on, s.evals, told.evals)
				}
				if n := len(got.Reports); n != 2*c.replicas {
					t.Errorf("%s: %d ranks report", on, n)
				}
				for _, r := range got.Reports {
					if r.Steps != 25 || r.Traffic.SentBytes[comm.Gradient] == 0 {
						t.Errorf("%s: rank %d made %d steps and sent %d bytes", on, r.Rank, r.Steps, r.Traffic.SentBytes[comm.Gradient])
					}
				}
			}
		})
	}
}

// What stages keep of the run at a mark is what the whole model does, and who goes on from there
// ends with the bits, the time and the bytes of one that did not stop.
func TestStagesGoOn(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"sparse": {with("feedback(topk(keep=0.1))"), optimizer("adam")},
		"local":  {mode("localsgd(h=3)"), outer("nesterov")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := append([]option{perceptron(t, 2), func(j *train.Job) { j.CheckpointEvery, j.EMA = 9, 0.9 }}, opts...)
			cut := append(slices.Clone(opts), inTwo)
			whole, a := runOn(t, simulated(0), job(t, opts...), nil)
			stages, b := runOn(t, simulated(0), job(t, cut...), nil)
			at := slices.Min(slices.Collect(maps.Keys(a.states)))
			for v, kept := range a.states[at].Vectors {
				if !strings.ContainsAny(v, "0123") && !slices.Equal(kept, b.states[at].Vectors[v]) {
					t.Errorf("at %d stages keep another %s", at, v)
				}
			}
			clock := time.Duration(b.states[at].Ints["nanoseconds"])
			for on, net := range map[string]comm.Net{"sim": simulated(clock), "local": &local.Net{}, "grpc": processes{t, cut}} {
				r, _ := runOn(t, net, job(t, cut...), b.states[at])
				if r.SHA256 != whole.SHA256 {
					t.Errorf("%s: resumed at %d it ends with other bits", on, at)
				}
				up := uint64(b.states[at].Ints["bytes_up"]) + r.Final.BytesUp
				if on == "sim" && (r.Final.Seconds != stages.Final.Seconds || up != stages.Final.BytesUp) {
					t.Errorf("resumed it takes %v s and %d bytes, want %v s and %d", r.Final.Seconds, up, stages.Final.Seconds, stages.Final.BytesUp)
				}
			}
		})
	}
}

// A stop is taken behind the same step by all stages, and resumed the run ends with the bits of
// one that was not stopped.
func TestStagesStopTogether(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{"steps": {}, "marks": {func(j *train.Job) { j.CheckpointEvery = 4 }}, "rounds": {mode("localsgd(h=3)")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := append([]option{perceptron(t, 2)}, opts...)
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			for on, net := range map[string]func() comm.Net{"sim": func() comm.Net { return simulated(0) }, "local": func() comm.Net { return &local.Net{} }} {
				asked := atomic.Int32{}
				stop := func(j *train.Job) { j.Stopping = func() bool { return asked.Add(1) > 3 } }
				_, s := runOn(t, net(), job(t, append(slices.Clone(opts), inTwo, stop)...), nil)
				if s.last == nil || s.last.Ints["version"] == 0 || s.last.Ints["version"] >= 25 {
					t.Fatalf("%s: it does not stop: %v", on, s.last)
				}
				r, _ := runOn(t, net(), job(t, append(slices.Clone(opts), inTwo)...), s.last)
				if r.SHA256 != whole.SHA256 {
					t.Errorf("%s: stopped at %d and resumed it ends with other bits", on, s.last.Ints["version"])
				}
			}
		})
	}
}

// A target that is reached ends all stages.
func TestStagesReachATarget(t *testing.T) {
	t.Parallel()
	opts := []option{perceptron(t, 2), func(j *train.Job) { j.EvalEvery, j.Until.Value = 2, 0.5 }}
	want, _ := runOn(t, simulated(0), job(t, opts...), nil)
	for name, net := range map[string]comm.Net{"sim": simulated(0), "local": &local.Net{}} {
		got, _ := runOn(t, net, job(t, append(slices.Clone(opts), inTwo)...), nil)
		if !want.Reached || !got.Reached || got.Final.Step != want.Final.Step || got.SHA256 != want.SHA256 {
			t.Errorf("%s: it reaches its target %v at %d, want %v at %d", name, got.Reached, got.Final.Step, want.Reached, want.Final.Step)
		}
	}
}

// Without weights stages send as much, in the same virtual time.
func TestStagesWithoutWeights(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"raw":   {},
		"micro": {micros(3)},
		"qsgd":  {with("qsgd")},
	} {
		opts := append([]option{perceptron(t, 2), inTwo, func(j *train.Job) { j.EvalEvery = 0 }}, opts...)
		with, _ := runOn(t, simulated(0), job(t, opts...), nil)
		without, _ := runOn(t, simulated(0), job(t, append(opts, weightless(nil))...), nil)
		if a, b := with.Final, without.Final; a.Seconds != b.Seconds || a.BytesUp != b.BytesUp || a.BytesDown != b.BytesDown || a.BytesUp == 0 {
			t.Errorf("%s: %v s and %d bytes, with weights %v s and %d", name, b.Seconds, b.BytesUp, a.Seconds, a.BytesUp)
		}
	}
}

// In plain loops a perceptron is that of package nn.
func TestPlainPerceptron(t *testing.T) {
	t.Parallel()
	whole := job(t, perceptron(t, 2))
	plain, _ := runOn(t, simulated(0), whole, nil)
	of, _ := runOn(t, simulated(0), job(t, perceptron(t, 2), func(j *train.Job) { j.Model = whole.Model.(layered).Model }), nil)
	if d := distance(plain.Params, of.Params); d > 1e-5 {
		t.Errorf("%g apart", d)
	}
}

// A pass that fails, or a rank that dies, ends the run on both sides.
func TestStagesEndTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults string
		opts   []option
		want   string
	}{
		"the first dies":  {"kill(w0,at=2ms)", nil, "rank 0 is gone"},
		"the second dies": {"kill(w3,at=2ms)", nil, "rank 3 is gone"},
		"no number":       {"", []option{rate("constant(lr=1e38)")}, "part 1 of the model: worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(t, append([]option{perceptron(t, 2), inTwo}, c.opts...)...)
			var net comm.Net = simulated(0)
			if c.faults != "" {
				net = faultyWith(t, j, c.faults)
			}
			programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
			if err != nil {
				t.Fatal(err)
			}
			if err = net.Run(t.Context(), programs); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ends with %v, want %q", err, c.want)
			}
		})
	}
}

// A job within a run refuses what it could not keep to.
func TestSubRefuses(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]option{
		"elastic=none":       func(j *train.Job) { j.Elastic = true },
		"overlap=none":       func(j *train.Job) { j.Overlap = train.Buckets{} },
		"no servers":         func(j *train.Job) { j.Mode = staged{train.Server{}} },
		"use reduce, gather": func(j *train.Job) { mode("dpsgd")(j); graph("ring")(j); j.Mode = staged{j.Mode} },
	} {
		if err := unchecked(perceptron(t, 2), inTwo, o).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it is refused with %v, want %q", err, want)
		}
	}
	j := job(t, perceptron(t, 2))
	s := train.Sub{Ranks: []int{0}, Firsts: []int{0, 1}, Model: j.Model, Mode: mean.Reduce{}}
	if _, err := s.Of(train.NewRank(j, 1)); err == nil || !strings.Contains(err.Error(), "rank 1 is to be one of the ranks [0]") {
		t.Errorf("of another rank: %v", err)
	}
}
