package patience

import (
	"flag"
	"runtime"
	"strconv"
)

const (
	busy    = 3 // from this factor on, others want the cores too
	threads = 4 // times as many threads there
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
	if cores := runtime.GOMAXPROCS(0); Factor() > busy {
		if p := flag.Lookup("test.parallel"); p.Value.String() == strconv.Itoa(cores) {
			_ = p.Value.Set(strconv.Itoa(threads * cores))
		}
		runtime.GOMAXPROCS(threads * cores)
	}
	return m.Run()
}
