package program

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"
)

// Quick is the text of a recipe that is done at once.
const Quick = "data: digits\nmodel: mlp(hidden=[16])\nsteps: 10\nbatch: 8\nworkers: 2\nnet: sim\neval_every: 5\n"

// Plain wants what is piped to be text: no colours, no cursor movements.
func Plain(t *testing.T, p *Program) {
	t.Helper()
	for _, s := range []string{p.Out.String(), p.Err.String()} {
		if i := strings.IndexFunc(s, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || r == unicode.ReplacementChar)
		}); i >= 0 {
			t.Errorf("a control character at %d: %q", i, s[max(0, i-20):min(len(s), i+20)])
		}
	}
}

// ports are handed out in order, from a place that differs between the programs of tests that
// run at the same time. They lie below those that systems give to whoever asks for any
// (32768 and above on Linux), so that no test is given the port of a rank that has died.
var ports atomic.Int32

func init() { ports.Store(int32(os.Getpid() * 61 % portRange)) }

const (
	firstPort = 15000
	portRange = 17000
)

// FreePort is one that nobody listens at, and that this program gives nobody else.
func FreePort(t *testing.T) int {
	t.Helper()
	for range portRange {
		port := firstPort + int(ports.Add(1))%portRange
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// Secret gives a rank the secret of its run.
const Secret = "GRADLAB_TOKEN=0f1e2d3c4b5a69788796a5b4c3d2e1f0"

// Torchrun is the environment that torchrun and its like give a rank.
func Torchrun(rank, world, port int) []string {
	return []string{fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", world), "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", port), Secret}
}

// ReadJSON reads a file.
func ReadJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}
