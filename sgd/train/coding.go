package train

import (
	"context"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// What follows bills coding on the virtual clock: what really happens, block by
// block. A payload of raw that is the memory of the gradient itself costs nothing
// to make, nor do sums of raw gradients where they lie. A server bills the pushes
// it decodes by Timing.Codec, or by Timing.Apply where that is set, never by both.

// tariff is what coding the pieces of a shard takes, added up from the first piece
// on: the cost of pieces [lo, hi) is a difference. nil: nothing.
type tariff struct{ enc, dec []time.Duration }

func (t *tariff) encode(lo, hi int) time.Duration {
	if t == nil {
		return 0
	}
	return t.enc[hi] - t.enc[lo]
}

func (t *tariff) decode(lo, hi int) time.Duration {
	if t == nil {
		return 0
	}
	return t.dec[hi] - t.dec[lo]
}

// bill names a tariff: of a shard, on the way up or down, at a worker or a server.
type bill struct {
	off, len     int // of the shard: where its first piece lies, and its size
	down, server bool
	exchange     bool
}

// tariff prices the payloads of a shard's pieces.
func (j *Job) tariff(s *shard, down, server bool) *tariff {
	if j.Timing.Codec == nil || j.cores == nil || len(s.pieces) == 0 {
		return nil
	}
	key := bill{off: s.pieces[0].off, len: s.size(), down: down, server: server}
	return j.cores.tariff(key, func() *tariff {
		f := j.Codec
		if down {
			f = j.DownCodec
		}
		t := newTariff(len(s.pieces))
		for i := range s.pieces {
			c := s.pieces[i].coding(f, j.Workers)
			c.Server = server
			enc := j.Timing.Codec(c)
			c.Decode = true
			t.add(i, enc, j.Timing.Codec(c))
		}
		return t
	})
}

// exchangeTariff prices the exchanges of ranks that sum gradients themselves.
func (j *Job) exchangeTariff(s *shard, gathered []bool, plain bool) *tariff {
	if j.Timing.Codec == nil || plain {
		return nil
	}
	return j.cores.tariff(bill{len: s.size(), exchange: true}, func() *tariff {
		t := newTariff(len(s.pieces))
		for i := range s.pieces {
			c, payloads := s.pieces[i].coding(j.Codec, j.Workers), 1
			if gathered[i] {
				payloads, c.Gathered = j.Workers, true
			} else {
				c.Ranks = j.Workers
			}
			enc := j.Timing.Codec(c)
			c.Decode = true
			t.add(i, enc, time.Duration(payloads)*j.Timing.Codec(c))
		}
		return t
	})
}

func newTariff(pieces int) *tariff {
	return &tariff{make([]time.Duration, pieces+1), make([]time.Duration, pieces+1)}
}

func (t *tariff) add(i int, enc, dec time.Duration) {
	t.enc[i+1], t.dec[i+1] = t.enc[i]+enc, t.dec[i]+dec
}

// coding is what is done to a piece with codec f.
func (pc *piece) coding(f compress.Family, world int) timing.Coding {
	if pc.raw {
		f = compress.Raw{}
	}
	b := pc.block
	b.World = world
	return timing.Coding{Codec: f, Block: b}
}

// tariff is made once for all ranks of a process.
func (c *cores) tariff(key bill, make func() *tariff) *tariff {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.tariffs[key]
	if !ok {
		if c.tariffs == nil {
			c.tariffs = map[bill]*tariff{}
		}
		t = make()
		c.tariffs[key] = t
	}
	return t
}

// encoding is the virtual time in which the payload of a part is made.
func (p *packer) encoding(pt part, flat bool) time.Duration {
	if _, whole := pt.stretch(flat); whole && p.raw {
		return 0 // it is that memory
	}
	return p.tariff.encode(pt.lo, pt.hi)
}

// decoding is the virtual time in which the payload of a part is decoded and
// added to a vector.
func (p *packer) decoding(pt part) time.Duration { return p.tariff.decode(pt.lo, pt.hi) }

// encoding is the virtual time in which the server makes the payload of part k for
// a worker. Those of casts are made once a version; a difference is also added to
// what the worker is known to hold.
func (d *downlink) encoding(worker, k int) time.Duration {
	pt := d.shard.parts[k]
	if !d.cast {
		return d.tariff.encode(pt.lo, pt.hi) + d.tariff.decode(pt.lo, pt.hi)
	}
	if d.billed[k] {
		return 0
	}
	d.billed[k] = true
	return d.shared.encoding(pt, false)
}

// taking is the virtual time in which the worker takes up part k: parameters that
// travel raw are read where they arrive.
func (u *uplink) taking(k int) time.Duration {
	if u.in.raw {
		return 0
	}
	return u.in.decoding(u.in.shard.parts[k])
}

// serving is the virtual time in which a server decodes part of a push and adds it
// up; the frame carries the parts from pieces lo to hi.
func (j *Job) serving(t *tariff, lo, hi, bytes int) time.Duration {
	if j.Timing.Apply > 0 {
		return timing.At(float64(bytes), j.Timing.Apply)
	}
	return t.decode(lo, hi)
}

// elapse lets d pass on a virtual clock, for an activity beside the main one whose
// times nobody tells.
func elapse(ctx context.Context, h comm.Host, d time.Duration) error {
	if d == 0 || !h.Virtual() {
		return nil
	}
	return h.Sleep(ctx, d)
}
