package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// worker is one replica: its parameters, and a link to every shard.
type worker struct {
	*Rank
	params  wire.Vector
	holding holding
	leaving leaving
	pushed  func(context.Context) error // once a gradient has left
	grad    wire.Vector
	links   []*link
	work    comm.Work // of a round

	// The gradient leaves in marks: parts of shards in the order in which the
	// backward pass completes them.
	order []parcel
	spans [][]parcel    // the parts that contain a span
	flags message.Flags // of the answers to the last step
	asked bool          // for its state
	told  bool          // and has told it, with nothing pushed since
	amend *amending     // of a corrector that works here
	away  bool          // another activity has a push under way
	visit *visit        // of an open run; else nil
}

// parcel is a part of a shard.
type parcel struct {
	link *link
	k    int        // in shard.parts
	next comm.Frame // of the present push, but for its sequence number
}

func newWorker(r *Rank, sh []*wire.Shard) (*worker, error) {
	j := r.job
	w := &worker{Rank: r, params: wire.Floats(j.initial())}
	w.spans = make([][]parcel, len(j.Model.Layout().Spans))
	for i, s := range sh {
		l := &link{id: i, rank: j.Workers + i, server: j.Workers + i, shard: s, fresh: make([]comm.Frame, len(s.Parts))}
		if err := w.connect(l); err != nil {
			return nil, err
		}
		w.links = append(w.links, l)
		for k := len(s.Parts) - 1; k >= 0; k-- {
			w.order = append(w.order, parcel{link: l, k: k})
			for _, pc := range s.Pieces[s.Parts[k].Lo:s.Parts[k].Hi] {
				w.spans[pc.Span] = append(w.spans[pc.Span], parcel{link: l, k: k})
			}
			if last := len(w.spans) - 1; s.Parts[k].Lo == s.Parts[k].Hi { // nothing is in it, and it is waited for, too
				w.spans[last] = append(w.spans[last], parcel{link: l, k: k})
			}
		}
	}
	var err error
	if w.amend, err = newAmending(j, j.Model.Layout(), true); err != nil {
		return nil, err
	}
	voids := j.policy().Voids
	switch {
	case voids:
		w.leaving = &voidable{whole: whole{w}}
	case j.Plan().Beside:
		w.leaving = inParts{w}
	default:
		w.leaving = whole{w}
	}
	w.pushed = func(context.Context) error { return nil }
	if t := j.Traits(); t.Acked && t.PerPush == 0 { // parameters are asked for
		w.pushed = w.pull
	}
	// An answer that voids a gradient renews one shard's parameters and no other's;
	// what a difference is to is each worker's own.
	alone := j.Workers == 1 || j.Here == 1
	if !j.Weightless && wire.IsCast(j.DownCodec) && (unpacked(w.links) || !alone && (len(sh) == 1 || !voids)) {
		w.holding = shared{w}
	} else {
		w.keep()
	}
	// A part is complete once its first span is.
	slices.SortStableFunc(w.order, func(a, b parcel) int { return b.firstSpan() - a.firstSpan() })
	return w, nil
}

// connect makes the worker's ends of what travels to and from a shard.
func (w *worker) connect(l *link) (err error) {
	j := w.job
	if l.out, err = j.packer(l.shard, j.Codec, compress.Block{Rank: w.rank, World: j.Workers, Peer: l.rank, Dir: compress.Up, Seed: j.Seed}); err != nil {
		return err
	}
	l.in, err = newUplink(j, l.shard, w.rank)
	return err
}

// keep gives the worker parameters of its own.
func (w *worker) keep() {
	w.holding, w.params = copied{w}, wire.Floats(slices.Clone(w.params.F()))
}

func (p parcel) part() wire.Part { return p.link.shard.Parts[p.k] }

// encoding is the virtual time in which the parcel's payload is made.
func (p parcel) encoding() time.Duration { return p.link.out.Encoding(p.part(), true) }

func (p parcel) firstSpan() int {
	if pt := p.part(); pt.Lo < pt.Hi {
		return p.link.shard.Pieces[pt.Lo].Span
	}
	return 1 << 30 // an empty shard is complete at once
}

