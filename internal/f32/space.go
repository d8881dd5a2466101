package f32

import "sync"

// workspace is the scratch memory of one running product.
type workspace struct {
	call    call
	a, b, c []float32 // packed A, packed B, a transposed result
}

// pool keeps values for use again. Unlike sync.Pool it does not lose them to
// the garbage collector, so that nothing is allocated in steady state.
type pool[T any] struct {
	mu   sync.Mutex
	free []*T
}

// maxPooled bounds what a pool keeps. A workspace is at most about 2 MiB.
const maxPooled = 64

// get returns a kept value, or nil.
func (p *pool[T]) get() *T {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return nil
	}
	x := p.free[n-1]
	p.free = p.free[:n-1]
	return x
}

func (p *pool[T]) put(x *T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		p.free = make([]*T, 0, maxPooled)
	}
	if len(p.free) < maxPooled {
		p.free = append(p.free, x)
	}
}

var spaces pool[workspace]

func getSpace() *workspace {
	if w := spaces.get(); w != nil {
		return w
	}
	return new(workspace)
}

func putSpace(w *workspace) {
	w.call = call{} // keep no matrix alive
	spaces.put(w)
}

// grow returns n elements of x, or of a new slice. What they hold is arbitrary.
func grow(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
