package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// amending is a shard's side of a corrector that changes gradients: they are
// decoded one by one, amended, and only then added up. Buffers are kept from it:
// their "gradient" is a difference of statistics, and how far they moved tells
// nothing of the loss.
type amending struct {
	name    string // spec text of the corrector
	amender staleness.Amender
	ahead   staleness.Ahead // nil: workers get the parameters
	trained []sgd.Range
	packed  [3][]float32 // what is trained of gradient, parameters and those that were sent; nil if that is all
	grad    []float32
	front   wire.Vector // what is ahead of the present parameters; empty: not made yet
}

// newAmending returns nil for correctors that only scale, and for those that
// work elsewhere.
func newAmending(j *Job, l sgd.Layout, atWorker bool) (*amending, error) {
	traits := j.corrector()
	if !traits.Amends || traits.AtWorker != atWorker {
		return nil, nil
	}
	c, ok := j.Corrector.(staleness.Amending)
	switch {
	case !ok:
		return nil, fmt.Errorf("corrector %s claims Amends and does not implement staleness.Amending", staleness.Correctors.Spec(j.Corrector))
	case j.synchronous():
		return nil, fmt.Errorf("corrector %s amends late gradients, and with policy %s none is late; use none", staleness.Correctors.Spec(c), staleness.Policies.Spec(j.Policy))
	case traits.Momentum && hasMomentum(j, l):
		return nil, fmt.Errorf("corrector %s brings its own momentum, and optimizer %s has one too; use optimizer=sgd", staleness.Correctors.Spec(c), sgd.Optimizers.Spec(j.Optimizer))
	case traits.Compares && !wire.IsCast(j.DownCodec):
		return nil, fmt.Errorf("corrector %s compares with the parameters a worker was sent: down_codec must be raw, fp16, bf16 or another cast", staleness.Correctors.Spec(c))
	case atWorker && j.Plan().Beside:
		return nil, fmt.Errorf("corrector %s works on whole gradients before they are encoded; use overlap=none", staleness.Correctors.Spec(c))
	}
	trained, buffers := compute.ByRole(l)
	a := &amending{name: staleness.Correctors.Spec(c), amender: c.Amender(l.Trainable(), j.Workers), trained: trained}
	if traits.Ahead {
		if a.ahead, ok = a.amender.(staleness.Ahead); !ok {
			return nil, fmt.Errorf("corrector %s claims Ahead, and its Amender does not implement staleness.Ahead", a.name)
		}
	}
	if len(buffers) > 0 {
		for i := range a.packed {
			a.packed[i] = make([]float32, l.Trainable())
		}
	}
	return a, nil
}

// hasMomentum says whether the optimizer has a momentum on any of the model's tensors,
// of which a shard has the layout l: it claims one, or shows one. A second one makes
// parameters diverge, so the optimizer's word is not enough.
func hasMomentum(j *Job, l sgd.Layout) bool {
	if j.Model != nil {
		l = j.Model.Layout()
	}
	return sgd.HasMomentum(j.Optimizer) || sgd.ShowsMomentum(j.Optimizer, l)
}

// amend changes g in place.
func (a *amending) amend(g, now, sent []float32, p staleness.Past) {
	if a.packed[0] == nil {
		a.amender.Amend(g, now, sent, p)
		return
	}
	then := a.pack(1, now)
	if &sent[0] != &now[0] {
		then = a.pack(2, sent)
	}
	a.amender.Amend(a.pack(0, g), a.packed[1], then, p)
	a.unpack(g, a.packed[0])
}

// lookAhead writes what workers are to compute on to dst.
func (a *amending) lookAhead(dst, now []float32, rate float64) {
	if a.packed[0] == nil {
		a.ahead.Ahead(dst, now, rate)
		return
	}
	a.ahead.Ahead(a.packed[0], a.pack(1, now), rate)
	copy(dst, now)
	a.unpack(dst, a.packed[0])
}

// pack copies what is trained of v to the i-th of the packed vectors.
func (a *amending) pack(i int, v []float32) []float32 {
	to := a.packed[i]
	for _, r := range a.trained {
		to = to[copy(to, v[r.Lo:r.Hi]):]
	}
	return a.packed[i]
}

// unpack copies it back.
func (a *amending) unpack(v, packed []float32) {
	for _, r := range a.trained {
		packed = packed[copy(v[r.Lo:r.Hi], packed):]
	}
}

// addAmended is store.Add for gradients that are amended first.
func (st *store) addAmended(f comm.Frame, weight float64, past staleness.Past, from compress.From) error {
	a := st.amend
	if a.grad == nil {
		a.grad = make([]float32, len(st.params.F()))
	}
	if err := st.in[from.Rank].Set(st.in[from.Rank].Shard.Whole, a.grad, false, 1, f.Body, from); err != nil {
		return err
	}
	past.Rate = st.rate
	now := st.params.F()
	a.amend(a.grad, now, st.sent.of(f.Header.Version, now), past)
	if st.sum.F() == nil {
		st.sum = wire.NewVector(len(now))
		clear(st.sum.F())
	}
	f32.Axpy(st.sum.F(), float32(weight), a.grad)
	return nil
}

