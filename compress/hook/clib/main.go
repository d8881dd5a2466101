//go:build cgo

// Command clib is the C library of gradlab's codecs, for programs in other languages:
//
//	CGO_ENABLED=1 go build -buildmode=c-shared -o libgradlab.so ./compress/hook/clib
//
// A function's last argument is a place for an error: where it fails it returns -1, or -2
// for NaN or Inf in a gradient or a sum of them. It leaves a text there, which gradlab_free
// gives back, as it does what functions put to out. Codecs, sessions and buckets are numbers from 1 on. Different codecs and sessions
// may be used by different threads, one of them by one at a time; tensors may be added to
// a session meanwhile. Memory that is passed in stays the caller's.
package main

/*
#include <stdint.h>
#include <stdlib.h>
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/hook"
)

// abi is raised when a function changes.
const abi = 2

func main() {}

// things are what callers know by number.
var things = struct {
	sync.Mutex
	by   map[int64]any
	last int64
}{by: map[int64]any{}}

func keep(v any) int64 {
	things.Lock()
	defer things.Unlock()
	things.last++
	things.by[things.last] = v
	return things.last
}

func drop(id int64) {
	things.Lock()
	defer things.Unlock()
	delete(things.by, id)
}

func get[T any](id C.int64_t) (v T, err error) {
	things.Lock()
	defer things.Unlock()
	v, ok := things.by[int64(id)].(T)
	if !ok {
		return v, fmt.Errorf("no %T has number %d", v, id)
	}
	return v, nil
}

// call is the body of a function: what it returns, or −1 or −2 and a text.
func call(text **C.char, f func() (int64, error)) (n C.int64_t) {
	fail := func(err error) {
		if n = -1; errors.Is(err, compress.ErrNotFinite) {
			n = -2
		}
		if text != nil {
			*text = C.CString(err.Error())
		}
	}
	defer func() {
		if p := recover(); p != nil {
			fail(fmt.Errorf("gradlab has a defect: %v", p))
		}
	}()
	v, err := f()
	if err != nil {
		fail(err)
		return n
	}
	return C.int64_t(v)
}

// floats and bytes are the caller's memory.
func floats(p *C.float, n int) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(p)), n) }

func bytes(p unsafe.Pointer, n C.int64_t) ([]byte, error) {
	if n < 0 || n > 0 && p == nil {
		return nil, fmt.Errorf("%d bytes at %v", n, p)
	}
	return unsafe.Slice((*byte)(p), int(n)), nil
}

// give copies b into memory that gradlab_free gives back.
func give(to *unsafe.Pointer, b []byte) int64 {
	*to = C.CBytes(b)
	return int64(len(b))
}

//export gradlab_abi
func gradlab_abi() C.int64_t { return abi }

//export gradlab_free
func gradlab_free(p unsafe.Pointer) { C.free(p) }

// gradlab_close gives up a codec, session or bucket.
//
//export gradlab_close
func gradlab_close(id C.int64_t) {
	if b, err := get[*bucket](id); err == nil {
		b.Close()
	}
	drop(int64(id))
}

// gradlab_spec gives a codec's spec text with all options.
//
//export gradlab_spec
func gradlab_spec(spec *C.char, out *unsafe.Pointer, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		f, err := compress.Parse(C.GoString(spec))
		if err != nil {
			return 0, err
		}
		return give(out, []byte(compress.Spec(f))), nil
	})
}

// blockOf is a tensor as callers describe it.
func blockOf(name, role *C.char, rows, cols C.int64_t, rank, world C.int64_t, seed C.uint64_t) compress.Block {
	return compress.Block{Name: C.GoString(name), Role: C.GoString(role), Rows: int(rows), Cols: int(cols),
		Rank: int(rank), World: int(world), Peer: -1, Seed: uint64(seed)}
}

// alone is the codec of one tensor.
type alone struct {
	compress.Codec
	of compress.Block
}

// values are the caller's n values of a codec's tensor.
func values(id C.int64_t, p *C.float, n C.int64_t) (*alone, []float32, error) {
	c, err := get[*alone](id)
	switch {
	case err != nil:
		return nil, nil, err
	case int(n) != c.of.Len():
		return nil, nil, fmt.Errorf("%d values, the tensor has %d", n, c.of.Len())
	}
	return c, floats(p, int(n)), nil
}

// gradlab_codec makes the codec of one tensor.
//
//export gradlab_codec
func gradlab_codec(spec, name, role *C.char, rows, cols, rank, world C.int64_t, seed C.uint64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		f, err := compress.Parse(C.GoString(spec))
		if err != nil {
			return 0, err
		}
		b := blockOf(name, role, rows, cols, rank, world, seed)
		if b.Rows <= 0 || b.Cols <= 0 || b.Rows > math.MaxInt/8/b.Cols || b.Rank < 0 || b.Rank >= b.World {
			return 0, fmt.Errorf("tensor %q of %d by %d elements, rank %d of %d", b.Name, b.Rows, b.Cols, b.Rank, b.World)
		}
		c, err := f.New(b)
		if err != nil {
			return 0, err
		}
		return keep(&alone{c, b}), nil
	})
}

// gradlab_claims gives what a codec guarantees on its tensor, as JSON.
//
//export gradlab_claims
func gradlab_claims(spec *C.char, rows, cols C.int64_t, out *unsafe.Pointer, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		f, err := compress.Parse(C.GoString(spec))
		if err != nil {
			return 0, err
		}
		c, ok := compress.ClaimsOf(f, compress.Block{Rows: int(rows), Cols: int(cols), World: 1, Peer: -1})
		if !ok {
			return 0, fmt.Errorf("codec %s claims nothing", compress.Spec(f))
		}
		b, err := json.Marshal(map[string]any{
			"lossless": c.Lossless, "unbiased": c.Unbiased, "delta": c.Delta, "size": c.Size, "exact": c.Exact, "raw": c.Raw,
			"sums": c.Linear != compress.NotLinear, "stateful": c.Stateful, "remembers": c.Remembers, "rounds": c.Rounds,
		})
		if err != nil {
			return 0, err
		}
		return give(out, b), nil
	})
}

// gradlab_encode encodes the n values of g; out is the payload.
//
//export gradlab_encode
func gradlab_encode(id C.int64_t, g *C.float, n, step C.int64_t, epoch, lr C.double, out *unsafe.Pointer, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		c, x, err := values(id, g, n)
		if err != nil {
			return 0, err
		}
		b, err := c.Append(nil, x, compress.Step{N: int(step), Epoch: float64(epoch), LR: float64(lr), Seed: c.of.Seed})
		if err != nil {
			return 0, err
		}
		return give(out, b), nil
	})
}

// gradlab_decode adds scale times what a payload of rank from and step stands for to dst.
//
//export gradlab_decode
func gradlab_decode(id C.int64_t, dst *C.float, n C.int64_t, scale C.float, payload unsafe.Pointer, length, from, step C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		c, x, err := values(id, dst, n)
		if err != nil {
			return 0, err
		}
		b, err := bytes(payload, length)
		if err != nil {
			return 0, err
		}
		return 0, c.AddTo(x, float32(scale), b, compress.From{Rank: int(from), Step: int(step)})
	})
}

// gradlab_open makes a session, see package hook.
//
//export gradlab_open
func gradlab_open(spec *C.char, rank, world C.int64_t, seed C.uint64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		s, err := hook.Open(C.GoString(spec), int(rank), int(world), uint64(seed))
		if err != nil {
			return 0, err
		}
		return keep(s), nil
	})
}

// gradlab_plain is 1 where a session's codec sends gradients as they are.
//
//export gradlab_plain
func gradlab_plain(session C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		s, err := get[*hook.Session](session)
		if err != nil || !s.Plain() {
			return 0, err
		}
		return 1, nil
	})
}

// gradlab_add adds a tensor, and returns its number in the session, from 0 on.
//
//export gradlab_add
func gradlab_add(session C.int64_t, name, role *C.char, rows, cols C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		s, err := get[*hook.Session](session)
		if err != nil {
			return 0, err
		}
		id, err := s.Add(C.GoString(name), C.GoString(role), int(rows), int(cols))
		return int64(id), err
	})
}

// gradlab_state gives what tensor id must keep over a restart.
//
//export gradlab_state
func gradlab_state(session, id C.int64_t, out *unsafe.Pointer, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		s, err := get[*hook.Session](session)
		if err != nil {
			return 0, err
		}
		b, err := s.AppendState(nil, int(id))
		if err != nil {
			return 0, err
		}
		return give(out, b), nil
	})
}

// gradlab_restore takes what gradlab_state gave: sizes[0] bytes at states[0], of this
// rank of as many; or what it gave to each of n ranks, where that number was another.
//
//export gradlab_restore
func gradlab_restore(session, id, n C.int64_t, states *unsafe.Pointer, sizes *C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		s, err := get[*hook.Session](session)
		if err != nil {
			return 0, err
		}
		of, err := parts(n, states, sizes)
		if err != nil {
			return 0, err
		}
		return 0, s.Restore(int(id), of...)
	})
}

// parts are n pieces of the caller's memory.
func parts(n C.int64_t, at *unsafe.Pointer, sizes *C.int64_t) ([][]byte, error) {
	of := make([][]byte, int(n))
	for i := range of {
		var err error
		if of[i], err = bytes(unsafe.Slice(at, int(n))[i], unsafe.Slice(sizes, int(n))[i]); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// bucket is one that is under way.
type bucket struct {
	*hook.Bucket
	ids   []int
	sizes []int
	buf   []byte
}

// gradients are n tensors of a bucket.
func gradients(at **C.float, sizes []int) [][]float32 {
	out := make([][]float32, len(sizes))
	for i, p := range unsafe.Slice(at, len(sizes)) {
		out[i] = floats(p, sizes[i])
	}
	return out
}

// gradlab_begin encodes n tensors, sizes[i] values at grads[i], and gives the bucket.
//
//export gradlab_begin
func gradlab_begin(session, step C.int64_t, epoch, lr C.double, n C.int64_t, ids, sizes *C.int64_t, grads **C.float, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		s, err := get[*hook.Session](session)
		if err != nil {
			return 0, err
		}
		b := &bucket{}
		for i, id := range unsafe.Slice(ids, int(n)) {
			b.ids = append(b.ids, int(id))
			b.sizes = append(b.sizes, int(unsafe.Slice(sizes, int(n))[i]))
		}
		if b.Bucket, err = s.Begin(compress.Step{N: int(step), Epoch: float64(epoch), LR: float64(lr)}, b.ids, gradients(grads, b.sizes)); err != nil {
			return 0, err
		}
		return keep(b), nil
	})
}

// What a round asks for, as gradlab_asks gives it: elements of each vector, then bytes.
// To these numbers vectors are put and taken.
const (
	askMax     = iota // elements of float32
	askSum            // and the wire formats behind it: float32, float16, bfloat16, int8, int16
	askGather  = askSum + int(compress.Wires)
	askEven    = askGather + 1 // 1 where all ranks gather as many bytes
	askScatter = askEven + 1   // bytes for each rank, from here on
)

func vectorOf(what C.int64_t) (hook.Vector, error) {
	switch n := int(what); {
	case n == askMax:
		return hook.Vector{Kind: compress.OpMax}, nil
	case askSum <= n && n < askGather:
		return hook.Vector{Kind: compress.OpSum, Wire: compress.Wire(n - askSum)}, nil
	}
	return hook.Vector{}, fmt.Errorf("vector %d", what)
}

// gradlab_asks says what a round is of, in 8 numbers and one for each rank: elements of
// float32 whose maximum is wanted; elements of float32, float16, bfloat16, int8 and int16
// whose sums are wanted; bytes to be gathered, whether all ranks have as many; and bytes
// for each rank. It returns 0 where the exchange is over.
//
//export gradlab_asks
func gradlab_asks(id C.int64_t, world C.int64_t, out *C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		b, err := get[*bucket](id)
		if err != nil {
			return 0, err
		}
		a, more := b.Asks()
		if !more {
			return 0, nil
		}
		o := unsafe.Slice(out, askScatter+int(world))
		clear(o)
		o[askMax], o[askGather] = C.int64_t(a.Max), C.int64_t(a.Gather)
		for w, n := range a.Sums {
			o[askSum+w] = C.int64_t(n)
		}
		if a.Even {
			o[askEven] = 1
		}
		for to, n := range a.Scatter {
			o[askScatter+to] = C.int64_t(n)
		}
		return 1, nil
	})
}

// gradlab_put writes a vector of this rank, n bytes, to dst.
//
//export gradlab_put
func gradlab_put(id, what C.int64_t, dst unsafe.Pointer, n C.int64_t, text **C.char) C.int64_t {
	return vector(id, what, dst, n, text, (*hook.Bucket).Put)
}

// gradlab_take reads a vector that the ranks' came to.
//
//export gradlab_take
func gradlab_take(id, what C.int64_t, src unsafe.Pointer, n C.int64_t, text **C.char) C.int64_t {
	return vector(id, what, src, n, text, (*hook.Bucket).Take)
}

func vector(id, what C.int64_t, at unsafe.Pointer, n C.int64_t, text **C.char, do func(*hook.Bucket, hook.Vector, []byte) error) C.int64_t {
	return call(text, func() (int64, error) {
		b, err := get[*bucket](id)
		if err != nil {
			return 0, err
		}
		v, err := vectorOf(what)
		if err != nil {
			return 0, err
		}
		mem, err := bytes(at, n)
		if err != nil {
			return 0, err
		}
		return 0, do(b.Bucket, v, mem)
	})
}

// gradlab_put_parts writes the payloads that are to be gathered to dst, n bytes; or,
// where to is no less than 0, what is for that rank.
//
//export gradlab_put_parts
func gradlab_put_parts(id, to C.int64_t, dst unsafe.Pointer, n C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		b, err := get[*bucket](id)
		if err != nil {
			return 0, err
		}
		mem, err := bytes(dst, n)
		if err != nil {
			return 0, err
		}
		if to >= 0 {
			b.buf = b.PutScatter(b.buf[:0], int(to))
		} else if b.buf, err = b.PutGather(b.buf[:0]); err != nil {
			return 0, err
		}
		if len(b.buf) != len(mem) {
			return 0, fmt.Errorf("%d bytes for %d", len(mem), len(b.buf))
		}
		copy(mem, b.buf)
		return 0, nil
	})
}

// gradlab_take_parts reads what each rank put, sizes[r] bytes at at[r]: payloads
// gathered, or with scattered=1 what was for this rank. The memory is read until
// gradlab_output.
//
//export gradlab_take_parts
func gradlab_take_parts(id, scattered, world C.int64_t, at *unsafe.Pointer, sizes *C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		b, err := get[*bucket](id)
		if err != nil {
			return 0, err
		}
		of, err := parts(world, at, sizes)
		if err != nil {
			return 0, err
		}
		if scattered != 0 {
			return 0, b.TakeParts(compress.OpScatter, of)
		}
		return 0, b.TakeParts(compress.OpGather, of)
	})
}

// gradlab_next takes what the round has brought, and begins the next one.
//
//export gradlab_next
func gradlab_next(id C.int64_t, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		b, err := get[*bucket](id)
		if err != nil {
			return 0, err
		}
		return 0, b.Next()
	})
}

// gradlab_output replaces each gradient by scale times the sum over the ranks, and gives
// the bucket up.
//
//export gradlab_output
func gradlab_output(id C.int64_t, grads **C.float, scale C.float, text **C.char) C.int64_t {
	return call(text, func() (int64, error) {
		b, err := get[*bucket](id)
		if err != nil {
			return 0, err
		}
		defer drop(int64(id))
		return 0, b.Output(gradients(grads, b.sizes), float32(scale))
	})
}
