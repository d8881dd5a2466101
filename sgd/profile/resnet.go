package profile

// ResNet50 is ResNet-50 at 224×224, version 1: blocks are halved by the first
// 1×1 convolution (He et al. 2015).
type ResNet50 struct{ Classifier }

// ResNet101 is ResNet-101 at 224×224, version 1, as ResNet50 (He et al. 2015).
type ResNet101 struct{ Classifier }

// ResNet152 is ResNet-152 at 224×224, version 1, as ResNet50 (He et al. 2015).
type ResNet152 struct{ Classifier }

// ResNet20 is the CIFAR ResNet with pre-activation at 32×32 (He et al. 2016),
// shortcuts padded with zeros. What stands before a block is normalised without
// a scale, as in the benchmarks, and there is a class more than CIFAR-10 has.
type ResNet20 struct{ Classifier }

var (
	_ = Profiles.Add("resnet20", "CIFAR ResNet-20 v2, 32×32, 0.27 M parameters", ResNet20{Classifier{11}})
	_ = Profiles.Add("resnet50", "ResNet-50, 224×224, 25.6 M parameters", ResNet50{Classifier{1001}})
	_ = Profiles.Add("resnet101", "ResNet-101, 224×224, 44.6 M parameters", ResNet101{Classifier{1001}})
	_ = Profiles.Add("resnet152", "ResNet-152, 224×224, 60.2 M parameters", ResNet152{Classifier{1001}})
)

// Profile implements Spec.
func (s ResNet20) Profile() *Profile { return resizable(32, s.at) }

func (s ResNet20) at(side int) *Profile {
	b := begin("resnet20", side, scaleShift)
	b.same(16, 3, 3)
	for i := range 9 {
		width, stride := 16<<(i/3), 1
		if i > 0 && i%3 == 0 {
			stride = 2
		}
		b.shift()
		b.conv(width, 3, 3, stride, same)
		b.norm = none
		b.same(width, 3, 3)
		b.norm = scaleShift
	}
	b.shift()
	return b.end(s.Classes)
}

// Profile implements Spec.
func (s ResNet50) Profile() *Profile { return resnet("resnet50", s.Classes, 3, 4, 6, 3) }

// Profile implements Spec.
func (s ResNet101) Profile() *Profile { return resnet("resnet101", s.Classes, 3, 4, 23, 3) }

// Profile implements Spec.
func (s ResNet152) Profile() *Profile { return resnet("resnet152", s.Classes, 3, 8, 36, 3) }

func resnet(name string, classes int, blocks ...int) *Profile {
	return resizable(224, func(side int) *Profile { return resnetAt(name, side, classes, blocks...) })
}

func resnetAt(name string, side, classes int, blocks ...int) *Profile {
	b := begin(name, side, scaleShift)
	b.conv(64, 7, 7, 2, same)
	b.halve() // to 55×55, as in the benchmarks; 56×56 elsewhere
	for i, n := range blocks {
		for j := range n {
			stride, width := 1, 64<<i
			if i > 0 && j == 0 {
				stride = 2
			}
			in := b.x
			if j == 0 { // the shortcut
				b.conv(4*width, 1, 1, stride, same)
				b.x = in
			}
			b.conv(width, 1, 1, stride, same)
			b.same(width, 3, 3)
			b.same(4*width, 1, 1)
		}
	}
	return b.end(classes)
}
