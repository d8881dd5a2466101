// Package coding knows how long encoding and decoding take: it measures codecs on
// a core of this machine, reads tables of what was measured on others, and prices
// their uses for the virtual clock, at the speed that a device is said to have.
package coding

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// Sizes are the numbers of elements at which codecs are measured: squares, so that
// a matrix of that size is as high as it is wide.
var Sizes = []int{1 << 6, 1 << 10, 1 << 14, 1 << 18, 1 << 22}

const (
	enough = 4 * time.Millisecond   // of measuring one size, if that is several blocks
	most   = 60 * time.Millisecond  // behind which no further block begins
	slow   = 150 * time.Millisecond // a size at which one use would take longer is not measured
	cycle  = 8                      // uses in a block: codecs may do more in some steps than in others
)

// values are normal, as many as the largest size and some, so that every step can
// take others.
type values []float32

func newValues(n int) values {
	v := make(values, n+1024)
	k := rng.New(1, "coding")
	for i := range v {
		v[i] = float32(k.Norm(uint64(i)))
	}
	return v
}

func (v values) of(step, rank, n int) []float32 {
	off := (step*64 + rank*16) % (len(v) - n)
	return v[off : off+n : off+n]
}

// use does a codec's work once and says how long its two parts took.
type use func(step int) (encode, decode time.Duration, err error)

// block is a block of n elements, of a kind.
func block(kind string, n, world int) compress.Block {
	role, shape, ok := strings.Cut(kind, " ")
	if !ok {
		role, shape = "weight", kind
	}
	b := compress.Block{Name: "measured", Role: role, Rows: 1, Cols: n, World: world, Peer: -1, Seed: 1}
	if shape == "matrix" {
		b.Rows = int(math.Sqrt(float64(n)))
		b.Cols = n / b.Rows
	}
	return b
}

// far is a step behind every warm-up.
func far(n int) compress.Step {
	return compress.Step{N: n, Epoch: 1e6, LR: 0.1, Seed: 1}
}

// payloads makes payloads and takes them up.
func payloads(f compress.Family, b compress.Block, v values) (use, error) {
	c, err := f.New(b)
	if err != nil {
		return nil, err
	}
	r, err := compress.NewReceiver(f, b)
	if err != nil {
		return nil, err
	}
	add := c.AddTo
	if r != nil {
		add = r.Receive
	}
	sum := make([]float32, b.Len())
	var p []byte
	return func(step int) (encode, decode time.Duration, err error) {
		g := v.of(step, 0, b.Len())
		start := look()
		if p, err = c.Append(p[:0], g, far(step)); err != nil {
			return 0, 0, err
		}
		encode = start.passed()
		start = look()
		err = add(sum, 1, p, compress.From{Step: step})
		return encode, start.passed(), err
	}, nil
}

// exchanges takes all ranks through exchanges and times the first of them, in steps
// in which it is the one that leads, if there is one. collects says whether it has
// decoded what each rank sent, so that more ranks take it longer.
func exchanges(f compress.Family, b compress.Block, v values, collects *bool) (use, error) {
	ranks := make([]compress.Exchange, b.World)
	for r := range ranks {
		b.Rank = r
		var err error
		if ranks[r], _, err = compress.NewExchange(f, b); err != nil {
			return nil, err
		}
	}
	ops := make([]compress.Op, len(ranks))
	sum := make([]float32, b.Len())
	return func(n int) (encode, decode time.Duration, err error) {
		step := far(n * len(ranks))
		for r, x := range ranks {
			g := v.of(n, r, b.Len())
			start := look()
			if ops[r], err = x.Begin(g, step); err != nil {
				return 0, 0, err
			}
			if r == 0 {
				encode = start.passed()
			}
		}
		for ops[0].Kind != compress.OpNone {
			if err := perform(ops); err != nil {
				return 0, 0, err
			}
			*collects = *collects || ops[0].Parts != nil
			for r, x := range ranks {
				start := look()
				if ops[r], err = x.Next(ops[r]); err != nil {
					return 0, 0, err
				}
				if r == 0 {
					decode += start.passed()
				}
			}
		}
		for r, x := range ranks {
			start := look()
			if err := x.Output(sum, 1); err != nil {
				return 0, 0, err
			}
			if r == 0 {
				decode += start.passed()
			}
		}
		return encode, decode, nil
	}, nil
}

// perform does what all ranks ask for.
func perform(ops []compress.Op) error {
	for r := range ops {
		if ops[r].Kind != ops[0].Kind || len(ops[r].Floats) != len(ops[0].Floats) {
			return fmt.Errorf("ranks ask for different things")
		}
	}
	first := &ops[0]
	switch first.Kind {
	case compress.OpSum, compress.OpMax:
		for _, o := range ops[1:] {
			if first.Kind == compress.OpSum {
				f32.Add(first.Floats, o.Floats)
				continue
			}
			for i, x := range o.Floats {
				first.Floats[i] = max(first.Floats[i], x)
			}
		}
		for _, o := range ops[1:] {
			copy(o.Floats, first.Floats)
		}
	default:
		for r := range ops {
			ops[r].Parts = nil
			for from := range ops {
				part := ops[from].Bytes
				if first.Kind == compress.OpScatter {
					part = ops[from].Slices[r]
				}
				ops[r].Parts = append(ops[r].Parts, part)
			}
		}
	}
	return nil
}

