package patience

// raced says that the race detector looks on.
var raced bool

// Raced reports whether the race detector looks on.
func Raced() bool { return raced }

// skipper is what of a test those below need.
type skipper interface {
	Helper()
	Skip(args ...any)
}

// Virtual skips, under the race detector, a proof that runs on the virtual cluster, where
// one rank runs at a time. Other tests drive the same modes on real clocks.
func Virtual(t skipper) {
	t.Helper()
	if raced {
		t.Skip("on the virtual cluster one rank runs at a time: nothing for the race detector")
	}
}

// Alone skips, under the race detector, a test in which no goroutines meet: it reads pages,
// calls one command behind the other, or looks at another program.
func Alone(t skipper) {
	t.Helper()
	if raced {
		t.Skip("no goroutines meet: nothing for the race detector")
	}
}
