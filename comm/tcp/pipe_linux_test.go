package tcp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type failer interface {
	Helper()
	Fatal(args ...any)
}

// switched is a socket that TLS reads and writes until a pipe does.
type switched struct {
	net.Conn
	pipe *Pipe
}

func (s *switched) Read(b []byte) (int, error) {
	if s.pipe != nil {
		return s.pipe.Read(b)
	}
	return s.Conn.Read(b)
}

func (s *switched) Write(b []byte) (int, error) {
	if s.pipe != nil {
		return s.pipe.Write(b)
	}
	return s.Conn.Write(b)
}

var certificate = func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"pipe"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}()

// end is a pipe or a bundle.
type end interface {
	Push(v *[][]byte) (done bool, err error)
	Await() error
	Look() ([]byte, error)
	Fill(dst []byte) (int, error)
	Consume(n int)
	Wait()
	Leave()
	FinishBy(at time.Time)
	Crossed() (sent, read uint64)
	Close()
	Release()
}

// bundles makes both ends of a bundle of n pipes, or of a pipe.
func bundles(t failer, n int, secure bool) (a, b end, over func()) {
	t.Helper()
	var here, there []*Pipe
	for range n {
		p, q, _ := pair(t, secure)
		here, there = append(here, p), append(there, q)
	}
	a, b = here[0], there[0]
	if n > 1 {
		a, b = NewBundle(here), NewBundle(there)
	}
	return a, b, func() {
		for _, e := range []end{a, b} {
			e.Close()
			e.Release()
		}
	}
}

// pair makes both ends of a pipe.
func pair(t failer, secure bool) (a, b *Pipe, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ends := [2]*switched{{Conn: here}, {Conn: there}}
	over := [2]*tls.Conn{
		tls.Server(ends[0], &tls.Config{Certificates: []tls.Certificate{certificate}}),
		tls.Client(ends[1], &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true}),
	}
	if secure {
		done := make(chan error)
		go func() { done <- over[0].Handshake() }()
		if err := errors.Join(over[1].Handshake(), <-done); err != nil {
			t.Fatal(err)
		}
	}
	var pipes [2]*Pipe
	for i, s := range ends {
		if pipes[i], err = New(s.Conn, s.Conn, false, func(int, int) {}); err != nil {
			t.Fatal(err)
		}
		if secure {
			pipes[i].Under(over[i])
			s.pipe = pipes[i]
		}
	}
	return pipes[0], pipes[1], func() {
		for _, p := range pipes {
			p.Close()
			p.Release()
		}
	}
}

// send writes p in pieces of at most n bytes, a few at a time.
func send(w end, p []byte, n int) error {
	for len(p) > 0 {
		var v [][]byte
		for range 3 {
			k := min(n, len(p))
			v, p = append(v, p[:k]), p[k:]
		}
		for {
			done, err := w.Push(&v)
			if err != nil {
				return err
			}
			if done {
				break
			}
			if err := w.Await(); err != nil {
				return err
			}
		}
	}
	return nil
}

// look waits for bytes.
func look(p end) ([]byte, error) {
	for {
		if b, err := p.Look(); len(b) > 0 || err != nil {
			return b, err
		}
		p.Wait()
	}
}

// Whatever the pieces, bytes arrive as they were sent, in both directions at once, in plain
// text and under TLS.
func TestBytesArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, over := bundles(t, rapid.IntRange(1, 4).Draw(t, "pipes"), rapid.Bool().Draw(t, "secure"))
		defer over()
		total := rapid.SampledFrom([]int{1, 1000, 70_000, 3_000_000}).Draw(t, "bytes")
		n, k := rapid.IntRange(1+total/500, 400_000).Draw(t, "written at once"), rapid.IntRange(1+total/500, 400_000).Draw(t, "read at once")
		body := make([]byte, total)
		for i := range body {
			body[i] = byte(i ^ i>>8)
		}
		errs := make(chan error, 4)
		for _, p := range []end{a, b} {
			go func() { errs <- send(p, body, n) }()
			go func() { errs <- receive(p, body, k) }()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []end{a, b} {
			sent, read := p.Crossed()
			if int(sent) < total || int(read) < total {
				t.Fatalf("%d sent, %d read, of %d", sent, read, total)
			}
		}
	})
}

// receive reads body, by Look and by Fill in turns of k bytes.
func receive(p end, body []byte, k int) error {
	for turn, at := 0, 0; at < len(body); turn++ {
		var got []byte
		if turn%3 == 0 {
			b, err := look(p)
			if err != nil {
				return err
			}
			got = append(got, b[:min(k, len(b))]...)
			p.Consume(len(got))
		} else {
			dst := make([]byte, min(k, len(body)-at))
			n, err := p.Fill(dst)
			if err != nil {
				return err
			}
			if got = dst[:n]; n == 0 {
				p.Wait()
			}
		}
		if !bytes.Equal(got, body[at:at+len(got)]) {
			return fmt.Errorf("damaged at %d", at)
		}
		at += len(got)
	}
	return nil
}

