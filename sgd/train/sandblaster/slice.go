package sandblaster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/sgd/lbfgs"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// slice is a shard: its part of every vector there is. It adds up gradients and does
// what the coordinator commands.
type slice struct {
	*train.ShardServer
	mode Sandblaster
	mem  lbfgs.Memory // of which X is the shard's parameters

	eval    uint64          // evaluation under way
	open    bool            // its point has not been left
	counted map[uint64]bool // portions of it
	version int             // iterations made, as last heard
	ledger  ps.Ledger
	causes  map[string]uint64
	taken   []uint64 // pushes that reached it, by worker
	past    []uint64 // by worker: those of processes that died before another one came
	told    []uint64 // by worker: those of processes that ended, and told it, before another one came
	lives   []uint32 // by worker: what is of incarnations before this one is in past
	ended   []bool   // workers that push no more
	over    bool     // the coordinator has said so
	stop    bool
	lost    []string
	dots    []float64
}

func newSlice(r *train.Rank, m Sandblaster) (*slice, error) {
	to, err := train.NewShardServer(r)
	if err != nil {
		return nil, err
	}
	workers := r.Job().Workers
	s := &slice{ShardServer: to, mode: m, mem: lbfgs.NewMemory(m.History, to.Size()),
		counted: map[uint64]bool{}, causes: map[string]uint64{}, taken: make([]uint64, workers), past: make([]uint64, workers), told: make([]uint64, workers), lives: make([]uint32, workers), ended: make([]bool, workers)}
	s.mem[lbfgs.X] = to.Write()
	return s, nil
}

