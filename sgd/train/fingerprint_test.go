package train_test

import (
	"context"
	"encoding/binary"
	"hash"
	"io"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// witness is a virtual cluster that hashes all frames in the order in which they are sent.
type witness struct {
	comm.Net
	n   int
	sum hash.Hash
}

func (w *witness) Run(ctx context.Context, programs []comm.Program) error {
	seen := slices.Clone(programs)
	for rank, p := range programs {
		seen[rank] = w.on(p)
	}
	return w.Net.Run(ctx, seen)
}

func (w *witness) on(p comm.Program) comm.Program {
	return func(ctx context.Context, h comm.Host) error { return p(ctx, witnessed{h.(comm.Elastic), w}) }
}

// witnessed is a rank whose frames are hashed. One rank of a virtual cluster runs at a time.
type witnessed struct {
	comm.Elastic
	w *witness
}

func (h witnessed) Go(name string, p comm.Program) { h.Elastic.Go(name, h.w.on(p)) }

func (h witnessed) Send(ctx context.Context, to int, f comm.Frame) error {
	x := f.Header
	x.From, x.To = int32(h.Rank()), int32(to)
	channel, index := message.Name(x.Tag) // its number depends on which packages make channels before
	x.Tag = comm.Tag(index)
	_, _ = io.WriteString(h.w.sum, channel)
	_ = binary.Write(h.w.sum, binary.LittleEndian, x)
	_ = binary.Write(h.w.sum, binary.LittleEndian, []int64{int64(h.Now()), int64(f.Billed), int64(len(f.Body))})
	_, _ = h.w.sum.Write(f.Body)
	h.w.n++
	return h.Elastic.Send(ctx, to, f)
}

// keeping gives a job the codecs with the most state that its mode takes. Their payloads have
// the same size whatever the gradients are.
func keeping(j *train.Job) {
	of := map[train.Takes]string{
		train.TakesPlain: "raw", train.TakesCasts: "bf16",
		train.TakesForgetful: "topk(keep=0.3,index=raw32)", train.TakesAll: "feedback(topk(keep=0.3,index=raw32))",
	}
	t := j.Mode.Traits(j)
	j.Codec, j.DownCodec = compress.Families.MustParse(of[t.Codec]), compress.Families.MustParse(of[t.Down])
}

// fingerprints visits what goldens leave out: every mode with every policy as an elastic run that
// a worker leaves and comes back to, without weights, and resumed from a checkpoint. What the engine
// does not run is refused, with its reason: the pair, or a way of a pair that runs otherwise.
func fingerprints(t *testing.T, judge func(*testing.T, []option, func(*testing.T, []option) (run, []string)), refuse func(string, error)) {
	marked := func(j *train.Job) { j.CheckpointEvery = 3 }
	elastic := func(j *train.Job) {
		j.Elastic, j.Leaves, j.Joins = true, []train.Departure{{Worker: 1, Step: 8}}, []train.Joining{{Worker: 1, Step: 16}}
	}
	impossible := map[string]bool{}
	combined(map[string][]option{
		" itself":    {}, // the first
		"overlap":    {lapped},
		"elastic":    {keeping, marked, elastic},
		"resumed":    {keeping, marked},
		"weightless": {keeping, func(j *train.Job) { j.Weightless, j.EvalEvery = true, 0 }},
	}, func(pair, way string, opts []option, refused error) {
		switch {
		case impossible[pair]:
		case way == " itself":
			if impossible[pair] = refused != nil; refused != nil {
				refuse(pair, refused)
			}
		case refused != nil:
			refuse(pair+"/"+way, refused)
		case way == "resumed":
			t.Run(pair+"/"+way, func(t *testing.T) { judge(t, opts, resumed) })
		case way != "overlap": // which goldens visit
			t.Run(pair+"/"+way, func(t *testing.T) { judge(t, opts, recorded) })
		}
	})
}
