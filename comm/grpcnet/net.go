package grpcnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gradlab/gradlab/comm"
)

// Net is this process's part of a run.
type Net struct {
	cfg  Config
	lis  net.Listener
	addr string
	used atomic.Bool

	carried comm.Carried // set by Run
}

var _ comm.Net = (*Net)(nil)

var errEnded = errors.New("the net has ended")

// New checks the configuration and listens, so that the address can be given to
// other processes before Run waits for them. A process whose address follows from
// the coordinator's listens when it has reached that one.
func New(cfg Config) (*Net, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	n := &Net{cfg: cfg}
	if cfg.Listen == "" {
		return n, nil
	}
	l, err := cfg.bind(cfg.Listen)
	if err != nil {
		return nil, err
	}
	n.lis, n.addr = l, cfg.advertised(l.Addr().String())
	return n, nil
}

// Addr is where other processes reach this one; for the coordinator, what they
// need as Config.Coordinator. It is empty where it follows from the coordinator's.
func (n *Net) Addr() string { return n.addr }

// Close gives up the address of a net that is not run. Run closes it by itself.
func (n *Net) Close() error {
	n.used.Store(true)
	if n.lis == nil {
		return nil
	}
	return n.lis.Close()
}

// run is the state of one Run.
type run struct {
	cfg    *Config
	addr   string
	lis    *listener          // nil: this process does not listen yet
	listen func(net.Listener) // begins to serve on it
	wire   *comm.Traffic
	hosts  map[int]*host
	meet   *rendezvous // of the coordinator
	late   bool        // it came while the run went on
	start  time.Duration

	ctx    context.Context
	cancel context.CancelCauseFunc
	first  comm.FirstError
	tasks  sync.WaitGroup

	begun  chan struct{} // closed when programs run
	ready  chan struct{} // closed when the fields below are set
	self   int
	lead   int // the coordinator's line in the table
	table  []process
	owner  []int
	key    []byte
	links  []atomic.Pointer[link]
	linked []chan struct{}

	sleeping  atomic.Int32 // waits that are asleep
	strangers strangers
	parked    *parked
	sums      sums
	lives     lives
	gone      []atomic.Pointer[goneRank]
	lastGone  atomic.Pointer[comm.PeerError]
	again     atomic.Pointer[comm.AgainError] // all meet again
	fenceOne  sync.Once
	leaving   atomic.Bool
	awakeAt   atomic.Int64 // when the watcher last looked, 0 without one
}

// Run implements comm.Net for the ranks of this process: programs[i] runs as
// Config.Ranks[i]. It waits for all other processes first. A Net runs once.
func (n *Net) Run(ctx context.Context, programs []comm.Program) error {
	if n.used.Swap(true) {
		return errors.New("grpcnet: a Net runs once")
	}
	if n.lis != nil {
		defer n.lis.Close()
	}
	if len(programs) != len(n.cfg.Ranks) {
		return fmt.Errorf("grpcnet: %d programs for %d ranks", len(programs), len(n.cfg.Ranks))
	}
	r := &run{cfg: &n.cfg, addr: n.addr, hosts: map[int]*host{}, begun: make(chan struct{}), ready: make(chan struct{}), gone: make([]atomic.Pointer[goneRank], n.cfg.World)}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	for _, rank := range n.cfg.Ranks {
		r.hosts[rank] = newHost(r, rank)
	}
	r.wire = r.hosts[n.cfg.Ranks[0]].Traffic()
	if n.cfg.Coordinator == "" {
		r.meet = newRendezvous(&n.cfg, n.addr)
	}
	r.parked = &parked{most: 2 * farPipes * n.cfg.World, wait: n.cfg.ConnectTimeout + n.cfg.Lease, by: map[string]*aside{}}
	defer r.parked.end()
	server := grpc.NewServer(n.cfg.serverOptions(r.turnedAway, r.parked)...)
	server.RegisterService(&service, r)
	r.listen = func(l net.Listener) {
		r.lis = newListener(l, r.wire, maxPending+(1+farPipes)*n.cfg.World)
		r.tasks.Go(func() { _ = server.Serve(r.lis) })
	}
	if n.lis != nil {
		r.listen(n.lis)
	}

	err := r.begin()
	if err == nil {
		r.play(programs)
		err = r.first.Err()
	} else {
		r.abandon(err)
		stopSoon(server, n.cfg.ConnectTimeout)
	}
	for _, h := range r.hosts {
		h.Box.Close(errEnded)
	}
	server.Stop()
	r.tasks.Wait()
	n.carried = r.all()
	return r.ending(err)
}

// Carried is what the links of all processes carried, once Run has returned at
// the coordinator; elsewhere it is what this process knows. A process that died
// has told nobody: of it counts what the living got from it.
func (n *Net) Carried() comm.Carried { return n.carried }

// turnedAway tells of a caller that the guard did not let pass.
func (r *run) turnedAway(who net.Addr, err error) {
	n, tell := r.strangers.says()
	if !tell {
		return
	}
	why := err.Error()
	if v := (*tls.CertificateVerificationError)(nil); errors.As(err, &v) && r.cfg.TLS == nil {
		why = errProof.Error()
	}
	r.cfg.Logf("grpcnet: refused a connection from %v: %s (%d so far)", who, why, n)
	if r.meet != nil {
		r.meet.remember(who, why)
	}
}

// begin waits for the others and links with them.
func (r *run) begin() error {
	var j joinReply
	var err error
	if r.meet != nil {
		j, err = r.meet.wait(r.ctx)
	} else {
		j, err = r.join(r.ctx)
	}
	if err != nil {
		return err
	}
	if err := r.adopt(j); err != nil {
		return err
	}
	if err := r.meetable(); err != nil {
		return err
	}
	if j.Late {
		r.late, r.start = true, monotonic()-j.Elapsed
		return r.connectLate(r.ctx, j)
	}
	return r.connect(r.ctx)
}

// play runs the programs to their end and takes leave of the other processes.
func (r *run) play(programs []comm.Program) {
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	r.awakeAt.Store(int64(monotonic())) // who is stopped before the watcher has begun knows it too
	watcher.Go(func() { r.watch(stop) })
	if !r.late {
		r.start = monotonic()
	}
	close(r.begun)
	for i, rank := range r.cfg.Ranks {
		r.hosts[rank].Go("main", programs[i])
	}
	var wg sync.WaitGroup
	for _, h := range r.hosts {
		wg.Go(func() {
			err := h.Wait()
			r.first.Add(err)
			r.farewell(h, err)
		})
	}
	wg.Wait()
	r.leave()
	close(stop)
	watcher.Wait()
}

// stopSoon lets answers that are under way reach the other side, for as long as one may take.
func stopSoon(s *grpc.Server, wait time.Duration) {
	done := make(chan struct{})
	go func() { s.GracefulStop(); close(done) }()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		s.Stop()
		<-done
	}
}
