package profile

// Inception3 is Inception-v3 at 299×299 without the auxiliary classifier
// (Szegedy et al. 2015).
type Inception3 struct{ Classifier }

// Inception4 is Inception-v4 at 299×299 (Szegedy et al. 2016).
type Inception4 struct{ Classifier }

var (
	_ = Profiles.Add("inception3", "Inception-v3, 299×299, 23.8 M parameters", Inception3{Classifier{1001}})
	_ = Profiles.Add("inception4", "Inception-v4, 299×299, 42.6 M parameters", Inception4{Classifier{1001}})
)

// Profile implements Spec.
func (s Inception3) Profile() *Profile { return resizable(299, s.at) }

func (s Inception3) at(side int) *Profile {
	b := begin("inception3", side, shift)
	b.down(32)
	b.conv(32, 3, 3, 1, valid)
	b.same(64, 3, 3)
	b.halve()
	b.conv(80, 1, 1, 1, valid)
	b.conv(192, 3, 3, 1, valid)
	b.halve()
	for _, n := range []int{32, 64, 64} { // 35×35
		b.branches(
			func() { b.same(64, 1, 1) },
			func() { b.same(48, 1, 1); b.same(64, 5, 5) },
			func() { b.same(64, 1, 1); b.same(96, 3, 3); b.same(96, 3, 3) },
			func() { b.same(n, 1, 1) }, // behind a pooling
		)
	}
	b.branches(
		func() { b.same(64, 1, 1); b.same(96, 3, 3); b.down(96) },
		func() { b.down(384) },
		b.halve,
	)
	for _, n := range []int{128, 160, 160, 192} { // 17×17
		b.branches(
			func() { b.same(192, 1, 1) },
			func() { b.same(n, 1, 1); b.same(n, 1, 7); b.same(192, 7, 1) },
			func() { b.same(n, 1, 1); b.same(n, 7, 1); b.same(n, 1, 7); b.same(n, 7, 1); b.same(192, 1, 7) },
			func() { b.same(192, 1, 1) },
		)
	}
	b.branches(
		func() { b.same(192, 1, 1); b.down(320) },
		func() { b.same(192, 1, 1); b.same(192, 1, 7); b.same(192, 7, 1); b.down(192) },
		b.halve,
	)
	for range 2 { // 8×8
		split := func() { b.branches(func() { b.same(384, 1, 3) }, func() { b.same(384, 3, 1) }) }
		b.branches(
			func() { b.same(320, 1, 1) },
			func() { b.same(384, 1, 1); split() },
			func() { b.same(448, 1, 1); b.same(384, 3, 3); split() },
			func() { b.same(192, 1, 1) },
		)
	}
	return b.end(s.Classes)
}

// Profile implements Spec.
func (s Inception4) Profile() *Profile { return resizable(299, s.at) }

func (s Inception4) at(side int) *Profile {
	b := begin("inception4", side, shift)
	b.down(32)
	b.conv(32, 3, 3, 1, valid)
	b.same(64, 3, 3)
	b.branches(b.halve, func() { b.down(96) })
	b.branches(
		func() { b.same(64, 1, 1); b.conv(96, 3, 3, 1, valid) },
		func() { b.same(64, 1, 1); b.same(64, 7, 1); b.same(64, 1, 7); b.conv(96, 3, 3, 1, valid) },
	)
	b.branches(func() { b.down(192) }, b.halve)
	for range 4 { // 35×35
		b.branches(
			func() { b.same(96, 1, 1) }, // behind a pooling
			func() { b.same(96, 1, 1) },
			func() { b.same(64, 1, 1); b.same(96, 3, 3) },
			func() { b.same(64, 1, 1); b.same(96, 3, 3); b.same(96, 3, 3) },
		)
	}
	b.branches(
		b.halve,
		func() { b.down(384) },
		func() { b.same(192, 1, 1); b.same(224, 3, 3); b.down(256) },
	)
	for range 7 { // 17×17
		b.branches(
			func() { b.same(128, 1, 1) },
			func() { b.same(384, 1, 1) },
			func() { b.same(192, 1, 1); b.same(224, 1, 7); b.same(256, 7, 1) },
			func() { b.same(192, 1, 1); b.same(192, 1, 7); b.same(224, 7, 1); b.same(224, 1, 7); b.same(256, 7, 1) },
		)
	}
	b.branches(
		b.halve,
		func() { b.same(192, 1, 1); b.down(192) },
		func() { b.same(256, 1, 1); b.same(256, 1, 7); b.same(320, 7, 1); b.down(320) },
	)
	for range 3 { // 8×8
		split := func() { b.branches(func() { b.same(256, 1, 3) }, func() { b.same(256, 3, 1) }) }
		b.branches(
			func() { b.same(256, 1, 1) },
			func() { b.same(256, 1, 1) },
			func() { b.same(384, 1, 1); split() },
			func() { b.same(384, 1, 1); b.same(448, 1, 3); b.same(512, 3, 1); split() },
		)
	}
	return b.end(s.Classes)
}
