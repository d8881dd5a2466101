package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// F20: a rank refuses certificates at its start that the others would refuse later.
func TestF20OwnCertificate(t *testing.T) {
	t.Parallel()
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
	authority := func(file string) (*x509.Certificate, *ecdsa.PrivateKey, string) {
		c, k := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key()
		der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
		if err != nil {
			t.Fatal(err)
		}
		return c, k, write(file, "CERTIFICATE", der)
	}
	ca, caKey, caFile := authority("ca.pem")
	_, _, otherFile := authority("other.pem")
	own := key()
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := write("own.key", "PRIVATE KEY", private)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for what, c := range map[string]struct {
		uses     []x509.ExtKeyUsage
		ca, name string
		until    time.Duration
		want     string // of the error; "": none
	}{
		"good":              {both, caFile, "", time.Hour, ""},
		"good, with a name": {both, caFile, "gradlab", time.Hour, ""},
		"for all uses":      {nil, caFile, "", time.Hour, ""},
		"another authority": {both, otherFile, "", time.Hour, "not good for the called end (serverAuth) under --tls-ca " + otherFile},
		"for servers alone": {both[:1], caFile, "", time.Hour, "not good for the calling end (clientAuth)"},
		"for clients alone": {both[1:], caFile, "", time.Hour, "not good for the called end (serverAuth)"},
		"another name":      {both, caFile, "elsewhere", time.Hour, "does not hold the --tls-name elsewhere"},
		"expired":           {both, caFile, "", -time.Minute, "has expired"},
	} {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(c.until),
			DNSNames: []string{"gradlab"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: c.uses}, ca, &own.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		_, err = loadTLS(write("own.pem", "CERTIFICATE", der), keyFile, c.ca, c.name)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
