package patience

// raced says that the race detector looks on.
var raced bool

// Raced reports whether the race detector looks on.
func Raced() bool { return raced }

// Virtual skips, under the race detector, a proof that runs on the virtual cluster, where
// one rank runs at a time. Other tests drive the same modes on real clocks.
func Virtual(t interface {
	Helper()
	Skip(args ...any)
}) {
	t.Helper()
	if raced {
		t.Skip("on the virtual cluster one rank runs at a time: nothing for the race detector")
	}
}
