package train_test

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

func sides(text string) option {
	return func(j *train.Job) { j.Sides = lrschedule.Sides.MustParse(text) }
}

// pictures are clusters of square pictures, whose smaller forms are their corners.
type pictures struct{ clusters }

func (pictures) Scales() bool { return true }

func (p pictures) Batch(d sgd.Draw, b *sgd.Batch) error {
	if err := p.clusters.Batch(d, b); err != nil || d.Side == 0 {
		b.Side = 0
		return err
	}
	n, m, planes := p.shape.H, d.Side, d.N*p.shape.C
	for i := range planes {
		for y := range m {
			copy(b.X[(i*m+y)*m:(i*m+y+1)*m], b.X[(i*n+y)*n:(i*n+y)*n+m])
		}
	}
	b.X, b.Side = b.X[:planes*m*m], m
	return nil
}

// grid is a job on a small convolutional net with a mean over the grid.
func grid(t testing.TB) option {
	return func(j *train.Job) {
		shape := sgd.Shape{C: 1, H: 12, W: 12}
		j.Model = model(t, "resnet20", shape)
		j.Data = sgd.Dataset{Name: "pictures", Train: pictures{clusters{128, shape, 3, false}}, Test: pictures{clusters{20, shape, 3, true}}}
		j.Updates, j.Workers, j.Batch, j.Timing.FLOPS = 12, 2, 8, 1e9
	}
}

const growingSides = "progressive(from=6,to=12,begin=0,end=1,multiple=1)" // 128 samples are 8 steps of 2 workers with 8

// Every step draws at its side, the same for all workers and micro-batches; evaluations
// are at the set's. Records tell the side, and sim and local end with the same bits.
func TestSides(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"ring": {mode("reduce")}, "server, micro": {micros(2)}, "gossip": {mode("dpsgd"), graph("ring")}, "late": {policy("asp")},
		"batch": {mode("reduce"), growing("stages(times=[1,2],at=[1])")},
	} {
		t.Run(name, func(t *testing.T) {
			draws, mu := map[sgd.Draw]bool{}, &sync.Mutex{}
			opts := append([]option{grid(t), sides("stages(sides=[6,12,8],at=[0.5,1])")}, opts...)
			note := func(j *train.Job) { j.Data.Train = seenPictures{seen{j.Data.Train, mu, draws}} }
			ends := 8
			if name == "late" { // an update is a step of one worker
				ends = 12
			}
			s := &journal{}
			o := observeOn(t, simulated(0), job(t, append(slices.Clone(opts), note)...), nil, s)
			mu.Lock()
			defer mu.Unlock()
			for d := range draws {
				want := 6
				if step := d.First / 16; step >= 8 {
					want = 8
				} else if step >= 4 {
					want = 0
				}
				if d.Side != want {
					t.Errorf("samples from %d on are of side %d, want %d", d.First, d.Side, want)
				}
			}
			if last := s.progress[len(s.progress)-1]; last.Side != ends || s.progress[0].Side != 6 {
				t.Errorf("the first update is told to be of side %d, the last of %d", s.progress[0].Side, last.Side)
			}
			if name == "late" {
				return
			}
			if l, _ := runOn(t, &local.Net{}, job(t, opts...), nil); l.SHA256 != o.SHA256 {
				t.Error("sim and local differ in their bits")
			}
		})
	}
}

type seenPictures struct{ seen }

func (seenPictures) Scales() bool { return true }

// Runs go on from any checkpoint, before and behind a change of the side.
func TestSidesResume(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	resumes(t, 3, grid(t), mode("reduce"), sides(growingSides), func(j *train.Job) { j.CheckpointEvery = 3 })
}

// The virtual clock bills the operations of each side, with weights and without, and
// reading in proportion to the bytes.
func TestSidesTakeTheirTime(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	steps := func(opts ...option) []float64 {
		opts = append([]option{grid(t), mode("reduce"), func(j *train.Job) { j.Workers, j.Timing.Law, j.Updates = 1, nil, 2 }}, opts...)
		s := &journal{}
		observeOn(t, simulated(0), job(t, opts...), nil, s)
		return []float64{s.progress[0].Seconds, s.progress[1].Seconds - s.progress[0].Seconds}
	}
	reading := func(j *train.Job) { j.Timing.FLOPS, j.Timing.Input = 1e15, 100 }
	half := sides("stages(sides=[6,12],at=[0.06])") // one step of 8 of 128 samples
	flops := func(side int) (sum float64) {
		for _, f := range model(t, "resnet20", sgd.Shape{C: 1, H: side, W: side}).SpanFLOPs() {
			sum += f
		}
		return sum
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6*b }
	for name, c := range map[string]struct {
		opts []option
		want float64
	}{"passes": {nil, flops(6) / flops(12)}, "reading": {[]option{reading}, 0.25}} {
		whole, less := steps(c.opts...), steps(append(c.opts, half)...)
		if ratio := less[0] / whole[0]; !near(ratio, c.want) || !near(less[1], whole[1]) {
			t.Errorf("%s: a step at half the side takes %v of one at the whole, want %v; the next %v of %v", name, ratio, c.want, less[1], whole[1])
		}
	}
	j := job(t, grid(t), half)
	if want := job(t, grid(t)).ForwardFLOPs(); j.ForwardFLOPs() >= want || j.ForwardFLOPs() < 0.9*want {
		t.Errorf("%v operations of %v", j.ForwardFLOPs(), want)
	}
}

// What cannot be shown or computed at another side is refused before the run.
func TestSidesAreRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"no square pictures that can be scaled": {sides("stages(sides=[4],at=[])")},
		"has a fixed side":                      {grid(t), func(j *train.Job) { j.Model = model(t, "mlp", sgd.Shape{C: 1, H: 12, W: 12}) }, sides(growingSides)},
		"above the 12 pixels of data set":       {grid(t), sides("stages(sides=[6,16],at=[3])")},
		"belong to no step":                     append(append([]option{grid(t)}, ofSandblaster(4)...), grid(t), sides(growingSides)),
		"pictures of one side only":             {grid(t), func(j *train.Job) { j.Model = sampled{Model: j.Model} }, sides(growingSides)},
	} {
		if err := unchecked(opts...).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
