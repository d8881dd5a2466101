package grpcnet

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// authority makes a certificate authority and one certificate for loopback, for
// both directions.
func authority(t *testing.T) *tls.Config {
	t.Helper()
	return newAuthority(t).issue(t, leaf{"127.0.0.1", time.Now().Add(time.Hour), bothEnds, nil})
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
