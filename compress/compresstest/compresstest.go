// Package compresstest is the conformance suite for codecs. It proves what a
// family claims, and what every codec owes without claiming it: no panic on
// hostile bytes, no side effects, the same bytes for the same address.
//
//	func TestMine(t *testing.T) { compresstest.Family(t, Mine{}) }
//
// Codecs enrolled in compress.Families are covered by this package's own tests.
// Checks are plain functions that return errors, so that the suite itself can
// be tested against codecs with planted bugs. All seeds are fixed: a check never
// fails by chance.
package compresstest

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/patience"
)

// Check is one property. Run returns an error that says what a codec did and
// what it owed, or nil if it holds or does not apply.
type Check struct {
	Name string
	Run  func(f compress.Family) error
	law  bool // thousands of trials on one goroutine
	solo bool // counts what all goroutines allocate; no law
}

// Checks lists every property of the suite.
var Checks = []Check{
	{Name: "spec", Run: checkSpec},
	{Name: "size", Run: checkSize},
	{Name: "raw", Run: checkRaw},
	{Name: "shaped", Run: checkShaped},
	{Name: "cast", Run: checkCast},
	{Name: "inner", Run: checkInner},
	{Name: "lossless", Run: checkLossless},
	{Name: "unbiased", Run: checkUnbiased, law: true},
	{Name: "error", Run: checkError, law: true},
	{Name: "worst", Run: checkWorst, law: true},
	{Name: "witness", Run: checkWitness, law: true},
	{Name: "formula", Run: checkFormula, law: true},
	{Name: "claims", Run: checkClaims, law: true},
	{Name: "feedback", Run: checkFeedback},
	{Name: "residual", Run: checkResidual},
	{Name: "determinism", Run: checkDeterminism},
	{Name: "streams", Run: checkStreams},
	{Name: "linear", Run: checkLinear},
	{Name: "homogeneous", Run: checkHomogeneous},
	{Name: "special", Run: checkSpecial},
	{Name: "zero", Run: checkZero},
	{Name: "hostile", Run: checkHostile, solo: true},
	{Name: "pure", Run: checkPure},
	{Name: "concurrent", Run: checkConcurrent},
	{Name: "allocations", Run: checkAllocations, solo: true},
	{Name: "state", Run: checkState},
	{Name: "momentum", Run: checkMomentum},
	{Name: "memory", Run: checkMemory, law: true},
	{Name: "warmup", Run: checkWarmUp},
	{Name: "exchange", Run: checkExchange},
	{Name: "sums", Run: checkSums},
	{Name: "protocol", Run: checkProtocol},
	{Name: "receiver", Run: checkReceiver},
	{Name: "converge", Run: checkConverge, law: true},
}

// Family runs every check on f as a subtest; under the race detector without
// those that measure bias and error. Most run beside each other, so f is used by
// several goroutines; t itself must not be parallel.
func Family[T patience.Tester[T]](t T, f compress.Family) {
	t.Helper()
	soloChecks(t, f)
	otherChecks(t, f)
}

// Families runs every check on every family that is enrolled in compress.Families and is
// not gradlab's own, with its defaults: a module that imports codecs of its own need name
// none of them.
func Families[T patience.Tester[T]](t T) {
	for _, name := range compress.Families.Names() {
		if f, _ := compress.Families.Proto(name); reflect.TypeOf(f).PkgPath() != own {
			ofSeveral(t, name, func(T) compress.Family { return f })
		}
	}
}

// ofSeveral runs the checks of one family of several: what counts the allocations of all
// goroutines at once, the rest beside that of the others.
func ofSeveral[T patience.Tester[T]](t T, name string, family func(t T) compress.Family) {
	t.Run(name, func(t T) {
		f := family(t)
		soloChecks(t, f)
		t.Parallel()
		otherChecks(t, f)
	})
}

// soloChecks runs the checks that nothing else may run beside.
func soloChecks[T patience.Tester[T]](t T, f compress.Family) {
	for _, c := range Checks {
		if c.solo {
			t.Run(c.Name, func(t T) { on(t, c, f) })
		}
	}
}

// otherChecks runs the checks that run beside each other.
func otherChecks[T patience.Tester[T]](t T, f compress.Family) {
	for _, c := range Checks {
		if c.solo {
			continue
		}
		t.Run(c.Name, func(t T) {
			if c.law && raceDetector {
				t.Skip("no goroutines to race")
			}
			t.Parallel()
			on(t, c, f)
		})
	}
}

func on[T patience.Tester[T]](t T, c Check, f compress.Family) {
	if err := c.Run(f); err != nil {
		t.Error(err)
	}
}

