// Package grpcnet runs ranks as operating-system processes that meet, prove themselves and
// watch each other over gRPC, and exchange frames through shared memory, over TCP
// connections of their own, or over gRPC as well.
//
// Every process listens on one address. One of them, the coordinator, checks
// that all were started for the same run, hands out the address table, and from
// then on is like the others. Every two processes share one bidirectional
// stream, with heartbeats and the news of a death, and beside it a lane (package
// comm/lane), which carries the frames between all their ranks in the order sent.
//
// What the lane leads through they agree on when they introduce themselves, as
// Config.Links chooses. Memory that both map (package comm/shm, Linux only) is offered
// where both see the same kernel, user and process table, so that a container is another
// host; a process proves that it has opened the very memory it was offered. Otherwise it
// is a TCP connection, to the same port and through the same guard as gRPC's, or several
// where the other process is far (package comm/tcp, Linux only). Where neither can be had
// frames go by the stream, and the log says so.
//
// A process that dies, is cut off or is silent for longer than its lease is
// gone for the others; if it comes back it finds itself fenced and ends. With Config.Late
// another process may come in its place while the run goes on.
package grpcnet

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/shm"
)

// Links says what two processes move frames through.
type Links string

const (
	// LinksAuto is shared memory on one host where it can be had, else a TCP connection
	// of its own, else gRPC, which the log tells.
	LinksAuto Links = "auto"
	// LinksTCP is a TCP connection of its own, on one host too, and an error where it
	// cannot be had.
	LinksTCP Links = "tcp"
	// LinksGRPC is gRPC everywhere.
	LinksGRPC Links = "grpc"
	// LinksSHM is shared memory, and an error where it cannot be had.
	LinksSHM Links = "shm"
)

// Config describes one process of a run. World and Ranks are required; a zero
// value elsewhere stands for the default.
type Config struct {
	// Ranks are hosted by this process; program i of Run runs as Ranks[i].
	Ranks []int
	// World is the number of ranks of the run.
	World int
	// Coordinator is the address of the coordinating process. Empty: this
	// process is the coordinator.
	Coordinator string
	// Listen is the address to listen on. Default: any free port of loopback, or
	// where the coordinator is on another address, of the address from which this
	// process reaches it.
	Listen string
	// Advertise is the address the others reach this process at, as host:port or as
	// a host alone, with the listener's port. Default: the listener's address, its
	// host replaced by the one that the coordinator sees where it is unspecified or
	// followed from the coordinator's.
	Advertise string
	// Identity is compared field by field when a process joins.
	Identity []Field
	// Token is the secret of the run, see CheckToken. Who does not know it can
	// neither join nor link. It never travels: both sides prove that they know it,
	// who calls first. Beyond loopback the proof is a certificate derived from it, and
	// TLS 1.3 hides all that is sent; on loopback a message authentication code.
	Token string
	// Run is the hash of the run's identity. It is compared when a process
	// joins, and stamped on frames that name no run.
	Run uint64
	// Incarnation of the ranks of this process: it rises when they restart. It
	// is stamped on frames that name none.
	Incarnation uint32
	// TLS secures every connection instead, loopback too, for both directions of
	// dialling. TLS 1.3 is the least version; with ClientCAs set, client certificates
	// are required unless ClientAuth says otherwise. A certificate with URIs
	// gradlab:rank/N is good for processes whose first rank is one of these.
	TLS *tls.Config
	// Insecure has all ranks speak plain text, on whatever addresses.
	Insecure bool

	// Late lets processes come while the run goes on, in the place of ones that are gone.
	// They host the same ranks, with nothing of what those had, and the next incarnation,
	// which the coordinator gives. Without it who is gone stays so.
	Late bool
	// Fixed are ranks in whose place nobody comes while the run goes on, with Late: their
	// processes wait until all meet again.
	Fixed []int
	// Again, of the coordinator, is asked when one of its ranks has failed as a process was
	// lost: with all ranks that are lost so far, perhaps more than once. If it says so all
	// processes meet again, and Run returns a comm.AgainError to each.
	Again func(lost []*comm.PeerError) bool

	// Links is what frames go through. Default LinksAuto.
	Links Links

	// Heartbeat is how often a link says that its process lives. Default 1 s.
	Heartbeat time.Duration
	// Lease is how long a process may be silent before it is gone. Default 10 s.
	Lease time.Duration
	// JoinTimeout bounds the wait for all ranks. Default 60 s.
	JoinTimeout time.Duration
	// FindTimeout bounds the wait until the coordinator is there. 0: JoinTimeout does.
	FindTimeout time.Duration
	// ConnectTimeout bounds one handshake. Default 5 s.
	ConnectTimeout time.Duration
	// Deadline is the last resort for every wait of a program. Default 10 min.
	Deadline time.Duration

	// MaxFrame bounds the body of a frame, in bytes. Default 1 GiB.
	MaxFrame int
	// QueueBytes bounds what waits to be sent on a link. Default 64 MiB; a
	// single larger frame passes.
	QueueBytes int

	checkAll bool          // check bodies on every stream, as between hosts
	derived  *tls.Config   // from Token; nil without one
	resolver *net.Resolver // of names to dial; nil: the system's
	machine  string        // names this one to others that might share memory
	pipes    int           // for frames to each process; 0: by its distance

	// Logf is told what an operator may want to know: refused joins, dead
	// peers. Default: nobody.
	Logf func(format string, args ...any)
}

