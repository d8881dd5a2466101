package patience

import (
	"flag"
	"runtime"
	"strconv"
)

const (
	busy = 3 // from this factor on, others want the cores too
	most = 8 // times as many threads as cores there
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
// go test ends a package after ten minutes. A kernel gives every thread that wants a
// core the same share of it, so on a busy machine the tests of a large suite run beside
// each other on more threads than there are cores. Elsewhere nothing changes.
func Beside(least int) {
	flag.Parse()
	cores := runtime.GOMAXPROCS(0)
	n := more(Factor())
	runtime.GOMAXPROCS(n * cores)
	if p := flag.Lookup("test.parallel"); p.Value.String() == strconv.Itoa(cores) {
		_ = p.Value.Set(strconv.Itoa(max(least, n*cores)))
	}
}

// more is how many times as many threads as cores tests get at a factor. Each test
// beside another one wants memory too, so there are no more threads than it takes.
func more(factor float64) int {
	if factor <= busy {
		return 1
	}
	return int(min(most, max(4, factor/2)))
}
