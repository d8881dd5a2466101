package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/lbfgs"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// slice is a shard of mode sandblaster: its part of every vector there is. It
// adds up gradients and does what the coordinator commands.
type slice struct {
	*Rank
	mode   Sandblaster
	id     int
	shard  *shard
	params Vector // lbfgs.X; frames on their way to workers may share it
	mem    lbfgs.Memory
	in     *packer
	down   *downlink

	eval    uint64          // evaluation under way
	open    bool            // its point has not been left
	counted map[uint64]bool // portions of it
	version int             // iterations made, as last heard
	ledger  ps.Ledger
	causes  map[string]uint64
	taken   []uint64 // pushes that reached it, by worker
	past    uint64   // of workers that died before a resume
	ended   []bool   // workers that push no more
	over    bool     // the coordinator has said so
	stop    bool
	lost    []string
	dots    []float64
	tariff  *tariff // of decoding portions
}

func newSlice(r *Rank, m Sandblaster, all []*shard) (*slice, error) {
	j, id := r.job, r.rank-r.job.Workers
	sh := all[id]
	s := &slice{Rank: r, mode: m, id: id, shard: sh, params: NewVector(sh.size()), mem: lbfgs.NewMemory(m.History, sh.size()),
		counted: map[uint64]bool{}, causes: map[string]uint64{}, taken: make([]uint64, j.Workers), ended: make([]bool, j.Workers)}
	sh.gather(s.params.f, j.initial())
	s.mem[lbfgs.X] = s.params.f
	var err error
	if s.down, err = newDownlink(j, id, sh); err != nil {
		return nil, err
	}
	s.tariff = j.tariff(sh, false, true)
	s.in, err = j.newPacker(sh, j.Codec, compress.Block{Rank: -1, World: j.Workers, Peer: 0, Dir: compress.Up, Seed: j.Seed})
	return s, err
}

