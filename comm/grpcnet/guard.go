package grpcnet

import (
	"context"
	"crypto/hmac"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// guard stands before gRPC: a connection becomes one of gRPC's only when both ends
// have shown that they know the run's secret. Until then it costs a few hundred
// bytes, and gRPC's windows and buffers do not exist.
//
// Whoever calls shows first, on every road; who listens answers nothing that depends
// on the secret before. A stranger who connects so learns nothing that a guess could
// be tried on.
//
// The first byte of a caller says how the connection is secured:
//
//	helloPlain   plain text, on loopback or where Config.Insecure permits it: each end
//	             proves the secret over a nonce of the other
//	helloTurned  TLS 1.3 by certificates derived from the secret, with its roles turned
//	             round: the caller is TLS's server, whose certificate comes first
//
// With Config.TLS set there is no such byte: TLS as usual, by those certificates, and
// inside it the proof of helloPlain.
type guard struct {
	cfg   *Config
	files credentials.TransportCredentials // of Config.TLS; nil: there are none
	// refused is told why a connection is not to be had: at a caller, which need not
	// try again; at a listener, whom it has turned away.
	refused func(who net.Addr, err error)
	parked  *parked // of a listener
}

const (
	helloPlain  = 'p'
	helloTurned = 't'
)

func (c *Config) guard(refused func(net.Addr, error), aside *parked) *guard {
	g := &guard{cfg: c, refused: refused, parked: aside}
	if c.TLS != nil {
		g.files = credentials.NewTLS(c.TLS)
	}
	return g
}

// proven is what gRPC knows of a connection that the guard let pass.
type proven struct{ credentials.CommonAuthInfo }

// AuthType implements credentials.AuthInfo.
func (proven) AuthType() string { return "gradlab" }

// Info implements credentials.TransportCredentials.
func (g *guard) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "gradlab"}
}

// Clone implements credentials.TransportCredentials.
func (g *guard) Clone() credentials.TransportCredentials { return g }

// OverrideServerName implements credentials.TransportCredentials.
func (g *guard) OverrideServerName(string) error {
	return errors.New("grpcnet: the name follows from the address")
}

// ClientHandshake implements credentials.TransportCredentials at the calling end.
func (g *guard) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := raw.(*conn)
	out, err := g.call(ctx, authority, c)
	if err == nil {
		_, err = out.Write([]byte{forGRPC})
	}
	if err != nil {
		if final := g.final(c.RemoteAddr(), err); final != nil {
			g.refused(c.RemoteAddr(), final)
		}
		return nil, nil, err
	}
	return out, proven{}, nil
}

func (g *guard) call(ctx context.Context, authority string, c *conn) (net.Conn, error) {
	switch {
	case g.files != nil:
		if name := g.cfg.TLS.ServerName; name != "" { // else that of the address
			authority = name
		}
		out, info, err := g.files.ClientHandshake(ctx, authority, c)
		if err != nil {
			return nil, err
		}
		c.secured(info.(credentials.TLSInfo).State)
		return out, g.cfg.prove(out)
	case g.cfg.Insecure || isLoopback(c.RemoteAddr()):
		if _, err := c.Write([]byte{helloPlain}); err != nil {
			return nil, err
		}
		return c, g.cfg.prove(c)
	case g.cfg.derived == nil:
		return nil, g.cfg.plainText("connect to", c.RemoteAddr().String())
	}
	if _, err := c.Write([]byte{helloTurned}); err != nil {
		return nil, err
	}
	out := tls.Server(c, g.cfg.derived)
	if err := out.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	c.secured(out.ConnectionState())
	return out, nil
}

// final says of a failure whether another try could end otherwise; nil: it could.
func (g *guard) final(who net.Addr, err error) error {
	var verify *tls.CertificateVerificationError
	var alert *net.OpError
	var unsafe *AddressError
	by := who.String()
	switch {
	case errors.As(err, &unsafe):
		return err
	case errors.Is(err, errProof):
		return &RefusedError{By: by, Reason: wrongToken}
	case errors.As(err, &verify):
		return &RefusedError{By: thisProcess, Reason: fmt.Sprintf("the certificate of %s is not to be trusted: %v", by, verify.Err)}
	case errors.As(err, &alert) && alert.Op == "remote error" && g.files != nil:
		return &RefusedError{By: by, Reason: fmt.Sprintf("it does not trust this process's certificate (%v)", alert.Err)}
	case errors.As(err, &alert) && alert.Op == "remote error":
		return &RefusedError{By: by, Reason: wrongToken}
	}
	return nil
}

