package cli

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/program"
)

// F20: a rank refuses certificates at its start that the others would refuse later.
func TestF20OwnCertificate(t *testing.T) {
	t.Parallel()
	ca, other := program.NewAuthority(t), program.NewAuthority(t)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for what, c := range map[string]struct {
		uses     []x509.ExtKeyUsage
		ca, name string
		until    time.Duration
		want     string // of the error; "": none
	}{
		"good":              {both, ca.File, "", time.Hour, ""},
		"good, with a name": {both, ca.File, "gradlab", time.Hour, ""},
		"for all uses":      {nil, ca.File, "", time.Hour, ""},
		"another authority": {both, other.File, "", time.Hour, "not good for the called end (serverAuth) under --tls-ca " + other.File},
		"for servers alone": {both[:1], ca.File, "", time.Hour, "not good for the calling end (clientAuth)"},
		"for clients alone": {both[1:], ca.File, "", time.Hour, "not good for the called end (serverAuth)"},
		"another name":      {both, ca.File, "elsewhere", time.Hour, "does not hold the --tls-name elsewhere"},
		"expired":           {both, ca.File, "", -time.Minute, "has expired"},
	} {
		cert, key := ca.Issue(t, "own", &x509.Certificate{NotAfter: time.Now().Add(c.until), DNSNames: []string{"gradlab"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: c.uses})
		_, err := loadTLS(cert, key, c.ca, c.name)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
