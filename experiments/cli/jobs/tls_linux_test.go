package jobs_test

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// pems writes an authority and certificates of it, one a rank, and returns the flags
// of a rank. All hold the name gradlab; each names its rank.
func pems(t *testing.T, ranks int, until time.Time) func(rank int) []string {
	t.Helper()
	a := program.NewAuthority(t)
	var files [][2]string
	for r := range ranks {
		cert, key := a.Issue(t, fmt.Sprint("rank", r), &x509.Certificate{NotAfter: until, DNSNames: []string{"gradlab"}, URIs: []*url.URL{{Scheme: "gradlab", Opaque: fmt.Sprint("rank/", r)}},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
		files = append(files, [2]string{cert, key})
	}
	return func(rank int) []string {
		return []string{"--tls-cert", files[rank][0], "--tls-key", files[rank][1], "--tls-ca", a.File, "--tls-name", "gradlab"}
	}
}

// F20 from the command line: certificates in files, for the ranks that they name.
func TestF20CertificateFiles(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("starts processes")
	}
	file := program.Recipe(t, program.Quick)
	join := func(port, rank int, flags []string) *program.Program {
		return program.Start(t, program.Torchrun(rank, 2, port), append([]string{"join", file, "mode=server", "workers=1", "servers=1", "links=tcp", "--timeout", "8s", "--out", t.TempDir()}, flags...)...)
	}
	t.Run("not its rank", func(t *testing.T) {
		t.Parallel()
		flags, port := pems(t, 2, time.Now().Add(time.Hour)), program.FreePort(t)
		lead, worker := join(port, 0, flags(0)), join(port, 1, flags(0)) // a worker's, at the server
		worker.Expect(3)
		if !strings.Contains(worker.Err.String(), "certificate is one of rank 0, not of rank 1") {
			t.Error(worker.Says())
		}
		lead.Expect(1)
	})
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		p := join(program.FreePort(t), 0, pems(t, 1, time.Now().Add(-time.Minute))(0))
		p.Expect(2)
		if !strings.Contains(p.Err.String(), "has expired") {
			t.Error(p.Says())
		}
	})
	t.Run("another authority", func(t *testing.T) {
		t.Parallel()
		port := program.FreePort(t)
		ours, theirs := pems(t, 2, time.Now().Add(time.Hour)), pems(t, 2, time.Now().Add(time.Hour))
		lead, other := join(port, 0, ours(0)), join(port, 1, theirs(1))
		other.Expect(3)
		lead.Expect(1)
		if !strings.Contains(lead.Err.String(), "refused") {
			t.Error(lead.Says())
		}
	})
	t.Run("as it should be", func(t *testing.T) {
		t.Parallel()
		flags, port := pems(t, 2, time.Now().Add(time.Hour)), program.FreePort(t)
		for _, p := range []*program.Program{join(port, 0, flags(0)), join(port, 1, flags(1))} {
			p.Expect(0)
		}
	})
}
