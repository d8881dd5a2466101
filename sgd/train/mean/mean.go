package mean

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Mean averages vectors as long as the model over all workers of a run, through the
// run's codec and along its topology. It has one codec for each piece of a tensor, and
// cuts the vector into buckets of pieces that travel together. A rank has one Mean, and all
// workers average the same buckets in the same order.
//
//	x ← (1/W) Σ decode(encode(xᵢ))
//
// In a run without weights vectors are nil, and frames of the same sizes travel.
type Mean struct {
	rank     *train.Rank
	shard    *wire.Shard
	group    collective.Group
	host     comm.Host
	net      comm.Endpoint // host, for collectives
	sched    lrschedule.Schedule
	content  content
	all      bool              // nothing is summed on the way
	gathered []bool            // by piece: everybody decodes everybody's payload
	tariff   *wire.Tariff      // of the exchanges
	counts   map[[2]int][2]int // by bucket: bytes under codecs raw and bf16
	buckets  []bucket          // in the order the backward pass completes them
	ops      []compress.Op     // of all pieces

	// Of means that are made while a backward pass goes on; see plan.
	plan  plan
	x     []float32     // what is averaged
	ask   message.Flags // what this rank asks of all in the present step
	there []bool        // by bucket: its mean is, and was not awaited
	stood time.Duration // in waits for an activity beside
	whole time.Duration // when the last mean of a step was there; read behind its token
}

// Options are how a Mean is made.
type Options struct {
	// Gather sends every payload to every worker, also where the codec has a road on
	// which payloads are summed.
	Gather bool
	// Bytes is about how many bytes of the vector one bucket has: whole pieces of
	// tensors, of 4 bytes a value. 0: there is one bucket of everything.
	Bytes int
}

// bucket is a run of pieces that are exchanged together.
type bucket struct {
	lo, hi int           // pieces [lo, hi)
	index  int           // of its collectives
	step   int           // of the exchange
	ops    []compress.Op // of these pieces
	fused  []float32
}

// errNoTopology is of a job whose mode does not heed key topology, or that was made by hand.
var errNoTopology = errors.New("mean: sums go along a topology, and the job has none")

// New makes the Mean of a rank. Buckets are numbered from the last layers on, in the
// order in which a backward pass makes them. The error says for which tensor there is no
// codec, or that the job has no topology to sum along.
func New(r *train.Rank, o Options) (*Mean, error) {
	if o.Bytes < 0 {
		return nil, fmt.Errorf("mean: buckets of %d bytes, want 0 or more", o.Bytes)
	}
	return newMean(r, o.Gather, together{o.Bytes})
}

func newMean(r *train.Rank, gather bool, p plan) (*Mean, error) {
	j := r.Job()
	m := &Mean{rank: r, plan: p, shard: wire.Shards(j.Model.Layout(), j.Cuts())[0], all: gather, counts: map[[2]int][2]int{}}
	m.group.Me, m.group.Node = r.ID(), j.Node
	for i := 0; i < j.Workers; i++ {
		m.group.Ranks = append(m.group.Ranks, i)
	}
	m.gathered = make([]bool, len(m.shard.Pieces))
	m.cut(p.traits().bytes)
	var err error
	if m.sched, err = j.Rates(); err != nil {
		return nil, err
	}
	plain := !gather && wire.SumsPlain(j.Codec)
	switch {
	case j.Weightless:
		m.content, err = newSizes(m)
	case plain:
		m.content = rawSums{}
	default:
		m.content, err = newCoded(m)
	}
	switch {
	case err != nil:
	case j.Topology == nil && j.Workers > 1 && slices.Contains(m.gathered, false):
		err = errNoTopology
	default:
		m.tariff = j.ExchangeTariff(m.shard, m.gathered, plain)
	}
	return m, err
}

// cut makes the buckets: one of everything, or runs of pieces of about limit bytes from the
// last layer on.
func (m *Mean) cut(limit int) {
	if limit == 0 {
		limit = math.MaxInt
	}
	m.ops = make([]compress.Op, len(m.shard.Pieces))
	hi, bytes := len(m.ops), 0
	for i := hi - 1; i >= 0; i-- {
		if bytes += 4 * m.shard.Pieces[i].Len; bytes >= limit || i == 0 {
			m.buckets = append(m.buckets, bucket{lo: i, hi: hi, index: len(m.buckets), ops: m.ops[i:hi]})
			hi, bytes = i, 0
		}
	}
	m.there = make([]bool, len(m.buckets))
}

