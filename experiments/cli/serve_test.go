package cli_test

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

// Serve prints where it is, answers there, and ends at the first signal.
func TestServeCommand(t *testing.T) {
	t.Parallel()
	program.Finish(t, 2, "serve", "--listen", "0.0.0.0:0")
	p := program.Start(t, nil, "serve", t.TempDir(), "--listen", "127.0.0.1:0")
	program.WaitFor(t, "address", p, func() bool { return strings.HasSuffix(p.Out.String(), "\n") })
	address, token, ok := strings.Cut(strings.TrimSpace(p.Out.String()), "/#token=")
	if !ok || len(token) != 32 {
		t.Fatal(p.Says())
	}
	r, err := http.Get(address + "/api/runs?token=" + token)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "[]" {
		t.Errorf("%s %v", b, err)
	}
	p.Signal(syscall.SIGINT)
	p.Expect(0)
}
