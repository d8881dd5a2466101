package train

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train/message"
)

var errInexact = errors.New("the size of its payloads depends on the data, or on the rank, which a run without weights cannot know; take one of fixed size, such as topk(index=raw32)")

// checkWeightless refuses what needs weights.
func (j *Job) checkWeightless() error {
	switch {
	case !j.Weightless:
		return nil
	case j.Sizes == nil && j.CheckpointEvery > 0:
		return errors.New("checkpoint_every: a run without weights has no state to keep; set it to 0")
	case j.Sizes == nil && j.EvalEvery > 0:
		return errors.New("eval_every: a run without weights learns nothing; set it to 0")
	case j.traits().Weightless:
		return nil
	}
	var names []string
	for _, name := range Modes.Names() {
		if m, err := Modes.Parse(name); err == nil && m.Traits(j).Weightless {
			names = append(names, name)
		}
	}
	return fmt.Errorf("mode %s computes with its parameters; without weights there are modes %s", Modes.Spec(j.Mode), strings.Join(names, ", "))
}

// ask is one operation that the exchange of a block asks for, by its size.
type ask struct {
	kind   compress.OpKind
	wire   compress.Wire
	n      int   // elements of a sum or maximum, bytes of a payload for everybody
	slices []int // bytes for each rank
}

// need is what the exchange of a block asks for in a step.
type need struct {
	ops      []ask // in every step and on every rank
	noted    bool  // in place of ops Job.Sizes has them
	gathered bool  // a payload that everybody decodes: the block has no other road
}

