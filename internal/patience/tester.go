package patience

// Tester is what suites ask of *testing.T, which is the T of Tester[*testing.T]. Programs
// import suites for what these measure, and need not link package testing for that.
type Tester[T any] interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Skip(args ...any)
	Parallel()
	Run(name string, test func(T)) bool
}
