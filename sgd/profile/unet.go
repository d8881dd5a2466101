package profile

// UNetTiny is the tiny U-Net for grey images of 512×512 that finds defects
// (UNet_Industrial of NVIDIA's DeepLearningExamples; Ronneberger et al. 2015): pairs of
// 3×3 convolutions on the way down and up, joined across; the way up doubles sizes and
// convolves 2×2.
type UNetTiny struct{}

var _ = Profiles.Add("unet_tiny", "tiny U-Net for grey images of 512×512, 1.85 M parameters", UNetTiny{})

// Profile implements Spec.
func (UNetTiny) Profile() *Profile {
	b := begin("unet_tiny", 512, bias)
	b.x.C = 1
	b.p.Input = b.x
	pair := func(first, second int) {
		b.same(first, 3, 3)
		b.same(second, 3, 3)
	}
	up := func(out int) {
		b.x.H, b.x.W = 2*b.x.H, 2*b.x.W
		b.same(out, 2, 2)
	}
	down := []int{32, 32, 64, 128}
	for _, c := range down {
		pair(c, c)
		b.pool(2, 2, valid)
	}
	pair(256, 256)
	up(128)
	for i := len(down) - 1; i > 0; i-- {
		c := down[i]
		b.x.C += c // what went across
		pair(c, c/2)
		up(c / 2)
	}
	b.x.C += down[0]
	pair(32, 32)
	b.same(1, 1, 1)
	return b.p
}
