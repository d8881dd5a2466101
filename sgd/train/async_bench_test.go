package train_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// BenchmarkAsync256 is 256 workers without a barrier on the virtual cluster, with
// real gradients of 3.3 million parameters, from the beginning to the last update;
// an op is an update. What a cluster of real machines would compute as well is
// told apart, in ms a gradient: the gradients themselves, the updates, and what
// codecs do. The rest of the time of all cores, as a share of that of the
// gradients, is "overhead-%": the virtual cluster itself, copies of parameters,
// and cores that are idle. With -cpu 1,2 ms/gradient should halve.
//
//	go test -run '^$' -bench Async256 -benchtime 256x -cpu 1,2 ./sgd/train
func BenchmarkAsync256(b *testing.B) {
	for _, c := range []struct {
		name string
		opts []option
	}{
		{"raw", nil},
		{"4shards", []option{func(j *train.Job) { j.Servers = 4 }}},
		{"qsgd", []option{func(j *train.Job) { j.Codec = compress.Families.MustParse("qsgd") }}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var t times
			j := job(b, append(c.opts, policy("asp"), func(j *train.Job) {
				j.Workers, j.Batch, j.Threads, j.Updates = 256, 64, 1, b.N
				data := newConstant(mnist, j.Batch)
				j.Data = sgd.Dataset{Train: data, Test: data}
				j.Model = timedModel{model(b, "mnistcnn(dropout=0)", mnist), &t}
				if _, raw := j.Codec.(compress.Raw); !raw {
					j.Codec = timedFamily{j.Codec, &t}
				}
			})...)
			update := updateTime(j)
			b.ResetTimer()
			t.until(b, j)
			t.report(b, time.Duration(b.N)*update)
		})
	}
}

// times is what computing took, by all goroutines.
type times struct {
	wall            time.Duration
	gradients       atomic.Int64 // their number
	gradient, codec atomic.Int64 // nanoseconds
}

// until runs a job until its last update begins, and leaves the gradients under
// way, which nobody waits for.
func (t *times) until(b *testing.B, j *train.Job) {
	ctx, cancel := context.WithCancelCause(b.Context())
	began := time.Now()
	j.Optimizer = ending{j.Optimizer, j.Updates - 1, func() {
		if ctx.Err() == nil {
			t.wall = time.Since(began)
		}
		cancel(errOver)
	}}
	programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
	if err == nil {
		err = new(sim.Net).Run(ctx, programs)
	}
	if !errors.Is(err, errOver) {
		b.Fatal(err)
	}
}

var errOver = errors.New("all that is measured has happened")

// ending tells when a step begins.
type ending struct {
	sgd.Optimizer
	step int
	told func()
}

func (e ending) New(l sgd.Layout) (sgd.Transform, error) {
	t, err := e.Optimizer.New(l)
	return endingTransform{t.(sgd.Local), e}, err
}

type endingTransform struct {
	sgd.Local
	ending
}

func (e endingTransform) ApplyRange(u, params []float32, r sgd.Range, s sgd.Step) {
	if s.N == e.step {
		e.told()
	}
	e.Local.ApplyRange(u, params, r, s)
}

// during adds the time until the function it returns is called.
func during(total *atomic.Int64) func() {
	began := time.Now()
	return func() { total.Add(int64(time.Since(began))) }
}

// updateTime is what one core takes for an update, in the median.
func updateTime(j *train.Job) time.Duration {
	rule, err := j.Optimizer.New(j.Model.Layout())
	if err != nil {
		panic(err)
	}
	n := j.Model.Layout().Size()
	params, u := make([]float32, n), make([]float32, n)
	var took []float64
	for range 15 {
		began := time.Now()
		sgd.Advance(rule, u, params, sgd.Step{LR: 0.1})
		took = append(took, float64(time.Since(began)))
	}
	return time.Duration(median(took))
}

func (t *times) report(b *testing.B, updates time.Duration) {
	n := 1e6 * float64(t.gradients.Load())
	all := float64(t.wall) * float64(runtime.GOMAXPROCS(0))
	gradient, update, codec := float64(t.gradient.Load()), float64(updates), float64(t.codec.Load())
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(t.wall)/n, "ms/gradient")
	b.ReportMetric(gradient/n, "gradient-ms")
	b.ReportMetric(update/n, "update-ms")
	b.ReportMetric(codec/n, "codec-ms")
	b.ReportMetric(100*(all-gradient-update-codec)/gradient, "overhead-%")
}

// timedModel and timedFamily time what they wrap.
type timedModel struct {
	sgd.Model
	t *times
}

func (m timedModel) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	m.t.gradients.Add(1)
	defer during(&m.t.gradient)()
	return m.Model.Grad(ctx, p, b)
}

type timedFamily struct {
	compress.Family
	t *times
}

func (f timedFamily) New(b compress.Block) (compress.Codec, error) {
	c, err := f.Family.New(b)
	return timedCodec{c, f.t}, err
}

type timedCodec struct {
	compress.Codec
	t *times
}

func (c timedCodec) Append(dst []byte, g []float32, s compress.Step) ([]byte, error) {
	defer during(&c.t.codec)()
	return c.Codec.Append(dst, g, s)
}

func (c timedCodec) AddTo(dst []float32, scale float32, p []byte, from compress.From) error {
	defer during(&c.t.codec)()
	return c.Codec.AddTo(dst, scale, p, from)
}
