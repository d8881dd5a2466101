// Package profile holds published networks as lists of layers: the sizes of
// their tensors and the operations that read them, without weights and without
// arithmetic. A virtual cluster needs no more to say how long a step takes and
// what it sends.
//
// A profile is that of our model where that has the published layers, and else is
// generated from its architecture, a file each. Its count of parameters is checked
// against what is published. The variants are those of
// the TensorFlow benchmarks of 2017 (tf_cnn_benchmarks), 1001 classes, which
// most published scaling tables used: convolutions without bias, behind which a
// batch norm has a shift (Inception) or a scale and a shift (ResNet); or with a
// bias and no batch norm (VGG, AlexNet, GoogLeNet). Running statistics are not
// listed: they are not trained and never travel.
package profile

import (
	"fmt"

	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
)

// Profile is a network as a list of tensors in forward order.
type Profile struct {
	Name   string
	Kind   string     // of what it is trained on: images, language
	Input  sgd.Shape  // of one sample
	Layout sgd.Layout // one span a tensor
	// MACs are, per span, the multiply-adds of the forward pass of one sample in
	// the layer that first reads it: two operations each. A backward pass takes
	// twice as many. Poolings and normalisations, a few per cent, are not counted.
	MACs []float64

	at func(side int) *Profile // for pictures of another side; nil: nobody knows
}

// At is the profile for square pictures of another side, of the same tensors. The error
// says why there is none.
func (p *Profile) At(side int) (*Profile, error) {
	switch {
	case p.at == nil:
		return nil, fmt.Errorf("profile %s is for pictures of %v alone", p.Name, p.Input)
	case side < 1:
		return nil, fmt.Errorf("no pictures of side %d", side)
	}
	other := p.at(side)
	for i, macs := range p.MACs {
		if macs > 0 && other.MACs[i] <= 0 {
			return nil, fmt.Errorf("profile %s does not fit pictures of side %d: nothing is left of them at %s", p.Name, side, p.Layout.Spans[i].Name)
		}
	}
	other.at = p.at
	return other, nil
}

// resizable is a profile that ends in a mean over the grid: at its own side, and at
// others when asked.
func resizable(side int, at func(side int) *Profile) *Profile {
	p := at(side)
	p.at = at
	return p
}

// Spec makes a Profile.
type Spec interface{ Profile() *Profile }

// Profiles holds every profile by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Profiles = registry.New[Spec]("profile")

// Parameters is the number of trainable values.
func (p *Profile) Parameters() int { return p.Layout.Size() }

// Bytes is the size of a dense float32 gradient.
func (p *Profile) Bytes() int { return 4 * p.Layout.Size() }

// ForwardMACs is the sum of MACs.
func (p *Profile) ForwardMACs() (sum float64) {
	for _, m := range p.MACs {
		sum += m
	}
	return sum
}

// Available is the share of the gradient's bytes that are there when a share of
// the backward pass is over, 0 to 1: what can be on its way meanwhile. A layer's
// part of the pass is in proportion to its MACs, and ends with its gradients.
func (p *Profile) Available(share float64) float64 {
	total, done, ready := p.ForwardMACs(), 0.0, 0
	for i := len(p.MACs) - 1; i >= 0; i-- {
		if done += p.MACs[i]; done > share*total {
			break
		}
		ready += p.Layout.Spans[i].Len()
	}
	return float64(ready) / float64(p.Parameters())
}

// norm is what follows a convolution.
type norm int

const (
	bias       norm = iota // a bias, no batch norm
	shift                  // a batch norm without scale
	scaleShift             // a batch norm
	none
)

// builder walks through an architecture; x is where it stands.
type builder struct {
	p                      *Profile
	norm                   norm
	x                      sgd.Shape
	convs, affines, shifts int
}

// begin starts a profile of square images with three channels.
func begin(name string, side int, n norm) *builder {
	in := sgd.Shape{C: 3, H: side, W: side}
	return &builder{p: &Profile{Name: name, Kind: "images", Input: in}, norm: n, x: in}
}

func (b *builder) add(name string, role sgd.Role, rows, cols int, macs float64) {
	b.p.Layout.Add(name, role, rows, cols)
	b.p.MACs = append(b.p.MACs, macs)
}

// padding says what windows do at the edges.
type padding bool

const (
	same  padding = true  // sizes are divided by the stride, rounded up
	valid padding = false // windows lie within the image
)

func (p padding) side(n, kernel, stride int) int {
	if p == same {
		return (n + stride - 1) / stride
	}
	return (n-kernel)/stride + 1
}

// conv is a convolution with out channels and kh×kw windows, and what follows it.
func (b *builder) conv(out, kh, kw, stride int, p padding) {
	b.convs++
	name := fmt.Sprintf("conv%d", b.convs)
	taps := kh * kw * b.x.C
	b.x = sgd.Shape{C: out, H: p.side(b.x.H, kh, stride), W: p.side(b.x.W, kw, stride)}
	b.add(name+".weight", sgd.Weight, out, taps, float64(taps)*float64(b.x.Len()))
	switch b.norm {
	case bias:
		b.add(name+".bias", sgd.Bias, 1, out, 0)
	case scaleShift:
		b.add(name+".scale", sgd.Norm, 1, out, 0)
		b.add(name+".shift", sgd.Norm, 1, out, 0)
	case shift:
		b.add(name+".shift", sgd.Norm, 1, out, 0)
	}
}

// numbered is a tensor's name.
func numbered(layer string, n int, tensor string) string {
	return fmt.Sprintf("%s%d.%s", layer, n, tensor)
}

// shift is a batch norm without scale by itself.
func (b *builder) shift() {
	b.shifts++
	b.add(numbered("bn", b.shifts, "shift"), sgd.Norm, 1, b.x.C, 0)
}

// same is a convolution that keeps the size.
func (b *builder) same(out, kh, kw int) { b.conv(out, kh, kw, 1, same) }

// down is one of 3×3 windows that halves it, without padding.
func (b *builder) down(out int) { b.conv(out, 3, 3, 2, valid) }

func (b *builder) pool(kernel, stride int, p padding) {
	b.x.H, b.x.W = p.side(b.x.H, kernel, stride), p.side(b.x.W, kernel, stride)
}

// halve pools 3×3 windows, without padding.
func (b *builder) halve() { b.pool(3, 2, valid) }

// affine is a dense layer on the flattened input.
func (b *builder) affine(out int) {
	b.affines++
	name := fmt.Sprintf("affine%d", b.affines)
	in := b.x.Len()
	b.x = sgd.Shape{C: out, H: 1, W: 1}
	b.add(name+".weight", sgd.Weight, out, in, float64(in)*float64(out))
	b.add(name+".bias", sgd.Bias, 1, out, 0)
}

// branches runs each on what is there and joins their channels.
func (b *builder) branches(each ...func()) {
	in, channels := b.x, 0
	for _, branch := range each {
		b.x = in
		branch()
		channels += b.x.C
	}
	b.x.C = channels
}

// end pools over all pixels and classifies.
func (b *builder) end(classes int) *Profile {
	b.x.H, b.x.W = 1, 1
	b.affine(classes)
	return b.p
}

// Classifier is what networks that tell classes apart are set up by.
type Classifier struct {
	Classes int `doc:"outputs of the classifier"`
}

// Validate checks the options.
func (c Classifier) Validate() error {
	if c.Classes < 1 {
		return fmt.Errorf("option %q is %d; want at least 1", "classes", c.Classes)
	}
	return nil
}
