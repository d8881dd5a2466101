package patience

import (
	"flag"
	"runtime"
	"strconv"
)

// Main runs the tests of a package, and is its exit code:
//
//	func TestMain(m *testing.M) { os.Exit(patience.Main(m)) }
func Main(m interface{ Run() int }) int {
	Beside(1)
	return m.Run()
}

// Beside lets at least so many tests run beside each other, unless -parallel says
// otherwise: those that wait for leases to end, or for programs that they start, leave
// cores to others.
//
// Temporary files lie in memory where there is room. Properties are checked on a quarter of
// the cases that rapid draws by default, on all of them with the tag long.
func Beside(least int) {
	flag.Parse()
	inMemory()
	if checks := flag.Lookup("rapid.checks"); checks != nil && !Long && checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("25")
	}
	if p, cores := flag.Lookup("test.parallel"), runtime.GOMAXPROCS(0); p.Value.String() == strconv.Itoa(cores) {
		_ = p.Value.Set(strconv.Itoa(max(least, cores)))
	}
}
