package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/comm/mpinet"
	"github.com/gradlab/gradlab/internal/f32"
)

// rankOptions are what a process of ours is told first, on a line of its
// standard input.
type rankOptions struct {
	Rank        int           `json:"rank"`
	World       int           `json:"world"`
	Observer    bool          `json:"observer"` // rank World exists, beside rank 0: for training steps
	Threads     int           `json:"threads"`
	Coordinator string        `json:"coordinator"` // empty: this process is it
	Token       string        `json:"token"`
	Links       grpcnet.Links `json:"links"`
	Topology    string        `json:"topology"`
	Certificate *certificate  `json:"certificate,omitempty"` // with LinksTLS
}

// processes are the ranks of each process.
func (o *rankOptions) processes() (ranks [][]int) {
	for r := range o.World {
		ranks = append(ranks, []int{r})
	}
	if o.Observer {
		ranks[0] = append(ranks[0], o.World)
	}
	return ranks
}

// RunMPIRank is RunRank in a process that mpirun has started: what it is to do comes
// through a pipe in a folder, called by its rank.
func RunMPIRank(ctx context.Context, pipes string, out io.Writer) error {
	w, err := mpinet.Start()
	if err != nil {
		return err
	}
	in, err := os.Open(filepath.Join(pipes, strconv.Itoa(w.Rank)))
	if err != nil {
		return err
	}
	defer in.Close()
	return RunRank(ctx, in, out)
}

// RunRank is the main function of a process that Wire has started: it reads from
// in what it is to do and answers on out.
func RunRank(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no options on standard input")
	}
	var o rankOptions
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return err
	}
	defer useThreads(o.Threads)()
	topology, err := collective.Topologies.Parse(o.Topology)
	if err != nil {
		return err
	}
	cfg := grpcnet.Config{
		Ranks: []int{o.Rank}, World: o.World, Coordinator: o.Coordinator, Token: o.Token, Links: o.Links,
		Lease: time.Minute, // measured beside others that may keep us from the cores
	}
	var secure *tls.Config
	if o.Certificate != nil {
		if secure, err = o.Certificate.config(); err != nil {
			return err
		}
		cfg.Links, cfg.TLS = grpcnet.LinksTCP, secure
	}
	if o.Observer {
		if cfg.World++; o.Rank == 0 {
			cfg.Ranks = append(cfg.Ranks, o.World)
		}
	}
	enc := json.NewEncoder(out)
	say := func(what any) error {
		if o.Rank != 0 {
			return nil
		}
		return enc.Encode(what)
	}
	var net comm.Net
	if o.Links == LinksMPI {
		if net, err = mpinet.New(mpinet.Config{Ranks: o.processes()}); err != nil {
			return err
		}
	} else {
		n, err := grpcnet.New(cfg)
		if err != nil {
			return err
		}
		defer n.Close()
		if err := say(map[string]string{"address": n.Addr()}); err != nil {
			return err
		}
		net = n
	}
	r := &rank{topology: topology, tls: secure, group: collective.Group{Me: o.Rank}, observers: make(chan comm.Program)}
	for i := range o.World {
		r.group.Ranks = append(r.group.Ranks, i)
	}
	programs := []comm.Program{func(ctx context.Context, h comm.Host) error {
		defer close(r.observers)
		if err := say(struct{}{}); err != nil {
			return err
		}
		for r.h = h; lines.Scan(); {
			answer, err := r.obey(ctx, lines.Text())
			var refused *refusal
			switch {
			case errors.As(err, &refused): // by all ranks alike
				err = say(map[string]string{"error": err.Error()})
			case err == nil:
				err = say(answer)
			}
			if err != nil {
				return err
			}
		}
		return lines.Err()
	}}
	if len(cfg.Ranks) > 1 {
		programs = append(programs, r.observe)
	}
	return net.Run(ctx, programs)
}

// rank obeys commands.
type rank struct {
	h         comm.Host
	group     collective.Group
	topology  collective.Topology
	tls       *tls.Config // nil: plain text
	sums      []float32
	step      uint64
	observers chan comm.Program // what the observer's rank does next
}

// took is the answer to a command: the seconds of all its iterations, and what
// the sender allocated.
type took struct {
	Seconds float64 `json:"seconds"`
	Allocs  float64 `json:"allocs,omitempty"` // a message
}

// refusal says that a command cannot be obeyed, which ends nothing.
type refusal struct{ error }

func (r *rank) obey(ctx context.Context, line string) (took, error) {
	words := strings.Fields(line)
	if len(words) != 3 {
		return took{}, fmt.Errorf("command %q", line)
	}
	what, of := words[0], words[1]
	iters, err := strconv.Atoi(words[2])
	if err != nil {
		return took{}, fmt.Errorf("command %q: %w", line, err)
	}
	if what == "step" {
		return r.train(ctx, of, iters)
	}
	bytes, err := strconv.Atoi(of)
	if err != nil {
		return took{}, fmt.Errorf("command %q: %w", line, err)
	}
	switch what {
	case "allreduce":
		return r.allReduce(ctx, bytes, iters)
	case "stream":
		return r.stream(ctx, bytes, iters)
	case "roundtrip":
		return r.roundTrip(ctx, bytes, iters)
	case "tcpstream":
		return r.tcp(ctx, func(c *rawTCP) (took, error) { return c.stream(bytes, iters) })
	case "tcproundtrip":
		return r.tcp(ctx, func(c *rawTCP) (took, error) { return c.roundTrip(bytes, iters) })
	}
	return took{}, fmt.Errorf("command %q", line)
}

// plain sends float32 as its bytes.
type plain struct{}

