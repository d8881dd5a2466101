package train_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// BenchmarkAsync256 is 256 workers without a barrier on the virtual cluster, with
// real gradients of 3.3 million parameters; an op is an update. What a cluster of real
// machines would compute as well is told apart, in ms of processor time a gradient: the
// gradients themselves, the updates, and what codecs do. The rest of the process's
// processor time, as a share of that of the gradients, is "overhead-%": the virtual
// cluster itself, copies of parameters, and garbage. What other programs take does not
// count. On an idle machine "cores" says how many were kept busy.
//
// Until every worker has pushed once, each update makes a version more, in memory that
// nobody has touched. That time is told apart, as "first-%".
//
//	go test -run '^$' -bench Async256 -benchtime 512x -cpu 1,2 ./sgd/train
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
			t.report(b, update)
		})
	}
}

// times is what computing takes, by all goroutines.
type times struct {
	gradients       atomic.Int64 // their number
	gradient, codec atomic.Int64 // nanoseconds of processors
	marks           []reading    // at the beginning, once all workers have pushed, at the end
}

// reading is what has been taken up to an instant.
type reading struct {
	update                     int
	at                         time.Time
	all                        time.Duration // of processors
	gradients, gradient, codec float64
}

// mark takes a reading before an update.
func (t *times) mark(update int) {
	t.marks = append(t.marks, reading{update, time.Now(), processor(unix.CLOCK_PROCESS_CPUTIME_ID),
		float64(t.gradients.Load()), float64(t.gradient.Load()), float64(t.codec.Load())})
}

// processor is what a clock of processor time shows.
func processor(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// until runs a job until its last update begins, and leaves the gradients under
// way, which nobody waits for.
func (t *times) until(b *testing.B, j *train.Job) {
	ctx, cancel := context.WithCancelCause(b.Context())
	t.mark(0)
	next := min(j.Workers, j.Updates/2)
	j.Optimizer = ending{j.Optimizer, func(update int) {
		if update < next || ctx.Err() != nil {
			return
		}
		t.mark(update)
		if next = j.Updates - 1; update == next {
			cancel(errOver)
		}
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

// ending tells when an update begins.
type ending struct {
	sgd.Optimizer
	told func(update int)
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
	e.told(s.N)
	e.Local.ApplyRange(u, params, r, s)
}

// during adds the processor time that the goroutine takes until it calls the function
// returned.
func during(total *atomic.Int64) func() {
	runtime.LockOSThread()
	began := processor(unix.CLOCK_THREAD_CPUTIME_ID)
	return func() {
		total.Add(int64(processor(unix.CLOCK_THREAD_CPUTIME_ID) - began))
		runtime.UnlockOSThread()
	}
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
		var spent atomic.Int64
		done := during(&spent)
		sgd.Advance(rule, u, params, sgd.Step{LR: 0.1})
		done()
		took = append(took, float64(spent.Load()))
	}
	return time.Duration(median(took))
}

func (t *times) report(b *testing.B, update time.Duration) {
	begin, full, end := t.marks[0], t.marks[1], t.marks[len(t.marks)-1]
	over := func(from, to reading) (percent float64) {
		updates := float64(update) * float64(to.update-from.update)
		gradient := to.gradient - from.gradient
		return 100 * (float64(to.all-from.all) - gradient - updates - (to.codec - from.codec)) / gradient
	}
	n, wall := 1e6*(end.gradients-full.gradients), float64(end.at.Sub(full.at))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(wall/n, "ms/gradient")
	b.ReportMetric((end.gradient-full.gradient)/n, "gradient-ms")
	b.ReportMetric(float64(update)/1e6, "update-ms")
	b.ReportMetric((end.codec-full.codec)/n, "codec-ms")
	b.ReportMetric(float64(end.all-full.all)/wall, "cores")
	b.ReportMetric(over(begin, full), "first-%")
	b.ReportMetric(over(full, end), "overhead-%")
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
