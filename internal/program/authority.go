package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates of tests, in files.
type Authority struct {
	File string // its own certificate

	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	issued int64
}

// NewAuthority makes an authority, good for an hour.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir(), cert: &x509.Certificate{NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	a.File, _ = a.Issue(t, "ca", a.cert)
	return a
}

// Issue writes a certificate like c, with a serial number and since an hour ago, and the
// key of it, in PEM.
func (a *Authority) Issue(t testing.TB, name string, c *x509.Certificate) (cert, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.issued++
	if a.key == nil { // it signs itself
		a.key = own
	}
	c.NotBefore, c.SerialNumber = time.Now().Add(-time.Hour), big.NewInt(a.issued)
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	write := func(ending, kind string, b []byte) string {
		path := filepath.Join(a.dir, name+ending)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write(".pem", "CERTIFICATE", der), write(".key", "PRIVATE KEY", private)
}
