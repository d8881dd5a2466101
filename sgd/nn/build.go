package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Layer is one step of a net, described by its options. It is bound to an
// input shape when the net is built; what does not fit is an error then.
type Layer interface {
	bind(b *builder, in sgd.Shape) (module, error)
}

// Sequential is layers one behind the other, itself a Layer.
type Sequential []Layer

// module is a bound layer: its output shape and a factory of the working part,
// one per Scratch.
type module struct {
	in, out  sgd.Shape
	keepsOut bool // backward reads the output, so nobody may write over it
	f32      func() block[float32]
	f64      func() block[float64]
}

// instance makes the working part of m in arithmetic T.
func instance[T Float](m module) block[T] {
	var z T
	if _, ok := any(z).(float32); ok {
		return any(m.f32()).(block[T])
	}
	return any(m.f64()).(block[T])
}

// builder collects what layers claim while they are bound, in forward order.
type builder struct {
	layout sgd.Layout
	inits  []initial // per span
	flops  []float64 // per span
	counts map[string]int
	leaves int
	// fresh says that the activation at hand belongs to the net and is read by
	// nobody else, so that an element-wise layer may write over it.
	fresh bool
	width int // largest activation of one sample
}

// name numbers the layers of one kind: conv1, conv2, ….
func (b *builder) name(kind string) string {
	b.counts[kind]++
	return fmt.Sprintf("%s%d", kind, b.counts[kind])
}

// claim adds a span; flops is the work of the layer billed to it.
func (b *builder) claim(name string, role sgd.Role, rows, cols int, init initial, flops float64) int {
	b.inits = append(b.inits, init)
	b.flops = append(b.flops, flops)
	return b.layout.Add(name, role, rows, cols)
}

// leaf wraps an op as a module. spans are those claimed for it, in order.
func (b *builder) leaf(l leafInfo, f32 func() op[float32], f64 func() op[float64]) module {
	l.inPlace = l.elementwise && b.fresh
	b.fresh = true
	b.leaves++
	b.width = max(b.width, l.in.Len(), l.out.Len())
	return module{
		in: l.in, out: l.out, keepsOut: l.keepsOut,
		f32: func() block[float32] { return &leaf[float32]{leafInfo: l, op: f32()} },
		f64: func() block[float64] { return &leaf[float64]{leafInfo: l, op: f64()} },
	}
}

func (s Sequential) bind(b *builder, in sgd.Shape) (module, error) {
	if len(s) == 0 {
		return module{}, fmt.Errorf("nn: a sequence needs at least one layer")
	}
	mods := make([]module, len(s))
	at := in
	for i, l := range s {
		m, err := l.bind(b, at)
		if err != nil {
			return module{}, err
		}
		mods[i], at = m, m.out
	}
	return module{
		in: in, out: at, keepsOut: mods[len(mods)-1].keepsOut,
		f32: func() block[float32] { return newChain[float32](mods) },
		f64: func() block[float64] { return newChain[float64](mods) },
	}, nil
}
