package cli_test

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// Serve prints where it is, answers there, and ends at the first signal.
func TestServeCommand(t *testing.T) {
	t.Parallel()
	finish(t, 2, "serve", "--listen", "0.0.0.0:0")
	p := start(t, nil, "serve", t.TempDir(), "--listen", "127.0.0.1:0")
	waitFor(t, "address", p, func() bool { return strings.HasSuffix(p.out.String(), "\n") })
	address, token, ok := strings.Cut(strings.TrimSpace(p.out.String()), "/#token=")
	if !ok || len(token) != 32 {
		t.Fatal(p.says())
	}
	r, err := http.Get(address + "/api/runs?token=" + token)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "[]" {
		t.Errorf("%s %v", b, err)
	}
	p.signal(syscall.SIGINT)
	p.expect(0)
}
