package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
)

// With one of these set, the test binary plays a rank of ours, or Open MPI's
// compiler and launcher; the value is how it behaves.
const (
	fakeRankVariable = "GRADLAB_FAKE_RANK"
	fakeMPIVariable  = "GRADLAB_FAKE_MPI"
)

// fakeRank is a real rank unless it misbehaves.
func fakeRank(how string) int {
	switch how {
	case "broken":
		fmt.Fprintln(os.Stderr, "no such program")
		return 3
	}
	if err := RunRank(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fakeGloo is called with rank, world, port and threads.
func fakeGloo(how string, args []string) int {
	if how == "no gloo" {
		fmt.Fprintln(os.Stderr, "RuntimeError: no gloo in this build")
		return 1
	}
	talk(how, "0.0-fake", args[0] == "0", os.Stdin)
	return 0
}

// talk answers commands: an iteration takes 200 µs.
func talk(how, version string, answers bool, in io.Reader) {
	say := func(format string, args ...any) {
		if answers {
			fmt.Printf(format+"\n", args...)
		}
	}
	say(`{"version": %q}`, version)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.Fields(lines.Text())
		n, err := strconv.Atoi(words[2])
		if err != nil {
			panic(err)
		}
		if how == "wrong sums" && words[1] == "8192" {
			say(`{"error": "wrong sums"}`)
			continue
		}
		start := time.Now()
		time.Sleep(time.Duration(n) * 200 * time.Microsecond)
		say(`{"seconds": %g}`, time.Since(start).Seconds())
	}
}

// fakeMPI is called as mpicc -O2 -o PROGRAM SOURCE and as mpirun … -np N … PROGRAM
// FOLDER.
func fakeMPI(how, name string, args []string) int {
	if name == "mpicc" {
		if how == "no headers" {
			fmt.Fprintln(os.Stderr, "mpi.h: no such file")
			return 1
		}
		return 0
	}
	world, err := strconv.Atoi(args[slices.Index(args, "-np")+1])
	if err != nil {
		panic(err)
	}
	if how == "dies" {
		fmt.Fprintln(os.Stderr, "not enough slots")
		return 5
	}
	dir := args[len(args)-1]
	done := make(chan bool)
	for r := range world {
		go func() {
			f, err := os.Open(filepath.Join(dir, strconv.Itoa(r)))
			if err != nil {
				panic(err)
			}
			talk(how, "fake MPI", r == 0, f)
			done <- true
		}()
	}
	for range world {
		<-done
	}
	return 0
}

// fakeOpenMPI is the fake, found as a real one is.
func fakeOpenMPI(t *testing.T, how string) (*OpenMPI, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, tool := range []string{"mpicc", "mpirun"} {
		if err := os.Symlink(self, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	m, err := FindOpenMPI(t.Context(), append(os.Environ(), fakeMPIVariable+"="+how))
	if err == nil {
		m.patience = patience.Stretch(5 * time.Second)
		t.Cleanup(m.Close)
	}
	return m, err
}
