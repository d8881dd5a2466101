package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// shardEnd is what every server has: its shard, and its ends of what travels.
type shardEnd struct {
	*Rank
	id     int // of the shard
	shard  *wire.Shard
	down   *downlink
	tariff *wire.Tariff // of decoding pushes
}

func newShardEnd(r *Rank, all []*wire.Shard) (shardEnd, error) {
	id := r.rank - r.job.Workers
	s := shardEnd{Rank: r, id: id, shard: all[id], tariff: r.job.tariff(all[id], false, true)}
	var err error
	s.down, err = newDownlink(r.job, id, s.shard)
	return s, err
}

// bytes counts what workers sent up and were sent down, by this shard.
func (s *shardEnd) bytes() (up, down uint64) {
	c := s.h.Traffic().Count()
	return c.RecvBytes[comm.Gradient], c.SentBytes[comm.Parameters]
}

// tally keeps them, and what codecs raw and bf16 would have sent.
func (s *shardEnd) tally(k *checkpoint.Keeper) {
	if !k.Loads() {
		up, down := s.bytes()
		Tally(k.Of, s.rank, s.h, up, down)
	}
}

// parameters sends a worker part after part of parameters behind hd.
func (s *shardEnd) parameters(ctx context.Context, hd comm.Header, worker int, out wire.Vector, version int, send func(context.Context, int, comm.Frame) error) error {
	for k := range s.shard.Parts {
		part := hd
		if k < len(s.shard.Parts)-1 {
			part.Flags |= flagMore
		}
		if err := s.times.Encoding(ctx, s.down.encoding(worker, k)); err != nil {
			return err
		}
		began := s.times.Start()
		f, err := s.down.frame(part, worker, k, out, version)
		s.times.Encoded(began)
		if err != nil {
			return fmt.Errorf("parameters for worker %d: %w", worker, err)
		}
		plainly(s.h, s.shard.Parts[k])
		if err := send(ctx, worker, f); err != nil {
			return err
		}
	}
	return nil
}

// ShardServer is a server's side of one shard, for modes whose servers decide by
// themselves what becomes of a push; Serve is for those that go by the job's policy. It
// has the shard's parameters and the servers' ends of codec and down_codec. Who has it
// hears Next: pushes on OnPush, pulls on OnPull, on OnBye who sends no more, and on OnEnter
// who has come, to be welcomed.
//
// Vectors of a shard are packed: what of each tensor lies on the shard, one behind the
// other.
type ShardServer struct {
	shardEnd
	x  wire.Vector    // parameters; frames on their way to workers may share it
	in []*wire.Packer // by worker
}

// NewShardServer makes the server of a rank, which must be one.
func NewShardServer(r *Rank) (*ShardServer, error) {
	to, err := newShardEnd(r, r.job.shards())
	if err != nil {
		return nil, err
	}
	if n := len(to.shard.Parts); n > 1 {
		return nil, fmt.Errorf("server %d gets its shard in %d parts, and decodes whole pushes: refuse overlap in the Traits of mode %s", to.id, n, Modes.Spec(r.job.Mode))
	}
	s := &ShardServer{shardEnd: to, x: wire.NewVector(to.shard.Size())}
	to.shard.Gather(s.x.F(), r.job.initial())
	for w := range r.job.Workers {
		in, err := r.job.Content().NewPacker(to.shard, r.job.Codec, r.job.sender(nil, w))
		if err != nil {
			return nil, err
		}
		s.in = append(s.in, in)
	}
	return s, nil
}

// Shard is the number of the shard.
func (s *ShardServer) Shard() int { return s.id }

// Size is the number of values on the shard.
func (s *ShardServer) Size() int { return s.shard.Size() }

// X is the shard's parameters, to be read only.
func (s *ShardServer) X() []float32 { return s.x.F() }

// Write is the shard's parameters, to be changed before anybody is sent more of them.
func (s *ShardServer) Write() []float32 {
	s.x.Own()
	s.down.changed()
	return s.x.F()
}

// Bytes are those that workers sent the shard and were sent by it so far.
func (s *ShardServer) Bytes() (up, down uint64) { return s.bytes() }

