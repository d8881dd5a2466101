package train

import (
	"context"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// What follows bills coding on the virtual clock: what really happens, block by
// block. A payload of raw that is the memory of the gradient itself costs nothing
// to make, nor do sums of raw gradients where they lie. A server bills the pushes
// it decodes by Timing.Codec, or by Timing.Apply where that is set, never by both.

// Content is what the payloads of the job hold.
func (j *Job) Content() wire.Content { return wire.Content{Weightless: j.Weightless, Sizes: j.Sizes} }

// packer makes the packer of a shard for this job.
func (j *Job) packer(s *wire.Shard, f compress.Family, b compress.Block) (*wire.Packer, error) {
	p, err := j.Content().NewPacker(s, f, b)
	if err == nil {
		p.Tariff = j.tariff(s, b.Dir == compress.Down, b.Dir == compress.Down && b.Rank >= 0)
	}
	return p, err
}

// bill names a tariff: of a shard, on the way up or down, at a worker or a server.
type bill struct {
	off, len     int // of the shard: where its first piece lies, and its size
	down, server bool
	exchange     bool
}

// tariff prices the payloads of a shard's pieces.
func (j *Job) tariff(s *wire.Shard, down, server bool) *wire.Tariff {
	if j.Timing.Codec == nil || j.cores == nil || len(s.Pieces) == 0 {
		return nil
	}
	key := bill{off: s.Pieces[0].Off, len: s.Size(), down: down, server: server}
	return j.cores.tariff(key, func() *wire.Tariff {
		f := j.Codec
		if down {
			f = j.DownCodec
		}
		return wire.NewTariff(len(s.Pieces), func(i int) (enc, dec time.Duration) {
			c := s.Pieces[i].Coding(f, j.Workers)
			c.Server = server
			enc = j.Timing.Codec(c)
			c.Decode = true
			return enc, j.Timing.Codec(c)
		})
	})
}

// ExchangeTariff prices the exchanges of ranks that sum gradients themselves.
func (j *Job) ExchangeTariff(s *wire.Shard, gathered []bool, plain bool) *wire.Tariff {
	if j.Timing.Codec == nil || plain {
		return nil
	}
	return j.cores.tariff(bill{len: s.Size(), exchange: true}, func() *wire.Tariff {
		return wire.NewTariff(len(s.Pieces), func(i int) (enc, dec time.Duration) {
			c, payloads := s.Pieces[i].Coding(j.Codec, j.Workers), 1
			if gathered[i] {
				payloads, c.Gathered = j.Workers, true
			} else {
				c.Ranks = j.Workers
			}
			enc = j.Timing.Codec(c)
			c.Decode = true
			return enc, time.Duration(payloads) * j.Timing.Codec(c)
		})
	})
}

// tariff is made once for all ranks of a process.
func (c *cores) tariff(key bill, make func() *wire.Tariff) *wire.Tariff {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.tariffs[key]
	if !ok {
		if c.tariffs == nil {
			c.tariffs = map[bill]*wire.Tariff{}
		}
		t = make()
		c.tariffs[key] = t
	}
	return t
}

// encoding is the virtual time in which the server makes the payload of part k for
// a worker. Those of casts are made once a version; a difference is also added to
// what the worker is known to hold.
func (d *downlink) encoding(worker, k int) time.Duration {
	pt := d.shard.Parts[k]
	if !d.cast {
		return d.tariff.Encode(pt.Lo, pt.Hi) + d.tariff.Decode(pt.Lo, pt.Hi)
	}
	if d.billed[k] {
		return 0
	}
	d.billed[k] = true
	return d.shared.Encoding(pt, false)
}

// taking is the virtual time in which the worker takes up part k: parameters that
// travel raw are read where they arrive.
func (u *uplink) taking(k int) time.Duration {
	if u.in.Raw {
		return 0
	}
	return u.in.Decoding(u.in.Shard.Parts[k])
}

// serving is the virtual time in which a server decodes part of a push and adds it
// up; the frame carries the parts from pieces lo to hi.
func (j *Job) serving(t *wire.Tariff, lo, hi, bytes int) time.Duration {
	if j.Timing.Apply > 0 {
		return timing.At(float64(bytes), j.Timing.Apply)
	}
	return t.Decode(lo, hi)
}

// Elapse lets d pass on a virtual clock, for an activity beside the main one whose
// times nobody tells.
func Elapse(ctx context.Context, h comm.Host, d time.Duration) error {
	if d == 0 || !h.Virtual() {
		return nil
	}
	return h.Sleep(ctx, d)
}
