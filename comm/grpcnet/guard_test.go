package grpcnet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

// hostAddress is an address of this machine that is not loopback, and no network's:
// interfaces without one have the tests skipped.
func hostAddress(t *testing.T) string {
	t.Helper()
	as, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range as {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// ear stands between callers and a process, and keeps what it hears.
type ear struct {
	mu    sync.Mutex
	all   bytes.Buffer // both directions
	calls [][]byte     // what callers said, by connection
}

// listen lets a process at an address be called through the ear; it returns where.
func (e *ear) listen(t *testing.T, addr string) string {
	t.Helper()
	host, _, _ := net.SplitHostPort(addr)
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var pipes sync.WaitGroup
	t.Cleanup(func() { l.Close(); pipes.Wait() })
	pipe := func(to, from net.Conn, keep func(b []byte)) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			e.mu.Lock()
			e.all.Write(b[:n])
			keep(b[:n])
			e.mu.Unlock()
			if _, werr := to.Write(b[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	pipes.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", addr)
			if err != nil {
				c.Close()
				continue
			}
			e.mu.Lock()
			i := len(e.calls)
			e.calls = append(e.calls, nil)
			e.mu.Unlock()
			pipes.Go(func() { pipe(d, c, func(b []byte) { e.calls[i] = append(e.calls[i], b...) }) })
			pipes.Go(func() { pipe(c, d, func([]byte) {}) })
		}
	})
	return l.Addr().String()
}

// overheard runs two processes, of which the second calls the first at host through
// an ear.
func overheard(t *testing.T, host string, e *ear, tune func(*Config), lead, other comm.Program) {
	t.Helper()
	c := quick(2, 0)
	c.Listen = host + ":0"
	tune(&c)
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	a.addr = e.listen(t, a.Addr()) // where the others call
	c = quick(2, 1)
	c.Coordinator = a.addr
	tune(&c)
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n, p := range map[*Net]comm.Program{a: lead, b: other} {
		wg.Go(func() {
			if err := n.Run(t.Context(), []comm.Program{p}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Beyond loopback all is TLS, by certificates that follow from the token, without a
// flag; on loopback, and where plain text is asked for, it is not.
func TestTLSBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		name     string
		insecure bool
		plain    bool
	}{{"default", false, false}, {"plain text on demand", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			// A word that crosses the wire in a frame, if anybody could read it.
			word := strings.Repeat("gradient in plain text ", 10)
			say := func(ctx context.Context, h comm.Host) error {
				b := comm.NewBuffer(len(word))
				copy(b.B, word)
				if err := h.Send(ctx, 1-h.Rank(), comm.NewFrame(comm.Header{}, b)); err != nil {
					return err
				}
				f, err := h.Recv(ctx, 1-h.Rank(), 0)
				f.Release()
				return err
			}
			var e ear
			overheard(t, hostAddress(t), &e, func(n *Config) { n.Insecure, n.Links = c.insecure, LinksGRPC }, say, say)
			e.mu.Lock()
			defer e.mu.Unlock()
			if got := bytes.Contains(e.all.Bytes(), []byte("gradient in plain text")); got != c.plain || e.all.Len() == 0 {
				t.Errorf("the frame can be read on the wire: %v, want %v (%d bytes went by)", got, c.plain, e.all.Len())
			}
		})
	}
}

// A stranger who connects is told nothing that depends on the token, whatever it says:
// two listeners with different tokens answer alike but for what is random.
func TestNothingKeyedForStrangers(t *testing.T) {
	host := hostAddress(t)
	theirs, err := derive(otherToken, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"127.0.0.1", host} {
		c := quick(2, 0)
		c.Listen = at + ":0"
		n, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx, all(1, idle)) }()
		// Plain: a nonce and a refusal that is the same for everybody.
		s, err := net.Dial("tcp", n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		nonce := newNonce()
		_, _ = s.Write(append([]byte{helloPlain}, nonce...))
		var their [nonceSize]byte
		_, err = io.ReadFull(s, their[:])
		if at == host {
			if err == nil {
				t.Error("plain text beyond loopback was answered")
			}
		} else {
			_, _ = s.Write(proof([]byte(otherToken), "call", nonce, their[:]))
			answer, err := io.ReadAll(s)
			if err != nil || !bytes.Equal(answer, make([]byte, nonceSize)) {
				t.Errorf("a stranger is answered %x, %v", answer, err)
			}
		}
		s.Close()
		// TLS: who listens never shows its certificate to who has shown another one.
		if s, err = net.Dial("tcp", n.Addr()); err != nil {
			t.Fatal(err)
		}
		_, _ = s.Write([]byte{helloTurned})
		shown := false
		spy := theirs.Clone()
		spy.ClientAuth = tls.RequireAnyClientCert
		spy.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { shown = true; return nil }
		if err := tls.Server(s, spy).Handshake(); err == nil || shown {
			t.Errorf("%s: a stranger was shown a certificate: %v, %v", at, shown, err)
		}
		s.Close()
		cancel()
		<-done
	}
}

// F19: over TLS too, who has another token is turned away before gRPC, at once, and
// both sides say why without a secret; the run goes on.
func TestF19AnotherTokenOverTLS(t *testing.T) {
	host := hostAddress(t)
	var mu sync.Mutex
	var said []string
	at, turned := "", make(chan struct{})
	var once sync.Once
	afterwards := func(ctx context.Context, h comm.Host) error { // else the run may be over before the stranger comes
		select {
		case <-turned:
		case <-time.After(patience.Stretch(20 * time.Second)): // the log will tell
		}
		return swap(ctx, h)
	}
	errs := together(t.Context(), all(2, afterwards), [][]int{{0}, {1}, {1}}, func(i int, c *Config) {
		c.Listen = host + ":0"
		if i == 1 {
			c.Token = otherToken
		}
		if i == 2 {
			c.Listen, at = "", c.Coordinator
		}
		c.Logf = func(f string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf(f, args...))
			if i == 0 && strings.Contains(f, "refused a connection") {
				once.Do(func() { close(turned) })
			}
		}
	})
	if errs[0] != nil || errs[2] != nil {
		t.Error(errs[0], errs[2])
	}
	refusal(t, errs[1], "wrong token")
	if !strings.Contains(errs[1].Error(), at) {
		t.Errorf("%v does not name %s", errs[1], at)
	}
	log := strings.Join(said, "\n")
	if !strings.Contains(log, "refused a connection from "+host) || !strings.Contains(log, "wrong token") {
		t.Errorf("the log says %q", log)
	}
	for _, secret := range []string{testToken, otherToken} {
		if strings.Contains(log+errs[1].Error(), secret) {
			t.Error("a secret is in the log")
		}
	}
}

// F21: what was heard on the wire opens no connection, however often it is said again:
// 10,000 times on loopback, and on another address under TLS.
func TestF21Replay(t *testing.T) {
	t.Parallel()
	replays := 10000
	if !patience.Long { // as under the race detector
		replays = 200
	}
	for _, at := range []string{"127.0.0.1", hostAddress(t)} {
		var e ear
		overheard(t, at, &e, func(*Config) {}, func(ctx context.Context, h comm.Host) error {
			r := h.(*host).run
			e.mu.Lock()
			heard := slices.Clone(e.calls)
			for i := range heard {
				heard[i] = bytes.Clone(heard[i])
			}
			e.mu.Unlock()
			if len(heard) < 2 {
				return fmt.Errorf("heard %d calls, want one to join and one to link", len(heard))
			}
			for i := range replays {
				s, err := net.Dial("tcp", r.lis.Addr().String())
				if err != nil {
					return err
				}
				_, _ = s.Write(heard[i%len(heard)])
				_ = s.(*net.TCPConn).CloseWrite()
				answer, _ := io.ReadAll(s)
				s.Close()
				if len(answer) > nonceSize && at == "127.0.0.1" && !bytes.Equal(answer[nonceSize:], make([]byte, nonceSize)) {
					return fmt.Errorf("the nonce is followed by %x", answer[nonceSize:])
				}
				for b := answer; at != "127.0.0.1" && len(b) > 0; { // TLS: a greeting, an alert
					if len(b) < 5 || b[0] != 22 && b[0] != 21 && b[0] != 20 {
						return fmt.Errorf("a record of type %d is answered", b[0])
					}
					b = b[min(len(b), 5+int(b[3])<<8+int(b[4])):]
				}
			}
			// Nobody but the other rank was let in.
			r.lis.mu.Lock()
			defer r.lis.mu.Unlock()
			trusted := 0
			for _, c := range r.lis.conns {
				if c.trusted.Load() {
					trusted++
				}
			}
			if trusted != 1 {
				return fmt.Errorf("%d callers are trusted, want the other rank alone", trusted)
			}
			return h.Send(ctx, 1, comm.NewFrame(comm.Header{}, nil))
		}, func(ctx context.Context, h comm.Host) error {
			f, err := h.Recv(ctx, 0, 0)
			f.Release()
			return err
		})
	}
}

// F20: the full matrix of certificates from files. Refused are another authority, none
// at all, one that is over, one for another name, one good for the other end only, and
// one that names other ranks; each time both sides end with an error.
func TestF20Certificates(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	now := time.Now()
	good := leaf{ip: "127.0.0.1", until: now.Add(time.Hour), use: bothEnds}
	with := func(tune func(*leaf)) leaf { l := good; tune(&l); return l }
	for name, c := range map[string]struct {
		of        *authorityKey
		lead, one leaf
		want      string // at one of the two; "": they meet
	}{
		"good":                    {ours, good, good, ""},
		"ranks named":             {ours, with(func(l *leaf) { l.ranks = []int{0} }), with(func(l *leaf) { l.ranks = []int{1} }), ""},
		"another authority":       {theirs, good, good, "unknown authority"},
		"over, at the caller":     {ours, good, with(func(l *leaf) { l.until = now.Add(-time.Minute) }), "expired"},
		"over, at the listener":   {ours, with(func(l *leaf) { l.until = now.Add(-time.Minute) }), good, "expired"},
		"another name":            {ours, with(func(l *leaf) { l.ip = "127.9.9.9" }), good, "127.9.9.9"},
		"a caller's, listening":   {ours, with(func(l *leaf) { l.use = x509.ExtKeyUsageClientAuth }), good, "incompatible key usage"},
		"a listener's, calling":   {ours, good, with(func(l *leaf) { l.use = x509.ExtKeyUsageServerAuth }), "certificate"},
		"a worker's, as a server": {ours, good, with(func(l *leaf) { l.ranks = []int{7} }), "one of rank 7, not of rank 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // who is refused waits for its time to join
			began := time.Now()
			errs := together(t.Context(), all(2, swap), split(2, 1), func(i int, n *Config) {
				n.TLS = ours.issue(t, c.lead)
				if i == 1 {
					n.TLS = c.of.issue(t, c.one)
				}
				n.JoinTimeout = patience.Stretch(2 * time.Second)
			})
			if c.want == "" {
				if err := firstOf(errs); err != nil {
					t.Error(err)
				}
				return
			}
			if errs[0] == nil || errs[1] == nil {
				t.Fatalf("%v; took %v", errs, time.Since(began))
			}
			var ref *RefusedError
			if !errors.As(errs[1], &ref) || !strings.Contains(errs[0].Error()+errs[1].Error(), c.want) {
				t.Errorf("the lead says %v\nthe other %v\nwant %q", errs[0], errs[1], c.want)
			}
		})
	}
}

