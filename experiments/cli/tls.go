package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/gradlab/gradlab/internal/regular"
)

// tlsFlags adds the flags of a rank's certificates, and returns what reads them: nil
// where none is given.
func tlsFlags(f *pflag.FlagSet) func() (*tls.Config, error) {
	var cert, key, ca, name string
	f.StringVar(&cert, "tls-cert", "", "file with this rank's certificate, PEM, good for both ends of a connection")
	f.StringVar(&key, "tls-key", "", "file with its private key, PEM")
	f.StringVar(&ca, "tls-ca", "", "file with the authorities that every rank's certificate must be of, PEM")
	f.StringVar(&name, "tls-name", "", "name that every rank's certificate holds; default: the host that it is called at")
	return func() (*tls.Config, error) {
		if cert == "" && key == "" && ca == "" {
			if name != "" {
				return nil, usageError{errors.New("--tls-name is of certificates in files: it needs --tls-cert, --tls-key and --tls-ca")}
			}
			return nil, nil
		}
		for _, flag := range []struct{ name, value string }{{"--tls-cert", cert}, {"--tls-key", key}, {"--tls-ca", ca}} {
			if flag.value == "" {
				return nil, usageError{fmt.Errorf("%s is missing: TLS by files needs --tls-cert, --tls-key and --tls-ca; without any of them certificates follow from the run's token", flag.name)}
			}
		}
		c, err := loadTLS(cert, key, ca, name)
		if err != nil {
			return nil, usageError{err}
		}
		return c, nil
	}
}

// loadTLS reads certificates for both directions of calling. It refuses a certificate that
// the other ranks would refuse: one that has expired, is of none of the authorities in ca,
// is not for both ends of a connection, or does not hold name, if that is given.
func loadTLS(cert, key, ca, name string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", cert, key, err)
	}
	if own.Leaf == nil {
		if own.Leaf, err = x509.ParseCertificate(own.Certificate[0]); err != nil {
			return nil, fmt.Errorf("--tls-cert %s: %w", cert, err)
		}
	}
	switch now := time.Now(); {
	case now.After(own.Leaf.NotAfter):
		return nil, fmt.Errorf("--tls-cert %s: the certificate has expired, on %s", cert, own.Leaf.NotAfter.Format(time.RFC3339))
	case now.Before(own.Leaf.NotBefore):
		return nil, fmt.Errorf("--tls-cert %s: the certificate is not valid before %s", cert, own.Leaf.NotBefore.Format(time.RFC3339))
	}
	b, err := regular.ReadText(ca, regular.Text)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("--tls-ca %s: no certificate in PEM there", ca)
	}
	between := x509.NewCertPool()
	for _, der := range own.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	for _, end := range []struct {
		use  x509.ExtKeyUsage
		name string
	}{{x509.ExtKeyUsageServerAuth, "the called end (serverAuth)"}, {x509.ExtKeyUsageClientAuth, "the calling end (clientAuth)"}} {
		_, err := own.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{end.use}})
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s: the certificate is not good for %s under --tls-ca %s: %w", cert, end.name, ca, err)
		}
	}
	if name != "" {
		if err := own.Leaf.VerifyHostname(name); err != nil {
			return nil, fmt.Errorf("--tls-cert %s does not hold the --tls-name %s: %w", cert, name, err)
		}
	}
	return &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: pool, ClientCAs: pool, ServerName: name}, nil
}