// Arrived lets the time pass in which a push is decoded and added up, be it Added or
// not, and counts its bytes.
func (s *ShardServer) Arrived(ctx context.Context, push comm.Frame) error {
	if err := s.times.Decoding(ctx, s.job.serving(s.tariff, 0, len(s.shard.Pieces), push.Billed)); err != nil {
		return err
	}
	pushed(s.h, s.job, s.shard.Whole)
	return nil
}

// Add adds weight times what a push holds to sum, which is as long as the shard. After
// an error sum may hold some of it.
func (s *ShardServer) Add(sum []float32, weight float32, push comm.Frame) error {
	defer s.times.Decoded(s.times.Start())
	from := compress.From{Rank: int(push.Header.From), Step: int(push.Header.Step)}
	if from.Rank < 0 || from.Rank >= len(s.in) {
		return fmt.Errorf("server %d: rank %d, which is no worker, sent a push", s.id, from.Rank)
	}
	if err := s.in[from.Rank].AddTo(s.shard.Whole, sum, false, weight, push.Body, from); err != nil {
		return fmt.Errorf("server %d, push %d of worker %d: %w", s.id, from.Step, from.Rank, err)
	}
	return nil
}

// Acknowledge answers a push without parameters.
func (s *ShardServer) Acknowledge(ctx context.Context, push comm.Header) error {
	w := answerWord{Shard: s.id, Step: push.Step}
	return s.Post(ctx, int(push.From), comm.NewFrame(onAnswer.As(comm.Control).Header(s.job, w, 0), comm.NewBuffer(0)))
}

// Welcome answers a worker that has come.
func (s *ShardServer) Welcome(ctx context.Context, worker int) error {
	return s.Post(ctx, worker, comm.NewFrame(onWelcome.As(comm.Control).Header(s.job, answerWord{Shard: s.id}, 0), comm.NewBuffer(0)))
}

// Answer sends who asked for parameters those that there are. told is the version that
// it is told, and version that by which codecs number what they send.
func (s *ShardServer) Answer(ctx context.Context, pull comm.Header, told, version uint64) error {
	w := answerWord{Shard: s.id, Version: told}
	return s.parameters(ctx, onFetched.Header(s.job, w, 0), int(pull.From), s.x, int(version), s.Post)
}

// Shown is what a snapshot is of.
type Shown struct {
	Version int    // updates made
	Samples uint64 // that went into them
	Last    bool   // no other comes
}

// Show tells the observer the shard's parameters, to be evaluated.
func (s *ShardServer) Show(ctx context.Context, of Shown) error {
	up, down := s.bytes()
	return s.Snapshot(ctx, Mark{
		Shard: s.id, Version: of.Version, Samples: of.Samples, Epoch: float64(of.Samples) / float64(s.job.Data.Train.Len()),
		Seconds: s.h.Now().Seconds(), Up: up, Down: down, Last: of.Last,
	}, s.x)
}

// Update does something to vectors of the shard, of which it goes through so many
// bytes: it counts as computing, at the rate of Timing.Apply on a virtual clock.
func (s *ShardServer) Update(ctx context.Context, bytes int, do func()) error {
	began := s.times.Start()
	do()
	s.times.Updated(began)
	if d := timing.At(float64(bytes), s.job.Timing.Apply); d > 0 && s.h.Virtual() {
		return s.h.Sleep(ctx, d)
	}
	return nil
}

// Keep keeps the shard's parameters, what codecs have at this end, and bytes.
func (s *ShardServer) Keep(k *checkpoint.Keeper) {
	s.KeepVector(k, KeyParam, s.x.F())
	s.down.keep(k)
	for w, in := range s.in {
		in.KeepReceivers(k, checkpoint.Under(keyIn, s.id, w))
	}
	s.tally(k)
}

// KeepVector keeps the shard's part of a vector: the observer puts those of all shards
// together, under one name.
func (s *ShardServer) KeepVector(k *checkpoint.Keeper, name string, v []float32) {
	wire.KeepPacked(k, name, s.shard, v, s.job.Model.Layout().Size())
}