// Failures runs every check on f and returns the names of those that fail with
// their errors. A panic counts as a failure.
func Failures(f compress.Family) map[string]error {
	out := map[string]error{}
	for _, c := range Checks {
		if err := guard(func() error { return c.Run(f) }); err != nil {
			out[c.Name] = err
		}
	}
	return out
}

// guard turns a panic into an error.
func guard(fn func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case panicked:
			err = errors.New(string(p))
		default:
			err = errors.New(string(panicAt(p)))
		}
	}()
	return fn()
}

// panicked says how a codec panicked, where, and on which block.
type panicked string

// panicAt is what a deferred function that has recovered p says of it, with the line that
// panicked.
func panicAt(p any) panicked {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			return panicked(fmt.Sprintf("panic at %s:%d: %v", filepath.Base(f.File), f.Line, p))
		}
		if !more {
			return panicked(fmt.Sprintf("panic: %v", p))
		}
	}
}

// names says, deferred, on which block a codec panicked that panics.
func (c *coder) names(call string) {
	switch p := recover().(type) {
	case nil:
	case panicked:
		panic(p)
	default:
		panic(panicAt(p) + panicked(fmt.Sprintf(" (%s, a block of %d×%d, step %d)", call, c.block.Rows, c.block.Cols, c.step)))
	}
}

// Specs lists the codecs the suite, the golden vectors and the benchmarks cover:
// the defaults of every enrolled family, then combinations worth their own row.
func Specs() []string {
	var out []string
	for _, name := range compress.Families.Names() {
		proto, _ := compress.Families.Proto(name)
		out = append(out, compress.Spec(proto))
	}
	return append(out, combinations...)
}

var combinations = []string{
	"bf16(stochastic=true)",
	"fp16(stochastic=true)",
	"topk(keep=0.1,index=varint)",
	"topk(keep=0.2,index=bitmap,values=bf16)",
	"topk(keep=0.05,index=raw32,values=fp16)",
	"topk(keep=0.1,chunk=64)",
	"topk(keep=0.05,index=block,values=bf16,chunk=100)",
	"topk(keep=1)",
	"topk(keep=0.03,sampled=true)",
	"topk(keep=0.1,index=bitmap,values=bf16,sampled=true)",
	"randomk(keep=0.1,scaled=true)",
	"randomk(keep=0.6,scaled=true)",
	"qsgd(bits=2,bucket=64)",
	"qsgd(bits=3,bucket=7)",
	"qsgd(bits=4,norm=l2)",
	"qsgd(bits=8,bucket=0)",
	"sign(scale=none)",
	"uniform(bits=4,range=symmetric,round=stochastic,bucket=64)",
	"uniform(bits=1,round=stochastic,bucket=7)",
	"uniform(bits=3,bucket=0)",
	"terngrad(clip=0,bucket=64)",
	"terngrad(clip=0,bucket=64,shared=true)",
	"intsum(bits=4,round=nearest,bucket=64)",
	"intsum(bits=2,bucket=7)",
	"feedback(intsum(bits=4,bucket=16))",
	"thc(bits=2,grid=8,chunk=64)",
	"feedback(thc)",
	"scatter(uniform(bits=8))",
	"scatter(feedback(topk(keep=0.1)))",
	"feedback(scatter(sign))",
	"feedback(scatter(entropy(topk(keep=0.3))))",
	"accumulate(topk(keep=0.1),every=2)",
	"accumulate(feedback(randomk(keep=0.1)),every=3)",
	"accumulate(feedback(intsum(bits=4,bucket=16)),every=2)",
	"byrole(qsgd(bits=4),bf16,norm=raw)",
	"byrole(sign,raw,norm=fp16)",
	"contraction(qsgd(bits=4,bucket=64))",
	"ef21(sign(scale=none),unchecked=true)",
	"sidco(keep=0.05,first=0.4,tolerance=0.05)",
	"sketch(keep=0.1,rows=3,fetch=1)",
	"thc(clip=0.1)",
	"sparseloco(keep=0.1,chunk=64)",
	"sparseloco(keep=1,chunk=0)",
	"feedback(sparseloco(keep=0.03,chunk=0,index=bitmap),decay=0.95)",
	"dct(uniform(bits=8),side=12)",
	"dct(feedback(sign),side=8)",
	"feedback(dct(topk(keep=0.1,index=block,values=bf16,chunk=64),side=8),decay=0.999)",
	"sidco(keep=0.1,law=pareto,index=varint,values=bf16)",
	"feedback(sidco(keep=0.05,index=bitmap))",
	"sketch(keep=0.02,rows=3,width=4)",
	"feedback(sketch(keep=0.01,rows=3))",
	"cltk(keep=0.1,index=varint,values=bf16,chunk=64)",
	"feedback(cltk(keep=0.2,values=fp16),lowpass=0.9)",
	"ef21(sign)",
	"ef21(powersgd(rank=2))",
	"ef21(entropy(qsgd(bits=4,bucket=64)))",
	"ef21(intsum(bits=4,bucket=16))",
	"bysize(ef21(topk(keep=0.1)),bf16,limit=64)",
	"eden(bits=1,scale=mse,chunk=1024)",
	"eden(bits=2,scale=norm)",
	"eden(bits=3,chunk=64)",
	"eden(bits=4,scale=mse)",
	"entropy(terngrad(clip=0,bucket=64),coder=fse)",
	"entropy(intsum(bits=4,bucket=16))",
	"entropy(qsgd(bits=2,bucket=0),coder=zstd)",
	"entropy(feedback(topk(keep=0.1,index=bitmap)),coder=s2)",
	"feedback(entropy(sign))",
	"threshold(tau=0.5,index=varint,values=bf16)",
	"threshold(tau=2,index=bitmap)",
	"strom(tau=1,index=raw32)",
	"feedback(threshold(tau=1))",
	"powersgd(rank=1,gain=1)",
	"scatter(powersgd(rank=1,gain=1))",
	"accumulate(powersgd(rank=1),every=2)",
	"dct(uniform(bits=8),side=1)",
	"dct(raw,side=1)",
	"feedback(powersgd(rank=2))",
	"dgc(keep=0.05,momentum=0,warmup=0,values=bf16)",
	"dgc(keep=0.1,clip=2,index=varint)",
	"dgc(keep=0.03,momentum=0,warmup=3,unit=steps,stages=2,sampled=true)",
	"threelc(s=1.75)",
	"feedback(threelc(s=1.5))",
	"float8(format=e5m2,bucket=64)",
	"float8(format=dynamic,bucket=0)",
	"adacomp(bin=7,index=bitmap)",
	"feedback(randomk(keep=0.1))",
	"feedback(sign,decay=0.9)",
	"feedback(raw)",
	"feedback(bf16)",
	"feedback(qsgd(bits=4,bucket=0,norm=l2),unchecked=true)",
	"bysize(feedback(onebit),bf16,limit=64)",
}

