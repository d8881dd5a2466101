package external

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// The shared memory is parameters, gradients, the inputs of a batch, its labels, and where
// samples are mixed their other labels and the shares of the first ones. Parameters
// and gradients are float32 or, by Options.Values, bfloat16; first parameters are float32
// in either case, as both halves together hold them.

// half reports whether parameters and gradients are bfloat16.
func (p *process) half() bool { return p.opt.Values == "bf16" }

// width is the bytes of a parameter or gradient.
func (p *process) width() int {
	if p.half() {
		return 2
	}
	return 4
}

// vectors is the bytes of parameters and gradients.
func (p *process) vectors() int { return 2 * p.width() * p.layout.Size() }

// room makes the shared memory at least so many bytes.
func (p *process) room(size int) error {
	if size <= len(p.mem) {
		return nil
	}
	if err := p.file.Truncate(int64(size)); err != nil {
		return fmt.Errorf("external: shared memory of %d bytes: %w", size, err)
	}
	mem, err := syscall.Mmap(int(p.file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("external: shared memory of %d bytes: %w", size, err)
	}
	p.unmap()
	p.mem = mem
	return p.send(message{Op: "map", Size: size})
}

// unmap gives the memory back. Only who holds the process may call it.
func (p *process) unmap() {
	if p.mem != nil {
		_ = syscall.Munmap(p.mem)
		p.mem = nil
	}
}

// floats is n values of the shared memory from byte at on, a multiple of four.
func (p *process) floats(at, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&p.mem[at])), n)
}

// ints is n integers of the shared memory from byte at on, a multiple of four.
func (p *process) ints(at, n int) []int32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&p.mem[at])), n)
}

// put writes parameters and a batch.
func (p *process) put(params []float32, b sgd.Batch) error {
	inputs := p.vectors()
	labels := inputs + 4*len(b.X)
	others := labels + 4*len(b.Y)
	shares := others + 4*len(b.Other)
	if err := p.room(shares + 4*len(b.Share)); err != nil {
		return err
	}
	if p.half() {
		f32.EncodeBF16(p.mem[:2*len(params)], params)
	} else {
		copy(p.floats(0, len(params)), params)
	}
	copy(p.floats(inputs, len(b.X)), b.X)
	copy(p.ints(labels, len(b.Y)), b.Y)
	copy(p.ints(others, len(b.Other)), b.Other)
	copy(p.floats(shares, len(b.Share)), b.Share)
	return nil
}

// gradient reads the gradient of tensor i.
func (p *process) gradient(dst []float32, i int) {
	at := p.width() * (p.layout.Size() + p.layout.Spans[i].Off)
	if p.half() {
		f32.DecodeBF16(dst, p.mem[at:at+2*len(dst)])
	} else {
		copy(dst, p.floats(at, len(dst)))
	}
}