// Buckets is how many buckets there are, at least 1.
func (m *Mean) Buckets() int { return len(m.buckets) }

// Range is where bucket k lies in a vector.
func (m *Mean) Range(k int) sgd.Range {
	b := &m.buckets[k]
	last := &m.shard.Pieces[b.hi-1]
	return sgd.Range{Lo: m.shard.Pieces[b.lo].Off, Hi: last.Off + last.Len}
}

// Average makes of bucket k of x, which is as long as the model, its mean over all
// workers; it waits for them. The rest of x stays as it is. It stands for the exchanges of
// so many steps of the run, at least 1, with which its bytes are compared. What the
// workers ask of each other is or-ed together; a mode that asks for nothing gives 0.
// The error is of a codec, with tensor and step, or of the net, or says which argument is
// wrong.
func (m *Mean) Average(ctx context.Context, k int, x []float32, steps int, ask message.Flags) (message.Flags, error) {
	switch size := m.job().Model.Layout().Size(); {
	case k < 0 || k >= len(m.buckets):
		return 0, fmt.Errorf("mean: bucket %d of %d", k, len(m.buckets))
	case len(x) != size && !m.job().Weightless:
		return 0, fmt.Errorf("mean: a vector of %d values, and the model has %d", len(x), size)
	case steps < 1:
		return 0, fmt.Errorf("mean: an exchange that stands for %d steps, want at least 1", steps)
	}
	b := &m.buckets[k]
	if err := m.rank.Times().Encoding(ctx, m.tariff.Encode(b.lo, b.hi)); err != nil {
		return 0, err
	}
	if err := m.content.begin(m, b, x); err != nil {
		return 0, err
	}
	return m.exchange(ctx, b, x, m.rank.Step(), steps, ask)
}

// raw makes of v, which has n values, its mean over all workers, past the codec and beside
// the ledger's comparison.
func (m *Mean) raw(ctx context.Context, v []float32, n int) error {
	j, b := m.job(), &m.buckets[0]
	if j.Topology == nil && j.Workers > 1 {
		return errNoTopology
	}
	if j.Weightless {
		_, err := collective.Rehearse(ctx, m.endpoint(), m.group, j.Topology, m.header(b, 0), n, 4)
		return err
	}
	if _, err := m.sum(ctx, b, wire.Formats[compress.F32], v, 0); err != nil {
		return err
	}
	f32.Scale(v, 1/float32(j.Workers))
	return nil
}

// Keep keeps the states of this rank's codecs, as a mode's Keep does.
func (m *Mean) Keep(k *checkpoint.Keeper) { m.content.keep(m, k) }

// job is the job of the run.
func (m *Mean) job() *train.Job { return m.rank.Job() }

// start starts what goes on beside the passes, which make x again and again.
func (m *Mean) start(x []float32) {
	m.x = x
	m.endpoint() // no activity beside makes it
	m.plan.start(m)
}

// open begins a step, in which this rank asks so much of all.
func (m *Mean) open(ctx context.Context, ask message.Flags) error {
	m.ask = ask
	return m.plan.open(ctx, m)
}

// encode encodes bucket k, which is there.
func (m *Mean) encode(k int) error { return m.content.begin(m, &m.buckets[k], m.x) }

// await waits until the mean of bucket k is there, once a step, and says what was heard
// meanwhile.
func (m *Mean) await(ctx context.Context, k int) (flags message.Flags, err error) {
	for !m.there[k] {
		seen, err := m.plan.wait(ctx, m)
		if err != nil {
			return flags, err
		}
		flags |= seen
	}
	m.there[k] = false
	return flags, nil
}

// awaitAll waits for the means of all buckets of a step.
func (m *Mean) awaitAll(ctx context.Context) (flags message.Flags, err error) {
	for k := range m.buckets {
		seen, err := m.await(ctx, k)
		if err != nil {
			return 0, err
		}
		flags |= seen
	}
	return flags, nil
}

// close lets what goes on beside the passes end.
func (m *Mean) close(ctx context.Context) error {
	if !m.plan.traits().beside {
		return nil
	}
	return onMade.Wake(ctx, m.rank, bucketWord{}, train.FlagDone)
}

// pieceError says of which rank, step and piece an error is.
func (m *Mean) pieceError(i, step int, err error) error {
	return fmt.Errorf("worker %d, step %d, %s: %w", m.rank.ID(), step, m.shard.Pieces[i].Block.Name, err)
}
