package train

import (
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// downlink encodes a shard's parameters for the workers. Casts
// (Claims.Cast: raw, fp16, bf16) send absolute values: one payload per version, shared by all who get
// it, however many; raw's is the memory of the parameters. Any other codec sends the difference from what that worker
// holds, so the server keeps that for each, and what the codec leaves out is
// made up for by the next difference.
type downlink struct {
	job      *Job
	id       int
	shard    *wire.Shard
	absolute bool
	cast     bool // absolute, of a run with weights

	shared *wire.Packer
	tariff *wire.Tariff
	billed []bool         // by part: making the present version's payload
	cached []*comm.Buffer // by part; nil: not made yet

	packers []*wire.Packer // per worker
	held    [][]float32    // per worker, packed
	diff    []float32
}

func newDownlink(j *Job, id int, sh *wire.Shard) (*downlink, error) {
	d := &downlink{job: j, id: id, shard: sh, cast: wire.IsCast(j.DownCodec),
		tariff: j.tariff(sh, true, true), billed: make([]bool, len(sh.Parts))}
	var err error
	if wire.FeedsBack(j.DownCodec) {
		return nil, fmt.Errorf("down_codec %s: the next difference makes up for what the codec leaves out, and a codec that keeps it would add it a second time, until the parameters diverge; use the codec inside by itself, or one without memory (feedback permits it with unchecked=true)", compress.Families.Spec(j.DownCodec))
	}
	if compress.KeepsReceiver(j.DownCodec) {
		return nil, fmt.Errorf("down_codec %s: what workers hold is estimate enough, differences to it are sent anyway; use the codec inside by itself", compress.Spec(j.DownCodec))
	}
	if d.absolute = d.cast || j.Weightless && j.Sizes == nil; d.absolute {
		d.shared, err = j.packer(sh, j.DownCodec, d.block(0))
		d.cached = make([]*comm.Buffer, len(sh.Parts))
		return d, err
	}
	for w := 0; w < j.Workers; w++ {
		p, err := j.Content().NewPacker(sh, j.DownCodec, d.block(w))
		if err != nil {
			return nil, err
		}
		d.packers = append(d.packers, p)
		if !p.Empty {
			held := make([]float32, sh.Size())
			sh.Gather(held, j.initial())
			d.held = append(d.held, held)
		}
	}
	if !j.Weightless {
		d.diff = make([]float32, sh.Size())
	}
	return d, nil
}

func (d *downlink) block(worker int) compress.Block {
	return compress.Block{Rank: d.job.Workers + d.id, World: 1, Peer: worker, Dir: compress.Down, Seed: d.job.Seed}
}

// changed forgets the payload of the version before.
func (d *downlink) changed() {
	clear(d.billed)
	for k, b := range d.cached {
		if b != nil {
			b.Release()
		}
		d.cached[k] = nil
	}
}

// frame returns a frame that takes the worker to a part of params, part k of the
// shard. The server must not write to params while somebody has such a frame:
// see wire.Vector.Own.
func (d *downlink) frame(hd comm.Header, worker, k int, params wire.Vector, version int) (comm.Frame, error) {
	s := compress.Step{N: version, Seed: d.job.Seed}
	pt := d.shard.Parts[k]
	if d.absolute {
		if d.shared.Raw || d.shared.Empty {
			return d.shared.Frame(hd, pt, params, false, s)
		}
		if d.cached[k] == nil {
			var err error
			if d.cached[k], err = d.shared.Encode(pt, params.F(), false, s); err != nil {
				return comm.Frame{}, err
			}
		}
		return comm.NewFrame(hd, d.cached[k].Retain()), nil
	}
	p := d.packers[worker]
	if p.Empty {
		return p.Frame(hd, pt, params, false, s)
	}
	lo, hi := pt.Local, pt.Local+pt.Size
	f32.AxpyTo(d.diff[lo:hi], params.F()[lo:hi], -1, d.held[worker][lo:hi])
	b, err := p.Encode(pt, d.diff, false, s)
	if err != nil {
		return comm.Frame{}, err
	}
	from := compress.From{Rank: d.job.Workers + d.id, Step: version}
	if err := p.AddTo(pt, d.held[worker], false, 1, b.B, from); err != nil {
		return comm.Frame{}, err
	}
	return comm.NewFrame(hd, b), nil
}

// uplink is the worker's side of a downlink: it takes payloads into the flat
// vector of parameters, which must hold what the worker was last sent.
type uplink struct {
	absolute bool
	in       *wire.Packer
}

func newUplink(j *Job, sh *wire.Shard, worker int) (*uplink, error) {
	in, err := j.packer(sh, j.DownCodec, compress.Block{Rank: -1, World: 1, Peer: worker, Dir: compress.Down, Seed: j.Seed})
	return &uplink{absolute: wire.IsCast(j.DownCodec) || j.Weightless, in: in}, err
}

// take takes up part k.
func (u *uplink) take(full []float32, k int, f comm.Frame) error {
	from := compress.From{Rank: int(f.Header.From), Step: int(f.Header.Version)}
	pt := u.in.Shard.Parts[k]
	switch {
	case u.in.Empty:
		return nil
	case u.absolute:
		return u.in.Set(pt, full, true, 1, f.Body, from)
	}
	return u.in.AddTo(pt, full, true, 1, f.Body, from)
}

// keep keeps what the server knows that workers hold.
func (d *downlink) keep(k *checkpoint.Keeper) {
	for w, held := range d.held {
		k.Vector(checkpoint.Key(keyHeld, d.id, w), held)
		d.packers[w].Keep(k, checkpoint.Under(keyDown, d.id, w))
	}
}
