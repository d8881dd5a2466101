// Package hook takes the exchanges of a codec through their steps for a caller that has
// collectives of its own, such as a communication hook of PyTorch. It asks and never talks:
//
//	s, _ := hook.Open("feedback(powersgd(rank=2))", rank, world, seed)
//	w, _ := s.Add("fc.weight", "weight", 10, 64)
//	b, _ := s.Begin(compress.Step{N: 0}, []int{w}, [][]float32{gradient})
//	for asks, more := b.Asks(); more; asks, more = b.Asks() {
//		// Put, the caller's collective, Take: of everything that asks names
//		b.Next()
//	}
//	b.Output([][]float32{gradient}, 1/float32(world))
//
// The like operations of a round are one collective. Sums, gathers and slices are those
// of mode reduce, in the same order, so on the same gradients the results have the same
// bits wherever the caller's sums have: always for whole numbers and over two ranks, for
// floating-point numbers over more ranks where they are added in the same order.
//
// Package clib makes a C library of it.
package hook

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

// Session is one rank's exchanges of a codec: a block for every tensor. Blocks may be
// added while a bucket is under way; for the rest it is used by one goroutine at a time.
type Session struct {
	family compress.Family
	in     compress.Block // rank, world, seed

	mu     sync.Mutex // of what follows
	blocks []*block
	names  map[string]bool
}

type block struct {
	of   compress.Block
	ex   compress.Exchange
	size int // exact length of its payloads, −1 if it varies
	cast *cast
	busy bool
}

// Open makes a session of rank of world, from a codec's spec text.
func Open(spec string, rank, world int, seed uint64) (*Session, error) {
	f, err := compress.Parse(spec)
	if err != nil {
		return nil, err
	}
	if rank < 0 || rank >= world {
		return nil, fmt.Errorf("rank %d of %d ranks", rank, world)
	}
	return &Session{family: f, in: compress.Block{Rank: rank, World: world, Peer: -1, Seed: seed}, names: map[string]bool{}}, nil
}

// Plain reports whether the codec sends gradients as they are, so that the caller may
// sum them where they lie.
func (s *Session) Plain() bool { return compress.Plain(s.family) }

// Add makes the block of a tensor of rows by cols elements (a vector is 1 by n), and
// returns its number. Names, roles and shapes must be those of all ranks, whatever the
// order. Role is weight, embedding, bias, norm, or "" if unknown.
func (s *Session) Add(name, role string, rows, cols int) (int, error) {
	switch {
	case rows <= 0 || cols <= 0 || rows > math.MaxInt/8/cols:
		return 0, fmt.Errorf("tensor %q of %d by %d elements", name, rows, cols)
	}
	of := s.in
	of.Name, of.Role, of.Rows, of.Cols = name, role, rows, cols
	ex, road, err := compress.NewExchange(s.family, of)
	if err != nil {
		return 0, fmt.Errorf("codec %s on %s: %w", compress.Spec(s.family), name, err)
	}
	b := &block{of: of, ex: ex, size: -1}
	if c, ok := compress.ClaimsOf(s.family, of); ok && c.Exact && road != compress.RoadOwn {
		b.size = c.Size
	}
	if b.cast, err = newCast(s.family, of, road); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[name] {
		return 0, fmt.Errorf("two tensors are called %q", name)
	}
	s.names[name], s.blocks = true, append(s.blocks, b)
	return len(s.blocks) - 1, nil
}

// AppendState appends what a block must keep over a restart; nothing if it keeps nothing.
func (s *Session) AppendState(dst []byte, id int) ([]byte, error) {
	b, err := s.block(id)
	if err != nil {
		return dst, err
	}
	if st, ok := b.ex.(compress.Stateful); ok {
		return st.AppendBinary(dst)
	}
	return dst, nil
}

// Restore is the reverse of AppendState. Several states are those of all ranks of a
// session that had as many: then each rank owes the mean of what those owed, so that the
// mean over the ranks loses nothing, and whatever else the codec keeps begins anew. A
// memory that cannot be handed over so (compress.Owing) is an error.
func (s *Session) Restore(id int, states ...[]byte) error {
	b, err := s.block(id)
	if err != nil {
		return err
	}
	if len(states) == 1 {
		err = s.restore(b.ex, states[0])
	} else {
		err = s.takeOver(b, states)
	}
	if err != nil {
		return fmt.Errorf("state of %s: %w", b.of.Name, err)
	}
	return nil
}

func (s *Session) restore(x compress.Exchange, state []byte) error {
	if st, ok := x.(compress.Stateful); ok {
		return st.UnmarshalBinary(state)
	}
	if len(state) > 0 {
		return fmt.Errorf("codec %s keeps nothing", compress.Spec(s.family))
	}
	return nil
}

