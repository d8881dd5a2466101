package grpcnet

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/portable"
)

// tokenBits is the least that a token must have: what it protects can be tried
// offline by whoever stands between two ranks.
const tokenBits = 128

// CheckToken refuses a run's secret that is too short to be safe, were it random. Random
// letters, digits, "-", "_", "+", "/" count 6 bits each, hexadecimal digits 4, decimal
// ones 3.3; of a piece that is repeated the first counts. What holds fewer than eight
// different characters is not random. Words of a language pass: CheckToken cannot tell
// them from chance. The error names a command that makes a good one.
func CheckToken(token string) error {
	const make = "make one with: head -c32 /dev/urandom | base64"
	each := 6.0
	switch {
	case strings.Trim(token, "0123456789") == "":
		each = portable.Log2(10)
	case strings.Trim(token, "0123456789abcdef") == "", strings.Trim(token, "0123456789ABCDEF") == "":
		each = 4
	}
	runes := []rune(token)
	once := len(runes) // of the shortest piece that, twice or more, makes it
	for n := 1; n <= len(runes)/2 && once == len(runes); n++ {
		if slices.Equal(runes[n:], runes[:len(runes)-n]) {
			once = n
		}
	}
	if bits := each * float64(once); bits < tokenBits {
		repeated := ""
		if once < len(runes) {
			repeated = fmt.Sprintf(" that repeat the first %d", once)
		}
		return fmt.Errorf("the run's token has %d characters%s, %.0f bits at most: it needs %d bits not to be guessed; %s", len(runes), repeated, bits, tokenBits, make)
	}
	slices.Sort(runes)
	if n := len(slices.Compact(runes)); n < 8 {
		return fmt.Errorf("the run's token is made of %d different characters, which could be guessed; %s", n, make)
	}
	return nil
}

// certName is the name in every derived certificate.
const certName = "gradlab"

// Derived certificates hold always: who knows the secret could make others, and
// hosts whose clocks differ must meet all the same.
var (
	certFrom  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	certUntil = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	certNow   = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
)

// derive makes the TLS configuration of both ends from the run's secret. The key of
// the run's authority follows from it (HKDF, RFC 5869), the same on every process;
// it signs a certificate of this process for a key that nobody else has. Only who
// knows the secret can make such a certificate, or check one.
func derive(token string, ranks []int) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, []byte(token), nil, "gradlab: authority of a run", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	authority := ed25519.NewKeyFromSeed(seed)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gradlab run"}, NotBefore: certFrom, NotAfter: certUntil,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(nil, ca, ca, authority.Public(), authority)
	if err != nil {
		return nil, err
	}
	if ca, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	own := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(newNonce()[:16]), Subject: pkix.Name{CommonName: certName}, NotBefore: certFrom, NotAfter: certUntil,
		DNSNames: []string{certName}, URIs: rankURIs(ranks), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if der, err = x509.CreateCertificate(rand.Reader, own, ca, public, authority); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: certName, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		Time: func() time.Time { return certNow },
	}, nil
}

// A certificate may name the ranks that its owner may be, as URIs gradlab:rank/3. Of
// a process with several the first one counts, as rank 0 has the observer beside it.
// A certificate that names none may be any.
const rankScheme, rankPath = "gradlab", "rank/"

func rankURIs(ranks []int) (out []*url.URL) {
	for _, r := range ranks {
		out = append(out, &url.URL{Scheme: rankScheme, Opaque: rankPath + strconv.Itoa(r)})
	}
	return out
}

// secured notes that TLS protects the connection, and which ranks the certificate of
// the other end names.
func (c *conn) secured(s tls.ConnectionState) {
	c.private = true
	if len(s.PeerCertificates) == 0 {
		return
	}
	for _, u := range s.PeerCertificates[0].URIs {
		if u.Scheme != rankScheme {
			continue
		}
		c.named = true
		text, _ := strings.CutPrefix(u.Opaque, rankPath)
		if r, err := strconv.Atoi(text); err == nil {
			c.ranks = append(c.ranks, r)
		}
	}
}

// mayBe says whether the other end may be these ranks, by its certificate.
func (c *conn) mayBe(ranks []int) error {
	if len(ranks) == 0 || !c.named {
		return nil
	}
	if first := slices.Min(ranks); !slices.Contains(c.ranks, first) {
		return fmt.Errorf("its certificate is one of %s, not of rank %d", comm.RankList(c.ranks), first)
	}
	return nil
}