// outgoing is what workers are sent now: the parameters, or what is ahead of
// them.
func (st *store) outgoing() wire.Vector {
	if st.amend == nil || st.amend.ahead == nil {
		return st.params
	}
	a := st.amend
	if a.front.F() == nil {
		a.front = wire.NewVector(len(st.params.F()))
		a.lookAhead(a.front.F(), st.params.F(), st.rate/float64(st.job.policy().PerUpdate))
	}
	return a.front
}

// distance is the root mean square of what the trainable parameters moved since
// a version was sent.
func (st *store) distance(version uint64) float64 {
	now, sum, n := st.params.F(), 0.0, 0
	then := st.sent.of(version, now)
	var block [2048]float32
	for _, r := range st.trainable {
		for lo := r.Lo; lo < r.Hi; lo += len(block) {
			hi := min(lo+len(block), r.Hi)
			d := block[:copy(block[:], now[lo:hi])]
			f32.Sub(d, then[lo:hi])
			sum += f32.SumSq(d)
		}
		n += r.Hi - r.Lo
	}
	return math.Sqrt(sum / float64(max(1, n)))
}

// moved forgets what was ahead of the parameters before an update.
func (st *store) moved() {
	if st.amend != nil {
		st.amend.front.Release()
	}
}

// sentCopies keeps the parameters that gradients may still come from, by
// version. nil keeps none.
type sentCopies struct {
	at map[uint64]wire.Vector
	by [][2]uint64 // versions each worker was last sent, the latest first
}

func newSentCopies(j *Job, initial wire.Vector) (*sentCopies, error) {
	if !j.Gap && !j.corrector().Compares {
		return nil, nil
	}
	if !wire.IsCast(j.DownCodec) {
		return nil, errors.New("gap compares with the parameters a worker was sent: down_codec must be raw, fp16, bf16 or another cast")
	}
	return &sentCopies{map[uint64]wire.Vector{0: initial.Share()}, make([][2]uint64, j.Workers)}, nil
}

// sent notes that a worker was sent params at a version.
func (c *sentCopies) sent(worker int, version uint64, params wire.Vector) {
	if c == nil {
		return
	}
	if by := &c.by[worker]; by[0] != version {
		by[0], by[1] = version, by[0]
	}
	if _, ok := c.at[version]; !ok {
		c.at[version] = params.Share()
	}
}

// of is what was sent at a version; now, if that is not known any more.
func (c *sentCopies) of(version uint64, now []float32) []float32 {
	if c != nil {
		if v, ok := c.at[version]; ok {
			return v.F()
		}
	}
	return now
}

// forget drops what no gradient can come from any more: held says whether one is
// held that does.
func (c *sentCopies) forget(held func(version uint64) bool) {
	if c == nil {
		return
	}
	for version, v := range c.at {
		used := slices.ContainsFunc(c.by, func(by [2]uint64) bool { return by[0] == version || by[1] == version })
		if !used && !held(version) {
			v.Release()
			delete(c.at, version)
		}
	}
}

// keep keeps the amender's state, and at a server what held pushes were computed
// on.
func (a *amending) keep(k *checkpoint.Keeper, prefix string) {
	if a == nil {
		return
	}
	missing := fmt.Sprintf("corrector %s kept other state when it was written, from which this one cannot go on; run from the beginning, or go on with the program that wrote it", a.name)
	for name, v := range a.amender.State() {
		k.Values(prefix+name, v, missing)
	}
}

// keep keeps what held pushes were computed on; held says whether one is held that
// was computed on a version.
func (c *sentCopies) keep(k *checkpoint.Keeper, prefix string, size int, held func(version uint64) bool) {
	switch {
	case c == nil:
	case k.Loads():
		k.Fail(c.load(k.Of, prefix, size))
	default:
		for version, v := range c.at {
			if held(version) {
				k.Values(fmt.Sprint(prefix, version), v.F(), "")
			}
		}
	}
}

func (c *sentCopies) load(st *checkpoint.State, prefix string, size int) error {
	for version, v := range c.at {
		v.Release()
		delete(c.at, version)
	}
	for name, b := range st.Bytes {
		text, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		var version uint64
		if _, err := fmt.Sscan(text, &version); err != nil || len(b) != 4*size {
			return fmt.Errorf("the checkpoint's %q has %d bytes, want %d", name, len(b), 4*size)
		}
		v := wire.NewVector(size)
		f32.FromBytes(v.F(), b)
		c.at[version] = v
	}
	return nil
}