// Certificates of files at one end alone: the coordinator says which end lacks them.
func TestFilesAtOneEnd(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	for holder, want := range []string{"it has no certificates of files", "it has certificates of files"} {
		t.Run(fmt.Sprint("rank ", holder), func(t *testing.T) {
			t.Parallel()
			errs := together(t.Context(), all(2, idle), split(2, 1), func(i int, n *Config) {
				if i == holder {
					n.TLS = ours.issue(t, leaf{ip: "127.0.0.1", until: time.Now().Add(time.Hour), use: bothEnds})
				}
				n.JoinTimeout, n.ConnectTimeout = patience.Stretch(time.Second), patience.Stretch(time.Second)
			})
			if errs[0] == nil || errs[1] == nil || !strings.Contains(errs[0].Error(), want) {
				t.Errorf("the lead says %v, want %q; the other %v", errs[0], want, errs[1])
			}
		})
	}
}

const bothEnds = x509.ExtKeyUsage(-1)

// leaf is a certificate to be made.
type leaf struct {
	ip    string
	until time.Time
	use   x509.ExtKeyUsage
	ranks []int
}

type authorityKey struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authorityKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "files"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authorityKey{c, key}
}

// issue makes the TLS configuration of a process with such a certificate. It trusts
// this authority alone.
func (a *authorityKey) issue(t *testing.T, l leaf) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	uses := []x509.ExtKeyUsage{l.use}
	if l.use == bothEnds {
		uses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: l.until,
		IPAddresses: []net.IP{net.ParseIP(l.ip)}, URIs: rankURIs(l.ranks), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: uses}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ClientCAs: pool, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// A token that could be guessed is refused, with the command that makes a good one.