func (s *Session) takeOver(b *block, states [][]byte) error {
	owed := make([]float32, b.of.Len())
	for rank, state := range states {
		of := b.of
		of.Rank, of.World = rank, len(states)
		x, _, err := compress.NewExchange(s.family, of)
		if err == nil {
			err = s.restore(x, state)
		}
		if err != nil {
			return fmt.Errorf("rank %d of %d: %w", rank, len(states), err)
		}
		switch x := x.(type) {
		case compress.Owing:
			x.AddResidual(owed, 1/float32(len(states)))
		case compress.Residualer:
			return fmt.Errorf("codec %s does not hand over what it remembers to another number of ranks; begin without its state", compress.Spec(s.family))
		}
	}
	x, _, err := compress.NewExchange(s.family, b.of)
	if err != nil {
		return err
	}
	if o, ok := x.(compress.Owing); ok {
		o.Owe(owed)
	}
	b.ex = x
	return nil
}

func (s *Session) block(id int) (*block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id < 0 || id >= len(s.blocks) {
		return nil, fmt.Errorf("block %d of %d", id, len(s.blocks))
	}
	return s.blocks[id], nil
}

// Bucket is a step of some blocks, whose exchanges are made together.
type Bucket struct {
	s      *Session
	step   compress.Step
	blocks []*block
	ops    []compress.Op
}

// Begin encodes the gradients of some blocks, which are not kept. All ranks name the same
// blocks in the same order. On an error the blocks' step is void; a residual may
// have taken in the gradient of those before the one that failed.
func (s *Session) Begin(step compress.Step, ids []int, grads [][]float32) (*Bucket, error) {
	if len(ids) != len(grads) {
		return nil, fmt.Errorf("%d blocks and %d gradients", len(ids), len(grads))
	}
	step.Seed = s.in.Seed
	bk := &Bucket{s: s, step: step, ops: make([]compress.Op, len(ids))}
	for i, id := range ids {
		b, err := s.block(id)
		switch {
		case err != nil:
		case b.busy:
			err = fmt.Errorf("%s is in two buckets at once", b.of.Name)
		case len(grads[i]) != b.of.Len():
			err = fmt.Errorf("%s: %d elements, want %d", b.of.Name, len(grads[i]), b.of.Len())
		}
		if err == nil {
			if bk.ops[i], err = b.begin(grads[i], step); err != nil {
				err = fmt.Errorf("rank %d, step %d, %s: %w", s.in.Rank, step.N, b.of.Name, err)
			}
		}
		if err != nil {
			bk.Close()
			return nil, err
		}
		b.busy, bk.blocks = true, append(bk.blocks, b)
	}
	return bk, nil
}

// Close gives up what is left of the step.
func (b *Bucket) Close() {
	for _, bl := range b.blocks {
		bl.busy = false
	}
	b.blocks = nil
}

// Asks is what the collectives of a round are of.
type Asks struct {
	Max     int                 // elements of float32 whose maximum over the ranks is wanted
	Sums    [compress.Wires]int // elements by wire format whose sum is wanted
	Gather  int                 // bytes of this rank that every rank is to get
	Even    bool                // all ranks have as many of them
	Scatter []int               // bytes for each rank; nil: none
}

// Asks says what is to be done in this round, and whether there is anything.
func (b *Bucket) Asks() (a Asks, more bool) {
	a.Even = true
	for i := range b.ops {
		op := &b.ops[i]
		more = more || op.Kind != compress.OpNone
		switch op.Kind {
		case compress.OpMax:
			a.Max += len(op.Floats)
		case compress.OpSum:
			a.Sums[op.Wire] += b.blocks[i].elements(op)
		case compress.OpGather:
			a.Gather += len(op.Bytes)
			if b.blocks[i].size < 0 {
				a.Gather, a.Even = a.Gather+uvarintLen(len(op.Bytes)), false
			}
		case compress.OpScatter:
			if a.Scatter == nil {
				a.Scatter = make([]int, b.s.in.World)
			}
			for to, slice := range op.Slices {
				a.Scatter[to] += uvarintLen(len(slice)) + len(slice)
			}
		}
	}
	return a, more
}

func uvarintLen(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }

// Vector names the elements of one all-reduce: maxima, or sums in a wire format.
type Vector struct {
	Kind compress.OpKind // OpMax or OpSum
	Wire compress.Wire
}

// wires write elements in a wire format, and read them.
var wires = [compress.Wires]struct {
	put func(dst []byte, x []float32)
	set func(x []float32, src []byte)
}{
	compress.F32:  {func(dst []byte, x []float32) { f32.AppendBytes(dst[:0], x) }, f32.FromBytes},
	compress.F16:  {f32.EncodeFP16, f32.DecodeFP16},
	compress.BF16: {f32.EncodeBF16, f32.DecodeBF16},
	compress.I8:   {codec.PutI8, codec.SetI8},
	compress.I16:  {codec.PutI16, codec.SetI16},
}