// Every wait ends: by what it waits for, by the end of the other side, by Close, or at the
// instant that it may last to.
func TestWaitsEnd(t *testing.T) {
	for _, kind := range []struct {
		pipes  int
		secure bool
	}{{1, false}, {1, true}, {3, false}, {3, true}} {
		within := func(t *testing.T, do func() error) error {
			t.Helper()
			done := make(chan error, 1)
			go func() { done <- do() }()
			select {
			case err := <-done:
				return err
			case <-time.After(patience.Stretch(10 * time.Second)):
				t.Fatal("still waiting")
				return nil
			}
		}
		later := func(do func()) { time.AfterFunc(20*time.Millisecond, do) }
		for name, c := range map[string]struct {
			do   func(a, b end)
			want error
		}{
			"closed":          {func(a, b end) { later(a.Close) }, ErrLost},
			"other side ends": {func(a, b end) { later(b.Close) }, io.EOF},
			"at an instant":   {func(a, b end) { a.FinishBy(time.Now().Add(20 * time.Millisecond)) }, io.EOF},
		} {
			t.Run(fmt.Sprintf("reader, %s, %v", name, kind), func(t *testing.T) {
				a, b, over := bundles(t, kind.pipes, kind.secure)
				defer over()
				if err := send(b, []byte("last words"), 100); err != nil {
					t.Fatal(err)
				}
				p, err := look(a)
				if string(p) != "last words" || err != nil {
					t.Fatalf("%q %v", p, err)
				}
				a.Consume(len(p))
				c.do(a, b)
				if err := within(t, func() error { _, err := look(a); return err }); !errors.Is(err, c.want) {
					t.Error(err)
				}
			})
		}
		for name, do := range map[string]func(a, b end){
			"closed":          func(a, b end) { later(a.Close) },
			"other side ends": func(a, b end) { later(b.Close) },
		} {
			t.Run(fmt.Sprintf("writer, %s, %v", name, kind), func(t *testing.T) {
				a, b, over := bundles(t, kind.pipes, kind.secure)
				defer over()
				do(a, b)
				if err := within(t, func() error { return send(a, make([]byte, 256<<20), 1<<20) }); !errors.Is(err, ErrLost) {
					t.Error(err)
				}
			})
		}
	}
}

// Who looks and leaves bytes that it has taken from the kernel lets a Wait return: the kernel
// does not say any more that they are there.
func TestWhatIsLeftIsHeardOf(t *testing.T) {
	for _, kind := range []struct {
		pipes  int
		secure bool
	}{{1, false}, {1, true}, {2, false}} {
		a, b, over := bundles(t, kind.pipes, kind.secure)
		for round := range 300 {
			for { // until nothing is there
				if p, err := a.Look(); err != nil {
					t.Fatal(err)
				} else if len(p) == 0 {
					break
				} else {
					a.Consume(len(p))
				}
			}
			woken := make(chan struct{})
			go func() { a.Wait(); close(woken) }()
			if round%2 == 0 {
				runtime.Gosched()
			}
			if err := send(b, make([]byte, block), block); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < block-1; {
				p, err := a.Look()
				if err != nil {
					t.Fatal(err)
				}
				k := min(len(p), block-1-got)
				a.Consume(k)
				got += k
			}
			a.Leave()
			select {
			case <-woken:
			case <-time.After(patience.Stretch(10 * time.Second)):
				t.Fatalf("%v: nobody hears of what is left, in round %d", kind, round)
			}
		}
		over()
	}
}

// A pipe at rest holds no buffer, and steps allocate nothing.
func TestRestCostsNothing(t *testing.T) {
	for _, secure := range []bool{false, true} {
		a, b, end := pair(t, secure)
		body := make([]byte, 100_000)
		v := make([][]byte, 0, 2)
		once := func() {
			v = append(v[:0], body)
			w := v
			for done := false; !done; {
				var err error
				if done, err = a.Push(&w); err != nil {
					t.Fatal(err)
				}
			}
			for at := 0; at < len(body); {
				p, err := look(b)
				if err != nil {
					t.Fatal(err)
				}
				at += len(p)
				b.Consume(len(p))
			}
		}
		once()
		if n := testing.AllocsPerRun(50, once); n > 1 && !secure {
			t.Errorf("%v allocations a message", n)
		}
		if p, err := b.Look(); len(p) > 0 || err != nil {
			t.Errorf("%d bytes, %v", len(p), err)
		}
		if a.cipher != nil || b.plain.b != nil || b.sealed.b != nil {
			t.Errorf("TLS %v: a pipe at rest holds buffers", secure)
		}
		end()
	}
}