// Run implements Part.
func (s *slice) Run(ctx context.Context) error {
	for !s.finished() {
		f, err := s.h.Recv(ctx, comm.AnyRank, comm.AnyTag)
		if err != nil {
			if err := s.lose(err); err != nil {
				return err
			}
			continue
		}
		err = s.handle(ctx, f)
		f.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// Final implements Part.
func (s *slice) Final(r *RankReport) {
	r.Shard, r.Version, r.Ledger, r.Taken, r.Past = s.id, s.version, s.ledger, s.taken, s.past
	r.Causes, r.Lost, r.Stopped = s.causes, s.lost, s.stop
}

// finished says whether the run is over and no worker has anything under way.
func (s *slice) finished() bool {
	for _, ended := range s.ended {
		if !ended && !s.stop {
			return false
		}
	}
	return s.over
}

// lose copes with the death of a worker: others do its work.
func (s *slice) lose(err error) error {
	var p *comm.PeerError
	if !errors.As(err, &p) || p.Rank >= s.job.Workers {
		return err
	}
	s.ended[p.Rank] = true
	s.lost = append(s.lost, fmt.Sprintf("worker %d after iteration %d: %s", p.Rank, s.version, p.Cause))
	return nil
}

func (s *slice) handle(ctx context.Context, f comm.Frame) error {
	h := f.Header
	if h.Run != s.job.Run {
		return fmt.Errorf("rank %d belongs to run %x, not %x", h.From, h.Run, s.job.Run)
	}
	from := int(h.From)
	if h.Tag == onCommand.Tag() {
		return s.command(ctx, h, f.Body)
	}
	if from < 0 || from >= s.job.Workers {
		return fmt.Errorf("rank %d, which is no worker, sent a frame with tag %d", from, h.Tag)
	}
	switch h.Tag {
	case OnPush.Tag():
		return s.push(ctx, f)
	case OnPull.Tag():
		w := answerWord{Shard: s.id}
		if s.open {
			w.Version = s.eval
		}
		if err := s.times.encoding(ctx, s.down.encoding(from, 0)); err != nil {
			return err
		}
		began := s.times.start()
		out, err := s.down.frame(onFetched.Header(s.job, w, 0), from, 0, s.params, int(s.eval))
		s.times.encoded(began)
		if err != nil {
			return fmt.Errorf("parameters for worker %d: %w", from, err)
		}
		plainly(s.h, s.shard.whole)
		return s.send(ctx, from, out)
	case OnBye.Tag():
		s.ended[from] = true
		return nil
	}
	return fmt.Errorf("rank %d sent a frame with tag %d, which a server of mode sandblaster does not know", from, h.Tag)
}

// send sends a worker f. That it is dead is told in Recv.
func (s *slice) send(ctx context.Context, worker int, f comm.Frame) error {
	if err := s.h.Send(ctx, worker, f); err != nil && !isGone(err) {
		return err
	}
	return nil
}

// push counts a portion, unless it was counted before, and says that it has come.
func (s *slice) push(ctx context.Context, f comm.Frame) error {
	h := f.Header
	if err := s.times.decoding(ctx, s.job.serving(s.tariff, 0, len(s.shard.pieces), f.Billed)); err != nil {
		return err
	}
	plainly(s.h, s.shard.whole)
	began := s.times.start()
	cause, err := s.count(f)
	s.times.decoded(began)
	switch {
	case err != nil:
		return fmt.Errorf("server %d, portion %d of worker %d: %w", s.id, h.Step, h.From, err)
	case cause != "":
		s.ledger.Rejected++
		s.causes[cause]++
	default:
		s.ledger.Applied++
	}
	return s.send(ctx, int(h.From), comm.NewFrame(onAnswer.As(comm.Control).Header(s.job, answerWord{Shard: s.id, Step: h.Step}, 0), comm.NewBuffer(0)))
}

// count adds a portion to the gradient, or says why it is rejected.
func (s *slice) count(f comm.Frame) (cause string, err error) {
	h := f.Header
	w := int(h.From)
	if h.Incarnation != s.job.Incarnation || h.Seq != s.taken[w] {
		return "incarnation or sequence number of another push", nil
	}
	s.taken[w]++
	switch {
	case !s.open || h.Version != s.eval:
		return "its evaluation is over", nil
	case s.counted[h.Step]:
		return "a copy came first", nil
	case s.mode.Portions == 0 && h.Step >= uint64(s.mode.portions(s.job)):
		return "", errors.New("there is no such portion")
	}
	s.counted[h.Step] = true
	_, weight := s.mode.draw(s.job, h.Step)
	return "", s.in.addTo(s.shard.whole, s.mem[lbfgs.G], false, float32(weight), f.Body, compress.From{Rank: w, Step: int(h.Step)})
}

// command does what the coordinator wants.
func (s *slice) command(ctx context.Context, h comm.Header, body []byte) error {
	if want := s.job.coordinator(); int(h.From) != want {
		return fmt.Errorf("rank %d sent a command; the coordinator is %d", h.From, want)
	}
	w := onCommand.read(h)
	s.version = w.iter
	switch w.code {
	case commandDo:
		ops, err := lbfgs.ParseOps(body, len(s.mem))
		if err != nil {
			return err
		}
		if lbfgs.Writes(ops, lbfgs.X) {
			s.params.Own()
			s.mem[lbfgs.X] = s.params.f
			s.down.changed()
			s.open = false
		}
		began := s.times.start()
		s.dots = s.mem.Do(s.dots[:0], ops)
		s.times.updated(began)
		if d := timing.At(float64(4*s.shard.size()*len(ops)), s.job.Timing.Apply); d > 0 && s.h.Virtual() {
			if err := s.h.Sleep(ctx, d); err != nil {
				return err
			}
		}
		return s.answer(ctx)
	case commandBegin:
		s.eval, s.open, s.dots = w.eval, true, s.dots[:0]
		clear(s.mem[lbfgs.G])
		clear(s.counted)
		return s.answer(ctx)
	case commandShow:
		last := h.Flags&FlagDone != 0
		s.over = s.over || last
		up, down := s.bytes()
		m := mark{Shard: s.id, Version: s.version, Samples: w.samples, Epoch: float64(w.samples) / float64(s.job.Data.Train.Len()), Seconds: s.h.Now().Seconds(), Up: up, Down: down, Last: last}
		return s.sendSnapshot(ctx, m, s.params)
	case commandSave:
		st, err := s.state(s)
		if err != nil {
			return err
		}
		if err := s.sendState(ctx, st); err != nil {
			return err
		}
		_, _, err = onGo.Hear(ctx, s.Rank, s.job.Observer())
		s.stop = h.Flags&FlagStop != 0
		return err
	}
	return fmt.Errorf("server %d: unknown command %d", s.id, w.code)
}

// answer sends the coordinator the dot products.
func (s *slice) answer(ctx context.Context) error {
	up, down := s.bytes()
	buf := comm.NewBuffer(8 * len(s.dots))
	for i, d := range s.dots {
		binary.LittleEndian.PutUint64(buf.B[8*i:], math.Float64bits(d))
	}
	return onDots.Carry(ctx, s.Rank, s.job.coordinator(), dotsWord{up, down}, 0, buf)
}

func (s *slice) bytes() (up, down uint64) {
	c := s.h.Traffic().Count()
	return c.RecvBytes[comm.Gradient], c.SentBytes[comm.Parameters]
}

// name of a vector in a checkpoint.
func (s *slice) name(v int) string {
	if lbfgs.Vec(v) == lbfgs.X {
		return keyParam
	}
	return key(keyHistory, v)
}

// Keep keeps the shard's part of every vector, and what it has counted.
func (s *slice) Keep(k *Keeper) {
	for i, v := range s.mem {
		k.packed(s.name(i), s.shard, v, s.job.Model.Layout().Size())
	}
	if !k.Loads() {
		up, down := s.bytes()
		tallied(k.st, s.rank, s.h, up, down)
	}
	k.Int(keyVersion, &s.version)
	own := under(keySlice, s.id)
	k.Count(own+"applied", &s.ledger.Applied)
	k.Count(own+"rejected", &s.ledger.Rejected)
	k.Count(own+"past", &s.past)
	for w := range s.taken {
		k.Count(key(own+"taken", w), &s.taken[w])
		if k.Loads() && !k.Has(key(keyStep, w)) { // it was dead, and begins anew
			s.past, s.taken[w] = s.past+s.taken[w], 0
		}
	}
	own += "cause/"
	if k.Loads() {
		for name := range k.st.Ints {
			if cause, ok := strings.CutPrefix(name, own); ok {
				s.causes[cause] = 0
			}
		}
	}
	for cause, n := range s.causes {
		k.Count(own+cause, &n)
		s.causes[cause] = n
	}
}