// Put writes this rank's elements to dst, which has as many bytes as they take.
func (b *Bucket) Put(v Vector, dst []byte) error {
	return b.each(v, dst, func(own []byte, c *cast, x []float32) {
		if c != nil {
			copy(own, c.own)
			return
		}
		wires[v.Wire].put(own, x)
	})
}

// Take reads what all ranks' elements came to.
func (b *Bucket) Take(v Vector, src []byte) error {
	return b.each(v, src, func(sum []byte, c *cast, x []float32) {
		if c != nil {
			c.sum = append(c.sum[:0], sum...)
			return
		}
		wires[v.Wire].set(x, sum)
	})
}

// each hands out the stretch of bytes of every operation of a vector.
func (b *Bucket) each(v Vector, bytes []byte, do func(part []byte, c *cast, x []float32)) error {
	want := 0
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == v.Kind && op.Wire == v.Wire {
			want += b.blocks[i].elements(op) * v.Wire.Bytes()
		}
	}
	if len(bytes) != want {
		return fmt.Errorf("%d bytes for elements of %d", len(bytes), want)
	}
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == v.Kind && op.Wire == v.Wire {
			n := b.blocks[i].elements(op) * v.Wire.Bytes()
			do(bytes[:n], b.blocks[i].cast, op.Floats)
			bytes = bytes[n:]
		}
	}
	return nil
}

// PutGather appends this rank's payloads to dst. Those whose length varies are preceded
// by it.
func (b *Bucket) PutGather(dst []byte) ([]byte, error) {
	for i := range b.ops {
		op := &b.ops[i]
		if op.Kind != compress.OpGather {
			continue
		}
		if size := b.blocks[i].size; size < 0 {
			dst = binary.AppendUvarint(dst, uint64(len(op.Bytes)))
		} else if size != len(op.Bytes) {
			return dst, fmt.Errorf("%s: codec wrote %d bytes, it claims %d exactly", b.blocks[i].of.Name, len(op.Bytes), size)
		}
		dst = append(dst, op.Bytes...)
	}
	return dst, nil
}

// PutScatter appends what is for one rank to dst.
func (b *Bucket) PutScatter(dst []byte, to int) []byte {
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpScatter {
			dst = append(binary.AppendUvarint(dst, uint64(len(op.Slices[to]))), op.Slices[to]...)
		}
	}
	return dst
}

// TakeParts reads what every rank put for this one, of kind OpGather or OpScatter. The
// parts must stay as they are until Output.
func (b *Bucket) TakeParts(kind compress.OpKind, parts [][]byte) error {
	if len(parts) != b.s.in.World {
		return fmt.Errorf("parts of %d ranks, want %d", len(parts), b.s.in.World)
	}
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind {
			op.Parts = append(op.Parts[:0], make([][]byte, len(parts))...)
		}
	}
	for rank, part := range parts {
		for i := range b.ops {
			op := &b.ops[i]
			if op.Kind != kind {
				continue
			}
			size := uint64(max(b.blocks[i].size, 0))
			if kind == compress.OpScatter || b.blocks[i].size < 0 {
				n, w := binary.Uvarint(part)
				if w <= 0 {
					return fmt.Errorf("payload of rank %d for %s: %w", rank, b.blocks[i].of.Name, compress.ErrCorrupt)
				}
				size, part = n, part[w:]
			}
			if size > uint64(len(part)) {
				return fmt.Errorf("payload of rank %d for %s: %w", rank, b.blocks[i].of.Name, compress.ErrCorrupt)
			}
			op.Parts[rank], part = part[:size], part[size:]
		}
		if len(part) > 0 {
			return fmt.Errorf("%d bytes behind the payloads of rank %d: %w", len(part), rank, compress.ErrCorrupt)
		}
	}
	return nil
}

// Next takes what the round has brought, and begins the next one.
func (b *Bucket) Next() error {
	for i, bl := range b.blocks {
		if b.ops[i].Kind == compress.OpNone {
			continue
		}
		var err error
		if b.ops[i], err = bl.next(b.ops[i]); err != nil {
			return fmt.Errorf("rank %d, step %d, %s: %w", b.s.in.Rank, b.step.N, bl.of.Name, err)
		}
	}
	return nil
}

// Output replaces each gradient by scale times the sum over all ranks, and ends the step.
func (b *Bucket) Output(grads [][]float32, scale float32) error {
	if len(grads) != len(b.blocks) {
		return fmt.Errorf("%d gradients of %d blocks", len(grads), len(b.blocks))
	}
	for i, bl := range b.blocks {
		if len(grads[i]) != bl.of.Len() {
			return fmt.Errorf("%s: %d elements, want %d", bl.of.Name, len(grads[i]), bl.of.Len())
		}
		clear(grads[i])
		if err := bl.output(grads[i], scale); err != nil {
			return fmt.Errorf("rank %d, step %d, %s: %w", b.s.in.Rank, b.step.N, bl.of.Name, err)
		}
	}
	b.Close()
	return nil
}
