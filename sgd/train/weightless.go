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

// checkWeightless refuses what needs weights.
func (j *Job) checkWeightless() error {
	switch {
	case !j.Weightless:
		return nil
	case j.CheckpointEvery > 0:
		return errors.New("checkpoint_every: a run without weights has no state to keep; set it to 0")
	case j.EvalEvery > 0:
		return errors.New("eval_every: a run without weights learns nothing; set it to 0")
	}
	if j.traits().Weightless {
		return nil
	}
	return fmt.Errorf("mode %s computes with its parameters; without weights there are modes %s", Modes.Spec(j.Mode), strings.Join(j.hollowModes(), ", "))
}

// hollowModes are the modes that run without weights, as they are by default.
func (j *Job) hollowModes() (names []string) {
	for _, name := range Modes.Names() {
		if m, err := Modes.Parse(name); err == nil && m.Traits(j).Weightless {
			names = append(names, name)
		}
	}
	return names
}

// ask is one operation that the exchange of a block asks for, by its size: a sum
// of n elements of width bytes, or a payload of gather bytes for everybody.
type ask struct {
	n, width, gather int
	payload          bool // that everybody decodes: the block has no other road
}

// asks lists, by piece, what the exchanges of a shard ask for in a step.
func (j *Job) asks() (out [][]ask, err error) {
	gather := j.traits().Gathers
	for _, pc := range j.exchanged().pieces {
		b := pc.block
		b.World, b.Peer, b.Seed = j.Workers, -1, j.Seed
		f := j.Codec
		if pc.raw {
			f = compress.Raw{}
		}
		a, err := asksOf(f, b, gather)
		if err != nil {
			return nil, fmt.Errorf("codec %s on %s: %w", compress.Spec(f), b.Name, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// asksOf finds out by exchanging a gradient with nobody. Payloads that are
// gathered have the size their codec claims.
func asksOf(f compress.Family, b compress.Block, gather bool) ([]ask, error) {
	if !gather && sumsPlain(f) {
		return []ask{{n: b.Len(), width: 4}}, nil
	}
	var ex compress.Exchange
	road := compress.RoadGather
	if !gather {
		var err error
		if ex, road, err = compress.NewExchange(f, b); err != nil {
			return nil, err
		}
	}
	claims, _ := compress.ClaimsOf(f, b)
	switch {
	case !known(f, b, road):
		return nil, errors.New("how many bytes it sends depends on the data or on the rank, which a run without weights cannot know; take one of fixed size, such as topk(index=raw32)")
	case road == compress.RoadGather:
		return []ask{{gather: claims.Size, payload: true}}, nil
	}
	g := make([]float32, b.Len())
	k := rng.New(b.Seed, "weightless")
	for i := range g {
		g[i] = k.Float32(uint64(i)) - 0.5
	}
	var out []ask
	op, err := ex.Begin(g, compress.Step{Seed: b.Seed})
	for ; err == nil && op.Kind != compress.OpNone; op, err = ex.Next(op) {
		switch op.Kind {
		case compress.OpSum, compress.OpMax:
			out = append(out, ask{n: len(op.Floats), width: formats[op.Wire].Width()})
		case compress.OpGather:
			out = append(out, ask{gather: len(op.Bytes)})
			op.Parts = nil
			for range b.World {
				op.Parts = append(op.Parts, op.Bytes)
			}
		default:
			return nil, errors.New("a run without weights knows sums and gathers only")
		}
	}
	return out, err
}

// sizes is the content of a run without weights: frames of the right sizes, the like
// operations of a round fused as they are with gradients.
type sizes struct{ *reducer }

func (sizes) begin(int) error { return nil }

func (r sizes) perform(ctx context.Context, b *bucket, flags message.Flags) (message.Flags, error) {
	for round, busy := 0, true; busy; round++ {
		busy = false
		sizes, gather := [5][]int{}, 0 // elements by width, of every tensor where they are fused
		for _, asks := range r.asks[b.lo:b.hi] {
			if round < len(asks) {
				if w := &sizes[asks[round].width]; r.job.fuses() || len(*w) == 0 {
					*w = append(*w, asks[round].n)
				} else {
					(*w)[0] += asks[round].n
				}
				gather += asks[round].gather
				busy = true
			}
		}
		var err error
		for width, sizes := range sizes {
			if width == 0 || len(sizes) == 0 {
				continue
			}
			if flags, err = collective.RehearseAll(ctx, r.net, r.group, r.job.Topology, r.header(b, flags), sizes, width); err != nil {
				return flags, err
			}
		}
		if gather == 0 {
			continue
		}
		if flags, err = collective.RehearseGather(ctx, r.net, r.group, r.header(b, flags), gather); err != nil {
			return flags, err
		}
	}
	return flags, nil
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