// complete checks c and fills in defaults.
func (c *Config) complete() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("grpcnet: "+format, args...)) }
	if c.World <= 0 {
		bad("world of %d ranks", c.World)
	}
	c.Ranks = slices.Clone(c.Ranks)
	if len(c.Ranks) == 0 {
		bad("a process must host at least one rank")
	}
	seen := map[int]bool{}
	for _, r := range c.Ranks {
		if r < 0 || r >= c.World {
			bad("rank %d is not in 0 … %d", r, c.World-1)
		}
		if seen[r] {
			bad("rank %d is given twice", r)
		}
		seen[r] = true
	}
	c.Identity = slices.Clone(c.Identity)
	names := map[string]bool{}
	for _, f := range c.Identity {
		if names[f.Name] {
			bad("identity field %q is given twice", f.Name)
		}
		names[f.Name] = true
	}
	if c.Listen == "" && (c.Coordinator == "" || OnLoopback(c.Coordinator)) {
		c.Listen = "127.0.0.1:0"
	}
	if err := c.useToken(); err != nil {
		bad("%v", err)
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"Heartbeat", &c.Heartbeat, time.Second},
		{"Lease", &c.Lease, 10 * time.Second},
		{"JoinTimeout", &c.JoinTimeout, time.Minute},
		{"ConnectTimeout", &c.ConnectTimeout, 5 * time.Second},
		{"Deadline", &c.Deadline, 10 * time.Minute},
		{"FindTimeout", &c.FindTimeout, 0},
	} {
		if *d.v < 0 {
			bad("%s of %v", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.Lease < 2*c.Heartbeat {
		bad("a lease of %v is shorter than two heartbeats of %v", c.Lease, c.Heartbeat)
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = 1 << 30
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 64 << 20
	}
	if c.MaxFrame < 0 || c.QueueBytes < 0 {
		bad("MaxFrame %d, QueueBytes %d", c.MaxFrame, c.QueueBytes)
	}
	c.Links = cmp.Or(c.Links, LinksAuto)
	if known := []Links{LinksAuto, LinksSHM, LinksTCP, LinksGRPC}; !slices.Contains(known, c.Links) {
		bad("links is %q, want one of %v", c.Links, known)
	}
	if c.TLS != nil {
		c.TLS = hardened(c.TLS)
	}
	c.machine = cmp.Or(c.machine, shm.Host())
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	return errors.Join(errs...)
}

// useToken makes what follows from the token.
func (c *Config) useToken() (err error) {
	if c.Token == "" {
		return nil
	}
	if err := CheckToken(c.Token); err != nil {
		return err
	}
	c.derived, err = derive(c.Token, c.Ranks)
	return err
}

// checked says whether the bodies on a connection carry checksums. Between hosts
// they do: TCP's own 16 bits let one damaged segment in 65536 through, and what
// damages segments does so often. TLS checks better by itself, and what stays in
// one machine crosses no wire: there a checksum would cost a sixth of all CPU time
// and find what memory without error correction does to everything else, too.
func (c *Config) checked(on *conn) bool {
	if on.private {
		return false
	}
	return c.checkAll || !isLoopback(on.RemoteAddr())
}

// hardened fills in what a tls.Config leaves open.
func hardened(t *tls.Config) *tls.Config {
	t = t.Clone()
	t.DynamicRecordSizingDisabled = true // small records cost the wire its speed
	t.MinVersion = max(t.MinVersion, tls.VersionTLS13)
	if t.ClientCAs != nil && t.ClientAuth == tls.NoClientCert {
		t.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return t
}