// thisProcess is who refuses what it is shown.
const thisProcess = "this process"

const wrongToken = "wrong token: it and this process do not share the run's secret"

// ServerHandshake implements credentials.TransportCredentials at the listening end.
// gRPC bounds the time that it may take.
func (g *guard) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := raw.(*conn)
	out, err := g.answer(c)
	taken := false
	if err == nil {
		taken, err = g.purpose(c, out)
	}
	if err != nil {
		if !errors.Is(err, io.EOF) { // who says nothing asks for nothing
			g.refused(c.RemoteAddr(), err)
		}
		return nil, nil, err
	}
	c.trusted.Store(true)
	if taken {
		return nil, nil, credentials.ErrConnDispatched
	}
	return out, proven{}, nil
}

func (g *guard) answer(c *conn) (net.Conn, error) {
	var hello [1]byte
	if _, err := io.ReadFull(c, hello[:]); err != nil {
		return nil, err
	}
	switch {
	case g.files != nil && (hello[0] == helloPlain || hello[0] == helloTurned):
		return nil, errors.New("it has no certificates of files, which --tls-cert names on all ranks or on none")
	case g.files != nil:
		out, info, err := g.files.ServerHandshake(&begun{c, hello[:]})
		if err != nil {
			return nil, err
		}
		c.secured(info.(credentials.TLSInfo).State)
		return out, g.cfg.check(out)
	case hello[0] == helloPlain && (g.cfg.Insecure || isLoopback(c.RemoteAddr())):
		return c, g.cfg.check(c)
	case hello[0] == helloPlain:
		return nil, errors.New("it speaks plain text, which is not permitted here")
	case hello[0] == helloTurned && g.cfg.derived != nil:
		out := tls.Client(c, g.cfg.derived)
		if err := out.Handshake(); err != nil {
			return nil, err
		}
		c.secured(out.ConnectionState())
		return out, nil
	case hello[0] == tlsHandshake:
		return nil, errors.New("it has certificates of files, which --tls-cert names on all ranks or on none")
	}
	return nil, errors.New("it is no rank of this version of gradlab")
}

// tlsHandshake is the first byte of TLS: the type of a record (RFC 8446, 5.1).
const tlsHandshake = 22

// begun is a connection of which the first bytes have been read.
type begun struct {
	net.Conn
	read []byte
}

func (c *begun) Read(b []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(b, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// prove shows at the calling end that this process knows the secret, and has the
// other end show it.
func (c *Config) prove(s io.ReadWriter) error {
	mine := newNonce()
	if _, err := s.Write(mine); err != nil {
		return err
	}
	var theirs, answer [nonceSize]byte
	if _, err := io.ReadFull(s, theirs[:]); err != nil {
		return err
	}
	key := []byte(c.Token)
	if _, err := s.Write(proof(key, "call", mine, theirs[:])); err != nil {
		return err
	}
	if _, err := io.ReadFull(s, answer[:]); err != nil {
		return err
	}
	if !hmac.Equal(answer[:], proof(key, "answer", mine, theirs[:])) {
		return errProof
	}
	return nil
}

// check has the calling end show that it knows the secret, and then shows it. Who
// does not is told so by zeros, which everybody knows.
func (c *Config) check(s io.ReadWriter) error {
	var theirs, shown [nonceSize]byte
	if _, err := io.ReadFull(s, theirs[:]); err != nil {
		return err
	}
	mine := newNonce()
	if _, err := s.Write(mine); err != nil {
		return err
	}
	if _, err := io.ReadFull(s, shown[:]); err != nil {
		return err
	}
	key := []byte(c.Token)
	if !hmac.Equal(shown[:], proof(key, "call", theirs[:], mine)) {
		_, _ = s.Write(make([]byte, nonceSize))
		return errProof
	}
	_, err := s.Write(proof(key, "answer", theirs[:], mine))
	return err
}

// isLoopback says whether an address is of this machine alone.
func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// strangers bounds what is said of those who were turned away: the first few, and
// then every time that their number has doubled.
type strangers struct{ n atomic.Uint64 }

// says returns whether this one is to be told, and the count of all.
func (s *strangers) says() (n uint64, tell bool) {
	n = s.n.Add(1)
	return n, n <= 4 || n&(n-1) == 0
}
