package bench

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"time"
)

// rawTCP is a bare connection between two processes, under the same congestion
// control as ours.
type rawTCP struct {
	net.Conn
	sender bool
}

func listenTCP(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{Control: reno}).Listen(ctx, "tcp", "127.0.0.1:0")
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{Control: reno}).DialContext(ctx, "tcp", addr)
}

// secured has TLS over a connection.
func secured(ctx context.Context, c net.Conn, conf *tls.Config, calls bool) (net.Conn, error) {
	over := tls.Server(c, conf)
	if calls {
		over = tls.Client(c, conf)
	}
	if err := over.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return over, nil
}

// stream moves iters messages of so many bytes from the sender to the other side,
// with one byte back at the end.
func (c *rawTCP) stream(bytes, iters int) (t took, err error) {
	buf := make([]byte, max(bytes, 1))
	if c.sender {
		for range iters {
			if _, err := c.Write(buf[:bytes]); err != nil {
				return t, err
			}
		}
		_, err := io.ReadFull(c, buf[:1])
		return t, err
	}
	begin := time.Now()
	into := make([]byte, 1<<20) // of a read; larger ones gain nothing
	for left := bytes * iters; left > 0; {
		n, err := c.Read(into[:min(left, len(into))])
		if err != nil {
			return t, err
		}
		left -= n
	}
	t.Seconds = time.Since(begin).Seconds()
	_, err = c.Write(buf[:1])
	return t, err
}

// roundTrip moves so many bytes there and back.
func (c *rawTCP) roundTrip(bytes, iters int) (took, error) {
	buf := make([]byte, bytes)
	return timed(iters, func() error {
		if !c.sender {
			if _, err := c.Write(buf); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return err
		}
		if c.sender {
			_, err := c.Write(buf)
			return err
		}
		return nil
	})
}