func (plain) Width() int                       { return 4 }
func (plain) Fold() comm.Fold                  { return comm.SumFloat32 }
func (plain) Bytes(x []float32) ([]byte, bool) { return f32.Bytes(x) }
func (plain) Put(dst []byte, x []float32)      { f32.AppendBytes(dst[:0], x) }
func (plain) Add(x []float32, src []byte)      { f32.AddBytes(x, 1, src) }
func (plain) Set(x []float32, src []byte)      { f32.FromBytes(x, src) }

// allReduce checks one sum and times iters more.
func (r *rank) allReduce(ctx context.Context, bytes, iters int) (t took, err error) {
	n := bytes / 4
	if cap(r.sums) < n {
		r.sums = make([]float32, n)
	}
	x := r.sums[:n]
	for i := range x {
		x[i] = float32((r.group.Me + 1) * (i%13 + 1))
	}
	once := func() error {
		r.step++
		_, err := collective.AllReduce(ctx, r.h, r.group, r.topology, comm.Header{Tag: 1, Step: r.step}, x, plain{})
		return err
	}
	if err := once(); err != nil {
		return t, err
	}
	size := len(r.group.Ranks)
	for i, v := range x {
		if want := float32(size * (size + 1) / 2 * (i%13 + 1)); v != want {
			return t, fmt.Errorf("wrong sums: %v at %d, want %v", v, i, want)
		}
	}
	f32.Fill(x, 0)
	if err := r.barrier(ctx); err != nil {
		return t, err
	}
	return timed(iters, once)
}

// barrier waits until all ranks are there.
func (r *rank) barrier(ctx context.Context) error {
	r.step++
	_, err := collective.AllReduce(ctx, r.h, r.group, collective.Doubling{}, comm.Header{Tag: 1, Step: r.step}, make([]float32, 1), plain{})
	return err
}

// timed is how long iters of once take.
func timed(iters int, once func() error) (took, error) {
	begin := time.Now()
	for range iters {
		if err := once(); err != nil {
			return took{}, err
		}
	}
	return took{Seconds: time.Since(begin).Seconds()}, nil
}

// hole takes bodies and forgets them.
type hole struct{}

func (hole) Begin(*comm.Header, int) error { return nil }
func (hole) Take([]byte)                   {}

// stream sends iters bodies from rank 1, which has dialled, to rank 0, and an
// answer when the last one is there. The sender's allocations are counted.
func (r *rank) stream(ctx context.Context, bytes, iters int) (t took, err error) {
	const data, done = 2, 3
	s := comm.Streaming(r.h)
	if err := r.barrier(ctx); err != nil {
		return t, err
	}
	if r.group.Me == 1 {
		buf := comm.NewBuffer(bytes)
		defer buf.Release()
		before := mallocs()
		for range iters {
			if err := r.h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: data}, buf.Retain())); err != nil {
				return t, err
			}
		}
		f, err := r.h.Recv(ctx, 0, done)
		f.Release()
		if err != nil {
			return t, err
		}
		allocs := float64(mallocs()-before) / float64(iters)
		return t, r.h.Send(ctx, 0, comm.NewFrame(comm.Header{Tag: done, Value: allocs}, nil))
	}
	var posts [8]comm.Receipt
	begin := time.Now()
	for i := range iters + len(posts) { // so many are awaited while others come in
		p := &posts[i%len(posts)]
		if i >= len(posts) {
			if _, err := s.Await(ctx, p); err != nil {
				return t, err
			}
		}
		if i < iters {
			s.Post(p, 1, data, hole{})
		}
	}
	t.Seconds = time.Since(begin).Seconds()
	if err := r.h.Send(ctx, 1, comm.NewFrame(comm.Header{Tag: done}, nil)); err != nil {
		return t, err
	}
	f, err := r.h.Recv(ctx, 1, done)
	t.Allocs = f.Header.Value
	f.Release()
	return t, err
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// roundTrip sends a body to the other rank and back.
func (r *rank) roundTrip(ctx context.Context, bytes, iters int) (t took, err error) {
	const tag = 4
	if err := r.barrier(ctx); err != nil {
		return t, err
	}
	other := 1 - r.group.Me
	return timed(iters, func() error {
		f := comm.NewFrame(comm.Header{Tag: tag}, comm.NewBuffer(bytes))
		if r.group.Me == 0 {
			if err := r.h.Send(ctx, other, f); err != nil {
				return err
			}
			back, err := r.h.Recv(ctx, other, tag)
			back.Release()
			return err
		}
		f.Release()
		got, err := r.h.Recv(ctx, other, tag)
		if err != nil {
			return err
		}
		return r.h.Send(ctx, other, got)
	})
}

// tcp runs do over a bare TCP connection between both ranks, under TLS where ours is: the
// yardstick.
func (r *rank) tcp(ctx context.Context, do func(*rawTCP) (took, error)) (t took, err error) {
	const tag = 5
	c := &rawTCP{sender: r.group.Me == 1}
	if r.group.Me == 0 {
		l, err := listenTCP(ctx)
		if err != nil {
			return t, err
		}
		defer l.Close()
		buf := comm.NewBuffer(0)
		buf.B = append(buf.B, l.Addr().String()...)
		if err := r.h.Send(ctx, 1, comm.NewFrame(comm.Header{Tag: tag}, buf)); err != nil {
			return t, err
		}
		if c.Conn, err = l.Accept(); err != nil {
			return t, err
		}
	} else {
		f, err := r.h.Recv(ctx, 0, tag)
		if err != nil {
			return t, err
		}
		c.Conn, err = dialTCP(ctx, string(f.Body))
		f.Release()
		if err != nil {
			return t, err
		}
	}
	if r.tls != nil {
		if c.Conn, err = secured(ctx, c.Conn, r.tls, c.sender); err != nil {
			return t, err
		}
	}
	defer c.Close()
	return do(c)
}