// asks lists, by piece, what the exchanges of a shard ask for in a step.
func (j *Job) asks() (out []need, err error) {
	gather := j.traits().Gathers
	for _, pc := range j.exchanged().pieces {
		b := pc.block
		b.World, b.Peer, b.Seed = j.Workers, -1, j.Seed
		f := j.Codec
		if pc.raw {
			f = compress.Raw{}
		}
		a, err := j.asksOf(f, b, gather)
		if err != nil {
			return nil, fmt.Errorf("codec %s on %s: %w", compress.Spec(f), b.Name, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// asksOf finds out by exchanging a gradient with nobody. Payloads that are
// gathered have the size their codec claims.
func (j *Job) asksOf(f compress.Family, b compress.Block, gather bool) (need, error) {
	if !gather && sumsPlain(f) {
		return need{ops: []ask{{kind: compress.OpSum, n: b.Len()}}}, nil
	}
	var ex compress.Exchange
	road := compress.RoadGather
	if !gather {
		var err error
		if ex, road, err = compress.NewExchange(f, b); err != nil {
			return need{}, err
		}
	}
	claims, _ := compress.ClaimsOf(f, b)
	a := need{gathered: road == compress.RoadGather}
	switch {
	case !known(f, b, road):
		if a.noted = j.Sizes != nil; !a.noted {
			return a, errInexact
		}
		return a, nil
	case a.gathered:
		a.ops = []ask{{kind: compress.OpGather, n: claims.Size}}
		return a, nil
	}
	g := make([]float32, b.Len())
	k := rng.New(b.Seed, "weightless")
	for i := range g {
		g[i] = k.Float32(uint64(i)) - 0.5
	}
	op, err := ex.Begin(g, compress.Step{Seed: b.Seed})
	for ; err == nil && op.Kind != compress.OpNone; op, err = ex.Next(op) {
		switch op.Kind {
		case compress.OpSum, compress.OpMax:
			a.ops = append(a.ops, ask{kind: op.Kind, wire: op.Wire, n: len(op.Floats)})
		case compress.OpGather:
			a.ops = append(a.ops, ask{kind: op.Kind, n: len(op.Bytes) + lengthOf(len(op.Bytes))})
			op.Parts = nil
			for range b.World {
				op.Parts = append(op.Parts, op.Bytes)
			}
		default:
			return a, errors.New("a run without weights knows sums and gathers only")
		}
	}
	return a, err
}

// known says whether the exchange of a block asks for the same in every step,
// whatever the data and the rank.
func known(f compress.Family, b compress.Block, road compress.Road) bool {
	claims, ok := compress.ClaimsOf(f, b)
	if road == compress.RoadOwn { // what it asks for counts, and on all ranks alike
		return ok && (claims.Exact || claims.Rounds > 0) && !claims.AskedBound
	}
	return ok && claims.Exact
}

// sizes is the content of a run without weights: frames of the right sizes, the like
// operations of a round fused as they are with gradients.
type sizes struct {
	*reducer
	asks  []need   // by piece
	noted []cursor // by piece, where they are
}

func newSizes(r *reducer) (*sizes, error) {
	all, err := r.job.cores.asks()
	s := &sizes{r, all, make([]cursor, len(all))}
	for i, a := range all {
		r.gathered[i] = a.gathered
		if a.noted {
			s.noted[i].s = r.job.Sizes.of(fmt.Sprintf("%d/%s", r.rank, r.shard.pieces[i].block.Name))
		}
	}
	return s, err
}

func (*sizes) begin(int) error { return nil }

// next is what the exchange of piece i asks for in a round.
func (s *sizes) next(i, round int) (ask, error) {
	switch ops := s.asks[i].ops; {
	case s.asks[i].noted:
		return s.noted[i].op(s.job.Workers)
	case round < len(ops):
		return ops[round], nil
	}
	return ask{}, nil
}

func (s *sizes) perform(ctx context.Context, b *bucket, flags message.Flags) (_ message.Flags, err error) {
	now := make([]ask, b.hi-b.lo)
	for round := 0; ; round++ {
		busy := false
		for i := range now {
			if round > 0 && now[i].kind == compress.OpNone { // its exchange is over
				continue
			}
			if now[i], err = s.next(b.lo+i, round); err != nil {
				return flags, err
			}
			busy = busy || now[i].kind != compress.OpNone
		}
		if !busy {
			return flags, nil
		}
		if flags, err = s.sum(ctx, b, now, compress.OpMax, compress.F32, flags); err != nil {
			return flags, err
		}
		for wire := range formats {
			if flags, err = s.sum(ctx, b, now, compress.OpSum, compress.Wire(wire), flags); err != nil {
				return flags, err
			}
		}
		if flags, err = s.spread(ctx, b, now, flags); err != nil {
			return flags, err
		}
	}
}

// sum rehearses reducer.sums.
func (s *sizes) sum(ctx context.Context, b *bucket, now []ask, kind compress.OpKind, wire compress.Wire, flags message.Flags) (message.Flags, error) {
	var n []int // elements, of every tensor where they are fused
	for _, a := range now {
		switch {
		case a.kind != kind || a.wire != wire:
		case s.job.fuses() || n == nil:
			n = append(n, a.n)
		default:
			n[0] += a.n
		}
	}
	return collective.RehearseAll(ctx, s.net, s.group, s.job.Topology, s.header(b, flags), n, formats[wire].Width())
}

// spread rehearses reducer.gathers and scatters.
func (s *sizes) spread(ctx context.Context, b *bucket, now []ask, flags message.Flags) (_ message.Flags, err error) {
	size, gathers, to := 0, false, []int(nil)
	for _, a := range now {
		switch a.kind {
		case compress.OpGather:
			gathers = true
			size += a.n
		case compress.OpScatter:
			to = append(to, make([]int, len(a.slices)-len(to))...)
			for rank, n := range a.slices {
				to[rank] += n
			}
		}
	}
	if gathers {
		if flags, err = collective.RehearseGather(ctx, s.net, s.group, s.header(b, flags), size); err != nil {
			return flags, err
		}
	}
	if to != nil {
		flags, err = collective.RehearseAllToAll(ctx, s.h, s.group, s.header(b, flags), to)
	}
	return flags, err
}

// all passes n marks.
func all(n int, at func(int) error) error {
	for i := range n {
		if err := at(i); err != nil {
			return err
		}
	}
	return nil
}
