package profile

// AlexNet is AlexNet at 227×227 in one tower (Krizhevsky 2014).
type AlexNet struct{ Classifier }

// VGG16 is VGG-16 at 224×224 (Simonyan and Zisserman 2014).
type VGG16 struct{ Classifier }

// GoogLeNet is GoogLeNet at 224×224 without auxiliary classifiers (Szegedy et
// al. 2014).
type GoogLeNet struct{ Classifier }

var (
	_ = Profiles.Add("alexnet", "AlexNet in one tower, 227×227, 61.8 M parameters", AlexNet{Classifier{1001}})
	_ = Profiles.Add("vgg16", "VGG-16, 224×224, 138.4 M parameters", VGG16{Classifier{1001}})
	_ = Profiles.Add("googlenet", "GoogLeNet, 224×224, 7.0 M parameters", GoogLeNet{Classifier{1001}})
)

// Profile implements Spec.
func (s AlexNet) Profile() *Profile {
	b := begin("alexnet", 227, bias)
	b.conv(64, 11, 11, 4, valid)
	b.halve()
	b.same(192, 5, 5)
	b.halve()
	b.same(384, 3, 3)
	b.same(384, 3, 3)
	b.same(256, 3, 3)
	b.halve()
	b.affine(4096)
	b.affine(4096)
	b.affine(s.Classes)
	return b.p
}

// Profile implements Spec.
func (s VGG16) Profile() *Profile {
	b := begin("vgg16", 224, bias)
	for i, n := range []int{2, 2, 3, 3, 3} {
		for range n {
			b.same(min(64<<i, 512), 3, 3)
		}
		b.pool(2, 2, valid)
	}
	b.affine(4096)
	b.affine(4096)
	b.affine(s.Classes)
	return b.p
}

// Profile implements Spec.
func (s GoogLeNet) Profile() *Profile { return resizable(224, s.at) }

func (s GoogLeNet) at(side int) *Profile {
	b := begin("googlenet", side, bias)
	b.conv(64, 7, 7, 2, same)
	b.pool(3, 2, same)
	b.same(64, 1, 1)
	b.same(192, 3, 3)
	b.pool(3, 2, same)
	for i, n := range [][6]int{
		{64, 96, 128, 16, 32, 32}, {128, 128, 192, 32, 96, 64},
		{192, 96, 208, 16, 48, 64}, {160, 112, 224, 24, 64, 64}, {128, 128, 256, 24, 64, 64}, {112, 144, 288, 32, 64, 64}, {256, 160, 320, 32, 128, 128},
		{256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128},
	} {
		if i == 2 || i == 7 {
			b.pool(3, 2, same)
		}
		b.branches(
			func() { b.same(n[0], 1, 1) },
			func() { b.same(n[1], 1, 1); b.same(n[2], 3, 3) },
			func() { b.same(n[3], 1, 1); b.same(n[4], 5, 5) },
			func() { b.same(n[5], 1, 1) }, // behind a pooling
		)
	}
	return b.end(s.Classes)
}
