package compresstest

import (
	"bytes"
	"fmt"

	"github.com/gradlab/gradlab/compress"
)

// pair is a sender and its receiving end.
type pair struct {
	*coder
	compress.Receiver
}

func newPair(f compress.Family, b compress.Block) (*pair, error) {
	c, err := newCoder(f, b)
	if err != nil {
		return nil, err
	}
	far := b
	far.Rank = -1
	r, err := compress.NewReceiver(f, far)
	if err != nil {
		return nil, fmt.Errorf("NewReceiver: %w", err)
	}
	return &pair{c, r}, nil
}

// receive adds the last payload to dst.
func (p *pair) receive(dst []float32, scale float32) error {
	from := compress.From{Rank: p.block.Rank, Step: p.step - 1}
	if p.Receiver == nil {
		return p.AddTo(dst, scale, p.payload, from)
	}
	return p.Receive(dst, scale, p.payload, from)
}

// checkReceiver: the receiving end of a codec that has one adds and scales,
// comes to what the sender holds, refuses malformed payloads without noticing
// them, goes on from saved state bit for bit, and gives what the same codec gives
// over a gather.
func checkReceiver(f compress.Family) error {
	if !compress.KeepsReceiver(f) {
		return nil
	}
	for _, d := range []int{0, 1, 65, 513} {
		if err := receiverTracks(f, d); err != nil {
			return fmt.Errorf("%d elements: %w", d, err)
		}
		if err := receiverGathers(f, d); err != nil {
			return fmt.Errorf("%d elements: %w", d, err)
		}
	}
	return nil
}

// receiverTracks feeds a sender some vectors, and then the same one again and
// again.
func receiverTracks(f compress.Family, d int) error {
	p, err := newPair(f, block(d))
	if err != nil || p.Receiver == nil {
		return err
	}
	twin, err := newPair(f, block(d)) // takes every payload too, but is attacked in between
	if err != nil {
		return err
	}
	got, other := make([]float32, d), make([]float32, d)
	in := compress.Claims{Delta: 1}
	if m, ok := f.(compress.Compensator); ok {
		in, _ = compress.ClaimsOf(m.Remembers(), block(d))
	}
	const vectors, steps = 25, 2000
	for n := range steps {
		g := gaussian(d, min(n, vectors))
		if err := p.encode(g); err != nil {
			return err
		}
		if err := twin.attacked(p.payload, n); err != nil {
			return err
		}
		clear(got)
		f32Fill(other, 1)
		if err := p.receive(got, 1); err != nil {
			return err
		}
		twin.payload, twin.step = p.payload, p.step
		if err := twin.receive(other, -2); err != nil {
			return err
		}
		for i := range got {
			if want := 1 - 2*got[i]; other[i] != want {
				return fmt.Errorf("step %d: Receive with scale -2 on 1 gives %v at %d, want %v: refused payloads left a trace, or it does not add", n, other[i], i, want)
			}
		}
		if n%7 == 3 {
			if twin.Receiver, err = restored(f, twin); err != nil {
				return err
			}
		}
		if e := distance2(got, g); n > vectors && e <= 1e-10*norm2(g) {
			return nil
		} else if n > 100 && in.Delta*float64(n-vectors) > 50 {
			return fmt.Errorf("after %d steps on one vector the squared distance to it is %.3g of its norm, with delta %.3g", n, e/norm2(g), in.Delta)
		}
	}
	return nil
}

func f32Fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// attacked feeds malformed payloads to the receiver.
func (p *pair) attacked(good []byte, step int) error {
	dst := make([]float32, p.block.Len())
	for _, bad := range [][]byte{nil, good[:len(good)/2], append(bytes.Clone(good), 1), append(bytes.Clone(good), make([]byte, 9)...)} {
		if bytes.Equal(bad, good) {
			continue
		}
		err := guard(func() error { return p.Receive(dst, 1, bad, compress.From{Rank: p.block.Rank, Step: step}) })
		if !errCorrupt(err) {
			return fmt.Errorf("Receive of %d bytes in place of %d: %v, want ErrCorrupt", len(bad), len(good), err)
		}
		if norm2(dst) != 0 {
			return fmt.Errorf("Receive wrote to dst before the error %q", err)
		}
	}
	return nil
}

// restored is a fresh receiver with p's state.
func restored(f compress.Family, p *pair) (compress.Receiver, error) {
	s, ok := p.Receiver.(compress.Stateful)
	if !ok {
		return nil, fmt.Errorf("the receiver has no state to save")
	}
	state, err := s.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	z, err := newPair(f, p.block)
	if err != nil {
		return nil, err
	}
	to, ok := z.Receiver.(compress.Stateful)
	if !ok {
		return nil, fmt.Errorf("the receiver has no state to restore")
	}
	if err := damage(to, state); err != nil {
		return nil, err
	}
	return z.Receiver, to.UnmarshalBinary(state)
}

// receiverGathers compares a server with receivers for three senders to the
// same codec over a gather.
func receiverGathers(f compress.Family, d int) error {
	r := &ring{sent: make([]int, world)}
	var pairs []*pair
	for rank := range world {
		b := block(d)
		b.Rank, b.World = rank, world
		x, err := compress.NewGather(f, b)
		if err != nil {
			return fmt.Errorf("NewGather: %w", err)
		}
		p, err := newPair(f, b)
		if err != nil {
			return err
		}
		r.ex, pairs = append(r.ex, x), append(pairs, p)
	}
	for n := range 5 {
		sum, out := make([]float32, d), make([]float32, d)
		g := make([][]float32, world)
		for rank, p := range pairs {
			g[rank] = inputs[(n+rank)%4].vector(d, n)
			if err := p.encode(g[rank]); err != nil {
				return err
			}
			if err := p.receive(sum, 1); err != nil {
				return err
			}
		}
		if err := r.step(n, g); err != nil {
			return err
		}
		if err := r.ex[0].Output(out, 1); err != nil {
			return err
		}
		if e := distance2(sum, out); e > 1e-10*(norm2(sum)+norm2(out)) {
			return fmt.Errorf("step %d: receivers come to something else than a gather, by %.3g of the squared norm", n, e/norm2(out))
		}
	}
	return nil
}