// watch is an instant of this thread.
type watch struct {
	at    time.Time
	cpu   time.Duration
	taken int64
}

func look() (w watch) {
	w.cpu, w.taken = spent()
	w.at = time.Now()
	return w
}

// passed is the time since: of the clock, or that of the processor if others had
// the core meanwhile.
func (w watch) passed() time.Duration {
	d := time.Since(w.at)
	if cpu, taken := spent(); taken != w.taken {
		return min(d, cpu-w.cpu)
	}
	return d
}

// looking is what two looks at the clock take by themselves.
func looking() time.Duration {
	least := time.Hour
	for range 1000 {
		least = min(least, look().passed())
	}
	return least
}

// timed is what a use takes, undisturbed: the least of blocks of some uses, each
// the mean of its uses. spread is the median of blocks over the least; 0: there is one.
func timed(do use, clock time.Duration, effort int) (encode, decode time.Duration, spread float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	most, enough := time.Duration(effort)*most, time.Duration(effort)*enough
	begin := time.Now()
	e, d, err := do(0) // it makes its buffers
	if err != nil {
		return 0, 0, 0, err
	}
	encode, decode = e, d
	length := cycle
	if time.Since(begin) > most/cycle {
		length = 1
	}
	step := 1
	var all []time.Duration
	for n := 0; n == 0 || time.Since(begin) < most && (n < 3 || time.Since(begin) < enough); n++ {
		var es, ds time.Duration
		for range length {
			if e, d, err = do(step); err != nil {
				return 0, 0, 0, err
			}
			es, ds, step = es+max(0, e-clock), ds+max(0, d-clock), step+1
		}
		es, ds = es/time.Duration(length), ds/time.Duration(length)
		if n == 0 {
			encode, decode = es, ds
		}
		encode, decode = min(encode, es), min(decode, ds)
		all = append(all, es+ds)
	}
	if all = slices.Sorted(slices.Values(all)); len(all) > 1 && all[0] > 0 {
		spread = float64(all[len(all)/2]) / float64(all[0])
	}
	return encode, decode, spread, nil
}

// one measures a codec's payloads on a core of this machine, of a matrix of the size before
// the largest, as a table has them.
func one(f compress.Family) (*hardware.CodecRate, error) {
	n := Sizes[len(Sizes)-2]
	r := &hardware.CodecRate{Codec: compress.Spec(f), Block: "matrix"}
	_, err := point(r, f, n, oneValues(), looking(), 1)
	return r, err
}

// oneValues are the values that one takes.
var oneValues = sync.OnceValue(func() values { return newValues(Sizes[len(Sizes)-2] + 1024) })

// point measures a rate at one further size. Where one use would take too long it
// is taken to be as fast an element as at the size before.
func point(r *hardware.CodecRate, f compress.Family, n int, v values, clock time.Duration, effort int) (collects bool, err error) {
	if last := len(r.Elements) - 1; last >= 0 {
		if ns := (r.Encode[last] + r.Decode[last]) * float64(n); ns > float64(slow.Nanoseconds()) {
			r.Add(n, r.Encode[last], r.Decode[last])
			return false, nil
		}
	}
	var do use
	if b := block(r.Block, n, max(2, r.Ranks)); r.Ranks == 0 {
		do, err = payloads(f, b, v)
	} else {
		do, err = exchanges(f, b, v, &collects)
	}
	if err != nil {
		return false, err
	}
	encode, decode, spread, err := timed(do, clock, effort)
	r.Spread = max(r.Spread, spread)
	r.Add(n, float64(encode.Nanoseconds())/float64(n), float64(decode.Nanoseconds())/float64(n))
	return collects, err
}

// Core measures the speed of a core of this machine, with more effort more often,
// and names its processor.
func Core(effort int) (*hardware.CodecTable, error) {
	t := &hardware.CodecTable{Processor: Processor(), Date: today()}
	const batch = 16
	m, err := nn.Models.MustParse("resnet20").New(sgd.Sample{Shape: sgd.Shape{C: 3, H: 32, W: 32}, Classes: 10})
	if err != nil {
		return nil, err
	}
	b := sgd.Batch{X: newValues(batch * 3 * 32 * 32)[:batch*3*32*32], Y: make([]int32, batch), N: batch}
	flops := 0.0
	for _, x := range m.SpanFLOPs() {
		flops += float64(3 * batch * x)
	}
	p := sgd.Pass{Params: make([]float32, m.Layout().Size()), Grad: make([]float32, m.Layout().Size()), Scratch: m.NewScratch(), Threads: 1}
	m.Init(p.Params, 1)
	from, to := make([]byte, 64<<20), make([]byte, 64<<20)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 6 * effort {
		start := look()
		if _, err := m.Grad(context.Background(), p, b); err != nil {
			return nil, err
		}
		t.FLOPS = max(t.FLOPS, flops/start.passed().Seconds())
		start = look()
		copy(to, from)
		t.Memory = max(t.Memory, float64(2*len(to))/start.passed().Seconds())
	}
	t.Round()
	return t, nil
}

// today is the date, for people.
func today() string { return time.Now().UTC().Format(time.DateOnly) }

// Processor names the processor of this machine.
func Processor() string {
	c := cpuid.CPU
	return fmt.Sprintf("%s (family %d, model %d)", strings.TrimSpace(c.BrandName), c.Family, c.Model)
}