func TestCheckToken(t *testing.T) {
	for token, good := range map[string]bool{
		testToken: true, "secret31337": false, "": false, strings.Repeat("a", 64): false, "0123456789abcdef0123456789abcde": false,
		"q83vEjRWeJASNFZ4kBI0VniQEjRWeJAS": true, "123456789012345678901234567890": false, "1234567890123456789012345678901234567890": false,
		"8246019573640281957306418295037462918350": true, "0123456789abcdef0123456789abcdef": false, strings.Repeat("7c41e09b", 8): false, strings.Repeat("q83vEjRWeJA", 3): false,
		"qTfL9xvB2mZr8KdWp4Yc0": false, "qTfL9xvB2mZr8KdWp4Yc0g": true,
	} {
		err := CheckToken(token)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "/dev/urandom") {
			t.Errorf("%q: %v", token, err)
		}
		if err != nil && len(token) > 1 && strings.Contains(err.Error(), token) {
			t.Errorf("the token is in %v", err)
		}
	}
	c := quick(1, 0)
	c.Token = "secret31337"
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "128 bits") {
		t.Error(err)
	}
}

// A name that is not known yet is asked for again, until it is.
func TestNameKnownLater(t *testing.T) {
	t.Parallel()
	lead, err := New(quick(2, 0))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(lead.Addr())
	var asked atomic.Int32
	c := quick(2, 1)
	c.Coordinator = "lead.run.example:" + port
	c.resolver = names(t, func(name string) (ip []byte) {
		if name != "lead.run.example" || asked.Add(1) <= 4 { // IPv4 and IPv6, twice
			return nil
		}
		return []byte{127, 0, 0, 1}
	})
	other, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, n := range []*Net{lead, other} {
		wg.Go(func() {
			if err := n.Run(t.Context(), all(1, swap)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if asked.Load() <= 4 {
		t.Errorf("the name was asked for %d times", asked.Load())
	}
}

// names is a resolver that asks known, over a name server of this process; nil: there
// is no such name.
func names(t *testing.T, known func(name string) []byte) *net.Resolver {
	t.Helper()
	s, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := s.ReadFrom(b)
			if err != nil {
				return
			}
			var labels []string
			at := 12
			for n > at && b[at] != 0 {
				labels = append(labels, string(b[at+1:at+1+int(b[at])]))
				at += 1 + int(b[at])
			}
			kind, end := b[at+2], at+5 // of the question: 1 is A
			ip := known(strings.Join(labels, "."))
			reply := append([]byte{b[0], b[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, b[12:end]...)
			switch {
			case ip == nil:
				reply[3] = 0x83 // no such name
			case kind == 1:
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4)
				reply = append(reply, ip...)
			}
			_, _ = s.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.LocalAddr().String())
	}}
}

// A stranger's connections without end cost a bounded memory and a bounded log.
func TestStrangersAreBounded(t *testing.T) {
	var stop atomic.Bool
	var lines atomic.Int32
	errs := together(t.Context(), all(2, pingPong(&stop, func(ctx context.Context, h comm.Host) error {
		r := h.(*host).run
		data := make([]byte, 256<<10)
		defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is in use, not what is left lying
		runtime.GC()
		before := heap()
		var most atomic.Uint64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 { // HTTP/2 with streams and data, as gRPC would take it
					c, err := net.Dial("tcp", r.addr)
					if err != nil {
						continue
					}
					_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
					_, _ = c.Write(data)
					for now, was := heap(), most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
					}
					c.Close()
				}
			})
		}
		wg.Wait()
		if m := most.Load(); m > before+64<<20 {
			return fmt.Errorf("%d MiB more while 800 strangers came", (m-before)>>20)
		}
		return nil
	})), split(2, 1), func(i int, c *Config) { c.Logf = func(string, ...any) { lines.Add(1) } })
	if err := firstOf(errs); err != nil {
		t.Error(err)
	}
	if n := lines.Load(); n == 0 || n > 20 {
		t.Errorf("%d lines were logged of 800 strangers", n)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
