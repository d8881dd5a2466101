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
//
// go test ends a package after ten minutes. A kernel gives every thread that wants a
// core the same share of it, so on a busy machine the tests of a large suite run beside
// each other on more threads than there are cores, unless -parallel says otherwise.
// Elsewhere nothing changes.
func Main(m interface{ Run() int }) int {
	flag.Parse()
	cores := runtime.GOMAXPROCS(0)
	if n := more(Factor()); n > 1 {
		beside(cores, n*cores)
		runtime.GOMAXPROCS(n * cores)
	}
	return m.Run()
}

// more is how many times as many threads as cores tests get at a factor. Each test
// beside another one wants memory too, so there are no more threads than it takes.
func more(factor float64) int {
	if factor <= busy {
		return 1
	}
	return int(min(most, max(4, factor/2)))
}

// beside sets how many tests run beside each other, unless -parallel says so.
func beside(usual, n int) {
	if p := flag.Lookup("test.parallel"); p.Value.String() == strconv.Itoa(usual) {
		_ = p.Value.Set(strconv.Itoa(n))
	}
}
