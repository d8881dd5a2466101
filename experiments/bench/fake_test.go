package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"github.com/gradlab/gradlab/internal/patience"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// With this variable set, the test binary plays a python with torch; its value
// is how it behaves.
const fakeVariable = "GRADLAB_FAKE_TORCH"

func TestMain(m *testing.M) {
	if how := os.Getenv(fakeVariable); how != "" {
		os.Exit(fakePython(how, os.Args[1:]))
	}
	if how := os.Getenv(fakeRankVariable); how != "" {
		os.Exit(fakeRank(how))
	}
	if how := os.Getenv(fakeMPIVariable); how != "" {
		os.Exit(fakeMPI(how, filepath.Base(os.Args[0]), os.Args[1:]))
	}
	os.Exit(patience.Main(m))
}

// fakePython is called as python is: -c with a script, and for workers their
// task. Its training steps take 200 µs of sleep.
func fakePython(how string, args []string) int {
	if len(args) == 6 {
		return fakeGloo(how, args[2:])
	}
	if len(args) == 2 { // the search for torch
		if how == "missing" {
			fmt.Fprint(os.Stderr, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'torch'\n")
			return 1
		}
		return 0
	}
	var ask struct {
		Threads      int
		ChannelsLast bool `json:"channels_last"`
		Compiled     bool
	}
	if err := json.Unmarshal([]byte(args[2]), &ask); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if ask.Compiled { // as before PyTorch 2
		fmt.Println(`{"eager": true}`)
		return 0
	}
	params := 535818 // of the mlp
	switch how {
	case "wrong model":
		params++
	case "broken":
		fmt.Println(`{"error": "cannot import torch: no such library"}`)
		return 1
	case "garbage":
		fmt.Println("Welcome to torch!")
	case "silent":
		time.Sleep(time.Hour)
	}
	fmt.Printf(`{"params": %d, "torch": "0.0-fake", "threads": %d, "loss": 2.3}`+"\n", params, ask.Threads)
	lines := bufio.NewScanner(os.Stdin)
	for block := 1; lines.Scan(); block++ {
		steps, err := strconv.Atoi(lines.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		if tuned := strings.Contains(strings.Join(os.Environ(), " "), "MALLOC_"); tuned && block == 8 { // of 6 for the pace and at least 3 rounds
			switch how {
			case "dies":
				fmt.Fprintln(os.Stderr, "Killed, as it were")
				return 3
			case "hangs":
				time.Sleep(time.Hour)
			}
		}
		took := time.Duration(steps) * 200 * time.Microsecond // said, not measured: blocks are the same on every machine
		time.Sleep(took)
		fmt.Printf(`{"seconds": %g, "faults": %d}`+"\n", took.Seconds(), 3*steps)
	}
	return 0
}

// fakeTorch is the fake, found as a real one is.
func fakeTorch(t *testing.T, how string) *Torch {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	torch, err := FindTorch(t.Context(), self, append(os.Environ(), fakeVariable+"="+how))
	if err != nil {
		t.Fatal(err)
	}
	torch.patience = patience.Stretch(30 * time.Second) // against hanging
	if how == "silent" || how == "hangs" {
		torch.patience = patience.Stretch(2 * time.Second) // it is waited for
	}
	return torch
}