// lengths are where off-by-one errors live: empty, single, around bytes, words,
// buckets, pages and 16-bit indices.
var lengths = []int{0, 1, 2, 7, 8, 63, 64, 65, 511, 512, 513, 4097, 65537}

// block is rank 0's of three, as square as d elements can be: codecs that see
// matrices meet one.
func block(d int) compress.Block {
	rows := max(1, int(math.Sqrt(float64(d))))
	for d%rows != 0 {
		rows--
	}
	return compress.Block{Name: "layer.weight", Rows: rows, Cols: d / rows, World: 3, Peer: -1, Seed: 2026}
}

func (c *coder) String() string { return fmt.Sprintf("%d elements, step %d", c.block.Len(), c.step) }

// coder is a codec with a step count and a buffer.
type coder struct {
	compress.Codec
	block   compress.Block
	step    int
	payload []byte
	out     []float32
}

func newCoder(f compress.Family, b compress.Block) (*coder, error) {
	c, err := f.New(b)
	if err != nil {
		return nil, fmt.Errorf("New on %d elements: %w", b.Len(), err)
	}
	return &coder{Codec: c, block: b, out: make([]float32, b.Len())}, nil
}

// encode makes the payload of the next step.
func (c *coder) encode(g []float32) error {
	defer c.names("Append")
	var err error
	c.payload, err = c.Append(c.payload[:0], g, compress.Step{N: c.step, Seed: c.block.Seed})
	if err != nil {
		return fmt.Errorf("Append (%v): %w", c, err)
	}
	c.step++
	return nil
}

// decode fills out with what the last payload stands for.
func (c *coder) decode() error {
	defer c.names("AddTo")
	clear(c.out)
	err := c.AddTo(c.out, 1, c.payload, compress.From{Rank: c.block.Rank, Step: c.step - 1})
	if err != nil {
		return fmt.Errorf("AddTo of its own payload (%v): %w", c, err)
	}
	return nil
}

// code encodes and decodes.
func (c *coder) code(g []float32) error {
	if err := c.encode(g); err != nil {
		return err
	}
	return c.decode()
}

// equal compares bits.
func equal(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// distance2 is ‖a−b‖² and norm2 ‖a‖².
func distance2(a, b []float32) float64 {
	s := 0.0
	for i := range a {
		e := float64(a[i]) - float64(b[i])
		s += e * e
	}
	return s
}

func norm2(a []float32) float64 {
	s := 0.0
	for _, v := range a {
		s += float64(v) * float64(v)
	}
	return s
}
