package grpcnet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// authority makes a certificate authority and one certificate for loopback, for
// both directions.
func authority(t *testing.T) *tls.Config {
	t.Helper()
	make := func(tmpl, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			parent, signer = tmpl, key
		}
		tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	ca, caKey := make(&x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "run"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	leaf, key := make(&x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, ca, caKey)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{RootCAs: pool, ClientCAs: pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}
}

func swap(ctx context.Context, h comm.Host) error {
	if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, body(100000, 1))); err != nil {
		return err
	}
	f, err := h.Recv(ctx, 1-h.Rank(), 0)
	if err == nil && string(f.Body) != string(body(100000, 1).B) {
		err = fmt.Errorf("damaged")
	}
	return err
}

func TestTLS(t *testing.T) {
	ours := authority(t)
	err := firstOf(together(context.Background(), all(2, swap), split(2, 1), func(i int, c *Config) { c.TLS = ours }))
	if err != nil {
		t.Fatal(err)
	}
}

// F20: of another authority, without a certificate, or in plain text: refused.
func TestF20WrongCertificates(t *testing.T) {
	t.Parallel()
	ours, theirs := authority(t), authority(t)
	bare := ours.Clone()
	bare.Certificates = nil
	mixed := theirs.Clone()
	mixed.RootCAs = ours.RootCAs // trusts us; we do not trust it
	for name, wrong := range map[string]*tls.Config{"other authority": theirs, "no certificate": bare, "untrusted client": mixed, "plain text": nil} {
		errs := together(context.Background(), all(2, swap), split(2, 1), func(i int, c *Config) {
			c.TLS = ours
			if i == 1 {
				c.TLS = wrong
			}
			c.JoinTimeout, c.ConnectTimeout = 300*time.Millisecond, 300*time.Millisecond
		})
		for i, err := range errs {
			if err == nil {
				t.Errorf("%s: process %d had no error", name, i)
			}
		}
	}
}