// Run implements Part.
func (w *worker) Run(ctx context.Context) error {
	if _, shares := w.holding.(shared); shares && w.job.Plan().Beside && !w.h.Virtual() {
		w.keep() // a pass begins before all parameters are there
	}
	w.leaving.plan(ctx)
	if err := w.begin(ctx, w.resume); err != nil || w.visit.gone() {
		return err
	}
	for w.flags&(FlagDone|FlagStop) == 0 {
		if err := w.Boundary(w); err != nil {
			return err
		}
		if err := w.departs(ctx, w.awaitAll); err != nil || w.visit.gone() {
			return err
		}
		if w.flags&(FlagDone|FlagStop) != 0 {
			continue
		}
		if err := w.round(ctx); err != nil && !errors.Is(err, errEnded) {
			return err
		}
		if err := w.pushed(ctx); err != nil {
			return err
		}
		if err := w.Doing(ctx); err != nil {
			return err
		}
		mark := w.job.CheckpointEvery > 0 && w.step%w.job.CheckpointEvery == 0
		if !w.job.Plan().Beside || mark || w.flags != 0 || w.asked || w.member != nil {
			if err := w.awaitAll(ctx); err != nil {
				return err
			}
		}
		if err := w.marks(ctx, mark, w); err != nil {
			return err
		}
	}
	return w.bye(ctx)
}

// begin goes on from where the run, or the epoch of membership before, has ended; resume
// from a stop.
func (w *worker) begin(ctx context.Context, resume func(context.Context) error) error {
	switch {
	case w.job.open():
		w.visit = newVisit(w.Rank, w.links[0].server, w.enter)
		return w.visit.arrive(ctx, resume)
	case w.again:
		return w.formed(ctx)
	case w.Resumes():
		return resume(ctx)
	}
	return nil
}

// round computes one gradient and pushes it.
func (w *worker) round(ctx context.Context) error {
	tl := w.job.Timeline(w.rank, w.step)
	began := w.times.Read()
	coding := time.Duration(0)
	for i := range w.order {
		coding += w.order[i].encoding()
	}
	err := w.leaving.price(ctx, tl, coding)
	if err == nil {
		err = w.leaving.do(ctx)
	}
	w.grad.Release()
	if err != nil {
		return err
	}
	w.times.Price(coding)
	w.times.Computed(began)
	w.told = false
	w.step++
	return nil
}

// sizeAll makes every push without weights.
func (w *worker) sizeAll() error {
	for i := range w.order {
		if err := w.encode(i, wire.Vector{}); err != nil {
			return err
		}
	}
	return nil
}

// done gives up what nobody needs once the pushes are encoded: the server then has
// the gradient to itself.
func (w *worker) done() {
	w.grad.Release()
	w.holding.done()
}

// on gives the parameters of the present step and where its gradient goes.
func (w *worker) on() (params, grad []float32, err error) {
	if err := w.up(); err != nil {
		return nil, nil, err
	}
	w.grad.Release() // one that was not pushed
	w.grad = wire.NewVector(len(w.params.F()))
	return w.params.F(), w.grad.F(), nil
}

// finish lets a corrector that works at the worker have the gradient.
func (w *worker) finish() {
	if w.amend != nil {
		w.amend.amend(w.grad.F(), w.params.F(), w.params.F(), staleness.Past{Worker: w.rank, Update: w.step})
	}
}

// encode makes the payload of mark i.
func (w *worker) encode(i int, grad wire.Vector) error {
	p := &w.order[i]
	l := p.link
	flags := w.passed()
	if p.k > 0 { // parts leave last ones first
		flags |= flagMore
	}
	hd := OnPush.Header(w.job, w.word(l), flags)
	began := w.times.Start()
	var err error
	p.next, err = l.out.Push(hd, p.part(), grad, w.codecStep())
	w.times.Encoded(began)
	if err != nil {
		return fmt.Errorf("worker %d, step %d: %w", w.rank, w.step, err)
	}
	return nil
}

func (w *worker) codecStep() compress.Step {
	p := w.job.ProgressAt(w.step, w.step*w.job.Workers)
	return compress.Step{N: w.step, Epoch: p.Epoch, Seed: w.job.Seed}
}

// word is what the worker says of the present gradient, to be numbered when it
// leaves.
func (w *worker) word(l *link) Pushed {
	return Pushed{Shard: l.id, Step: uint64(w.step), Version: l.version, Loss: w.loss}
}

// says has the payload say something else than that it is of the present step.
func (p *parcel) says(say Saying) {
	w := OnPush.Read(p.next.Header)
	w.Step, w.Loss = say.Number, say.Loss
	p.next.Header = w.Put(p.next.Header)
}

// number numbers a push that was encoded before.
func (l *link) number(f *comm.Frame) {
	w := OnPush.Read(f.Header)
	w.Seq = l.seq
	f.Header = w.Put(f.Header)
}

// push sends the payload of mark i.
func (w *worker) push(ctx context.Context, i int) error {
	p := &w.order[i]
	l, f := p.link, p.next
	p.next = comm.Frame{}
	l.number(&f)
	if p.k == 0 {
		l.seq++
		l.expect(onAnswer.Tag())
	}
	return w.h.Send(ctx, l.rank, f)
}
