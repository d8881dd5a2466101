package jobs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
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
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	sign := func(c, by *x509.Certificate, of, k *ecdsa.PrivateKey) []byte {
		c.NotBefore, c.SerialNumber = time.Now().Add(-time.Hour), big.NewInt(time.Now().UnixNano())
		der, err := x509.CreateCertificate(rand.Reader, c, by, &of.PublicKey, k)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	caKey := key()
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caFile := write("ca.pem", "CERTIFICATE", sign(ca, ca, caKey, caKey))
	for r := range ranks {
		k := key()
		der := sign(&x509.Certificate{Subject: pkix.Name{CommonName: "rank"}, NotAfter: until, DNSNames: []string{"gradlab"}, URIs: []*url.URL{{Scheme: "gradlab", Opaque: fmt.Sprint("rank/", r)}},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, ca, k, caKey)
		write(fmt.Sprint("rank", r, ".pem"), "CERTIFICATE", der)
		private, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		write(fmt.Sprint("rank", r, ".key"), "PRIVATE KEY", private)
	}
	return func(rank int) []string {
		file := filepath.Join(dir, fmt.Sprint("rank", rank))
		return []string{"--tls-cert", file + ".pem", "--tls-key", file + ".key", "--tls-ca", caFile, "--tls-name", "gradlab"}
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
		return program.Start(t, program.Torchrun(rank, 2, port), append([]string{"join", file, "mode=server", "workers=1", "servers=1", "links=grpc", "--timeout", "8s", "--out", t.TempDir()}, flags...)...)
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
