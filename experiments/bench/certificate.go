package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"time"
)

// certificate is one that all processes of a group share, and trust alone.
type certificate struct {
	DER []byte `json:"der"`
	Key []byte `json:"key"`
}

// certName is the name that it is good for.
const certName = "gradlab bench"

// newCertificate makes one, good for a day.
func newCertificate() (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{certName}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	return &certificate{der, secret}, err
}

// config is how both ends of a connection use it.
func (c *certificate) config() (*tls.Config, error) {
	cert, err := x509.ParseCertificate(c.DER)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(c.Key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: certName, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{c.DER}, PrivateKey: key}},
	}, nil
}