// Run implements train.Part.
func (s *slice) Run(ctx context.Context) error {
	for !s.finished() {
		f, err := s.Next(ctx)
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

// Final implements train.Part.
func (s *slice) Final(r *record.RankReport) {
	r.Shard, r.Version, r.Ledger, r.Taken = s.Shard(), s.version, s.ledger, s.taken
	for _, n := range s.past {
		if r.Past += n; n > 0 && s.Job().Elastic {
			r.PastOf = s.past
		}
	}
	r.Causes, r.Lost, r.Stopped = s.causes, s.lost, s.stop
}

// finished says whether the run is over and no worker has anything under way.
func (s *slice) finished() bool {
	if s.Job().Elastic { // the coordinator has brought all to rest
		return s.over
	}
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
	if !errors.As(err, &p) || p.Rank >= s.Job().Workers {
		return err
	}
	if p.Incarnation < s.lives[p.Rank] {
		return nil
	}
	s.forget(p.Rank, p.Incarnation+1)
	s.lost = append(s.lost, fmt.Sprintf("worker %d after iteration %d: %s", p.Rank, s.version, p.Cause))
	return nil
}

// forget counts what a worker's processes sent before an incarnation as that of the dead,
// unless it has ended and told so itself. In a run that nobody comes into it stays theirs.
func (s *slice) forget(worker int, before uint32) {
	if !s.Job().Elastic {
		s.ended[worker] = true
		return
	}
	if s.ended[worker] {
		s.told[worker] += s.taken[worker]
	} else {
		s.past[worker] += s.taken[worker]
	}
	s.taken[worker], s.lives[worker], s.ended[worker] = 0, before, false
}

func (s *slice) handle(ctx context.Context, f comm.Frame) error {
	h := f.Header
	from := int(h.From)
	if h.Tag == onCommand.Tag() {
		return s.command(ctx, h, f.Body)
	}
	if from < 0 || from >= s.Job().Workers {
		return fmt.Errorf("rank %d, which is no worker, sent a frame with tag %d", from, h.Tag)
	}
	switch h.Tag {
	case train.OnPush.Tag():
		return s.push(ctx, f)
	case train.OnPull.Tag():
		there := uint64(0)
		if s.open {
			there = s.eval
		}
		return s.Answer(ctx, h, there, s.eval)
	case train.OnEnter.Tag():
		if h.Incarnation > s.lives[from] { // before the news of a death
			s.forget(from, h.Incarnation)
		}
		return s.Welcome(ctx, from)
	case train.OnBye.Tag():
		s.ended[from] = true
		return nil
	}
	return fmt.Errorf("rank %d sent a frame with tag %d, which a server of mode sandblaster does not know", from, h.Tag)
}

// push counts a portion, unless it was counted before, and says that it has come.
func (s *slice) push(ctx context.Context, f comm.Frame) error {
	if err := s.Arrived(ctx, f); err != nil {
		return err
	}
	if h := f.Header; h.Incarnation == s.life(int(h.From)) && h.Seq < s.taken[h.From] {
		return nil // it came before, and was answered then
	}
	cause, err := s.count(f)
	switch {
	case err != nil:
		return err
	case cause != "":
		s.ledger.Rejected++
		s.causes[cause]++
	default:
		s.ledger.Applied++
	}
	return s.Acknowledge(ctx, f.Header)
}

// life is the incarnation of the process of a worker that pushes.
func (s *slice) life(worker int) uint32 {
	if s.Job().Elastic {
		return max(s.lives[worker], s.Job().Incarnation)
	}
	return s.Job().Incarnation
}

// count adds a portion to the gradient, or says why it is rejected.
func (s *slice) count(f comm.Frame) (cause string, err error) {
	j, h := s.Job(), f.Header
	w := int(h.From)
	if h.Incarnation != s.life(w) || h.Seq != s.taken[w] {
		return "incarnation or sequence number of another push", nil
	}
	s.taken[w]++
	switch {
	case !s.open || h.Version != s.eval:
		return "its evaluation is over", nil
	case s.counted[h.Step]:
		return "a copy came first", nil
	case s.mode.Portions == 0 && h.Step >= uint64(s.mode.portions(j)):
		return "", fmt.Errorf("server %d, portion %d of worker %d: there is no such portion", s.Shard(), h.Step, w)
	}
	s.counted[h.Step] = true
	_, weight := s.mode.draw(j, h.Step)
	return "", s.Add(s.mem[lbfgs.G], float32(weight), f)
}

// command does what the coordinator wants.
func (s *slice) command(ctx context.Context, h comm.Header, body []byte) error {
	if want := s.Job().Coordinator(); int(h.From) != want {
		return fmt.Errorf("rank %d sent a command; the coordinator is %d", h.From, want)
	}
	w := readCommand(h)
	s.version = w.iter
	switch w.code {
	case commandDo:
		return s.do(ctx, body)
	case commandBegin:
		s.eval, s.open, s.dots = w.eval, true, s.dots[:0]
		clear(s.mem[lbfgs.G])
		clear(s.counted)
		return s.answer(ctx)
	case commandShow:
		last := h.Flags&train.FlagDone != 0
		s.over = s.over || last && !s.Job().Elastic
		return s.Show(ctx, train.Shown{Version: s.version, Samples: w.samples, Last: last})
	case commandSave:
		_, err := s.Checkpoint(ctx, s)
		s.stop = h.Flags&train.FlagStop != 0
		return err
	case commandEnd:
		s.over = true
		return nil
	}
	return fmt.Errorf("server %d: unknown command %d", s.Shard(), w.code)
}

// do carries out operations on vectors and answers their dot products.
func (s *slice) do(ctx context.Context, body []byte) error {
	ops, err := lbfgs.ParseOps(body, len(s.mem))
	if err != nil {
		return err
	}
	if lbfgs.Writes(ops, lbfgs.X) {
		s.mem[lbfgs.X] = s.Write()
		s.open = false
	}
	if err := s.Update(ctx, 4*s.Size()*len(ops), func() { s.dots = s.mem.Do(s.dots[:0], ops) }); err != nil {
		return err
	}
	return s.answer(ctx)
}

// answer sends the coordinator the dot products.
func (s *slice) answer(ctx context.Context) error {
	up, down := s.Bytes()
	buf := comm.NewBuffer(8 * len(s.dots))
	for i, d := range s.dots {
		binary.LittleEndian.PutUint64(buf.B[8*i:], math.Float64bits(d))
	}
	return onDots.Carry(ctx, s.Rank, s.Job().Coordinator(), dotsWord{up, down}, 0, buf)
}

// Keep implements train.Part: it keeps the shard's part of every vector, and what it
// has counted.
func (s *slice) Keep(k *checkpoint.Keeper) {
	s.ShardServer.Keep(k)
	for i, v := range s.mem {
		if lbfgs.Vec(i) != lbfgs.X {
			s.KeepVector(k, checkpoint.Key(keyHistory, i), v)
		}
	}
	k.Int(keyVersion, &s.version)
	own := checkpoint.Key(keySlice, s.Shard()) + "/"
	k.Count(own+"applied", &s.ledger.Applied)
	k.Count(own+"rejected", &s.ledger.Rejected)
	s.keepPast(k, own+"past")
	for w := range s.taken {
		k.Count(checkpoint.Key(own+"taken", w), &s.taken[w])
		sent := s.taken[w]
		switch {
		case !k.Lived(w): // it begins anew
			sent = 0
		case k.Loads() && s.Job().Elastic: // it may have died since it told its state, with which it goes on
			k.Count(checkpoint.Key(keySeq, w, s.Shard()), &sent)
		}
		s.past[w], s.taken[w] = s.past[w]+s.taken[w]-sent, sent
	}
	k.Counts(own+"cause/", s.causes)
}

// keepPast keeps how many pushes there were of workers that died: by worker where others
// come in their place.
func (s *slice) keepPast(k *checkpoint.Keeper, name string) {
	if s.Job().Elastic {
		for w := range s.past {
			n := s.past[w] + s.told[w] // last reports of before are gone
			if k.Count(checkpoint.Key(name, w), &n); k.Loads() {
				s.past[w] = n
			}
		}
		return
	}
	sum := uint64(0)
	for _, n := range s.past {
		sum += n
	}
	if k.Count(name, &sum); k.Loads() {
		s.past[0] = sum
	}
}
