package ask

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
)

// TopologyQuestion asks what a topology does with a vector.
type TopologyQuestion struct {
	Topology collective.Topology
	Ranks    int
	Bytes    int              // of the vector, 4 an element
	On       *config.Resolved // whose network.* keys count
	Adding   float64          // bytes a second of a sum; 0: adding costs nothing
	Rank     int              // whose plan is told
	Prove    bool             // however long it takes
}

// TopologyReport is the answer.
type TopologyReport struct {
	Topology string           `json:"topology"`
	Ranks    int              `json:"ranks"`
	Bytes    int              `json:"bytes"`
	Node     int              `json:"ranks_a_node"`
	Links    collective.Links `json:"links"` // seconds, and seconds a byte
	Rank     int              `json:"rank"`
	Chunks   int              `json:"chunks"`
	Moves    []TopologyMove   `json:"moves"` // of that rank
	Proof    string           `json:"proof"` // what was proved, or why nothing was
	Costs    []TopologyCost   `json:"costs"` // of every topology, the fastest first: on the virtual cluster if all were tried
	LeftOut  []LeftOut        `json:"left_out,omitempty"`
	Against  []Crossover      `json:"against"`
	Curves   []TopologyCurve  `json:"curves"`
}

// TopologyMove is a step of one rank; To or From is −1 where there is none.
type TopologyMove struct {
	To   int    `json:"to"`
	Send [2]int `json:"send"` // chunks [0], [1]
	From int    `json:"from"`
	Recv [2]int `json:"recv"`
	Add  bool   `json:"add"`
}

// TopologyCost is the price of one topology, and the time that it takes on the
// virtual cluster: pieces overlap there and ranks of a host share its NIC.
type TopologyCost struct {
	Topology string           `json:"topology"`
	Price    collective.Price `json:"price"`
	Virtual  float64          `json:"virtual_seconds,omitempty"` // 0: too many frames to try
}

// LeftOut is a topology that was not priced.
type LeftOut struct {
	Topology string `json:"topology"`
	Why      string `json:"why"`
}

// Crossover says where two topologies change places.
type Crossover struct {
	Other    string    `json:"other"`
	Faster   bool      `json:"faster"` // the one asked for is, for the smallest vectors
	At       []float64 `json:"at"`     // bytes at which that changes, again and again
	Least    float64   `json:"least"`  // bytes between which it was looked for
	Greatest float64   `json:"greatest"`
}

// TopologyCurve is time over length.
type TopologyCurve struct {
	Topology string    `json:"topology"`
	Bytes    []float64 `json:"bytes"`
	Seconds  []float64 `json:"seconds"`
}

const (
	mostProved  = 1 << 20 // moves that are proved without being asked to
	mostTried   = 1 << 18 // frames that are sent on the virtual cluster
	mostPriced  = 1 << 22 // moves that are priced
	mostCut     = 1 << 26 // chunks of all ranks that are
	mostAsked   = 1 << 16 // ranks, as many as key workers may have
	leastVector = 64.0
	mostVector  = 1 << 30
)

// AnswerTopology plans, proves and prices.
func AnswerTopology(ctx context.Context, q TopologyQuestion) (*TopologyReport, error) {
	switch {
	case q.Ranks < 1 || q.Ranks > mostAsked:
		return nil, &config.Error{Err: fmt.Errorf("%d ranks: want 1 … %d", q.Ranks, mostAsked)}
	case q.Bytes < 0:
		return nil, &config.Error{Err: fmt.Errorf("%d bytes: want at least 0", q.Bytes)}
	case q.Rank < 0 || q.Rank >= q.Ranks:
		return nil, &config.Error{Err: fmt.Errorf("rank %d: want one of 0 … %d", q.Rank, q.Ranks-1)}
	}
	at := collective.At{Rank: q.Rank, Size: q.Ranks, Bytes: q.Bytes / 4 * 4, Node: q.On.Config().NetworkPerHost}
	r := &TopologyReport{
		Topology: collective.Topologies.Spec(q.Topology), Ranks: q.Ranks, Bytes: at.Bytes, Node: at.Node, Rank: q.Rank,
		Links: q.On.Hockney(q.Adding),
	}
	plan := q.Topology.Plan(at)
	r.Chunks = plan.Chunks
	for _, m := range plan.Moves {
		r.Moves = append(r.Moves, TopologyMove{m.To, [2]int{m.Send.Lo, m.Send.Hi}, m.From, [2]int{m.Recv.Lo, m.Recv.Hi}, m.Add})
	}
	// What is followed of each chunk of each rank is a set of ranks.
	if n, sets := len(plan.Moves)*q.Ranks, plan.Chunks*q.Ranks*((q.Ranks+63)/64); (n > mostProved || sets > mostCut) && !q.Prove {
		r.Proof = fmt.Sprintf("not tried, for about %d moves and %d chunks of %d ranks; --prove does", n, plan.Chunks, q.Ranks)
	} else if err := collective.Verify(q.Topology, at); err != nil {
		return nil, err
	} else {
		r.Proof = "ends without a deadlock, leaves no frame unread, and every rank holds each contribution exactly once"
	}
	topologies := map[string]collective.Topology{r.Topology: q.Topology}
	for _, name := range collective.Topologies.Names() {
		if t, _ := collective.Topologies.Proto(name); name != "auto" {
			topologies[collective.Topologies.Spec(t)] = t
		}
	}
	for spec, t := range topologies {
		if why := unpriced(t.Plan(at), at.Size); why != "" {
			r.LeftOut = append(r.LeftOut, LeftOut{spec, why})
			continue
		}
		cost, err := r.cost(ctx, t, at, q.On.Config())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", spec, err)
		}
		curve, err := r.curve(ctx, t, at)
		if err != nil {
			return nil, err
		}
		r.Costs, r.Curves = append(r.Costs, cost), append(r.Curves, curve)
	}
	sort.Slice(r.LeftOut, func(i, j int) bool { return r.LeftOut[i].Topology < r.LeftOut[j].Topology })
	tried := !slices.ContainsFunc(r.Costs, func(c TopologyCost) bool { return c.Virtual == 0 })
	slices.SortFunc(r.Costs, func(a, b TopologyCost) int {
		by := cmp.Compare(a.Price.Seconds, b.Price.Seconds)
		if tried {
			by = cmp.Or(cmp.Compare(a.Virtual, b.Virtual), by)
		}
		return cmp.Or(by, cmp.Compare(a.Topology, b.Topology))
	})
	sort.Slice(r.Curves, func(i, j int) bool { return r.Curves[i].Topology < r.Curves[j].Topology })
	r.cross()
	return r, nil
}

// unpriced says why a plan is too long to be priced; nothing if it is not.
func unpriced(p collective.Plan, size int) string {
	switch moves, chunks := len(p.Moves)*size, p.Chunks*size; {
	case moves > mostPriced:
		return fmt.Sprintf("its plan has about %d moves; at most %d are priced", moves, mostPriced)
	case chunks > mostCut:
		return fmt.Sprintf("its plan cuts %d chunks at each of %d ranks; at most %d are priced in all", p.Chunks, size, mostCut)
	}
	return ""
}

// cost prices a topology and tries it out.
func (r *TopologyReport) cost(ctx context.Context, t collective.Topology, at collective.At, c config.Config) (TopologyCost, error) {
	if err := ctx.Err(); err != nil {
		return TopologyCost{}, err
	}
	cost := TopologyCost{Topology: collective.Topologies.Spec(t), Price: collective.Cost(t, at, 4, r.Links)}
	if cost.Price.Messages*at.Size > mostTried || at.Bytes/pieces*at.Size > mostTried {
		return cost, nil
	}
	c.Workers = at.Size
	of, err := c.Resolve()
	if err != nil {
		return cost, err
	}
	net, err := of.VirtualNet(0, 0)
	if err != nil {
		return cost, err
	}
	g := collective.Group{Ranks: make([]int, at.Size), Node: at.Node}
	ps := make([]comm.Program, at.Size)
	for i := range ps {
		g.Ranks[i] = i
		ps[i] = func(ctx context.Context, h comm.Host) error {
			g := g
			g.Me = h.Rank()
			_, err := collective.Rehearse(ctx, h, g, t, comm.Header{}, at.Bytes/4, 4)
			return err
		}
	}
	if err := net.Run(ctx, ps); err != nil {
		return cost, err
	}
	cost.Virtual = net.Now().Seconds()
	return cost, nil
}

const pieces = 256 << 10 // bytes a frame carries at most

// curve prices a topology for vectors of all lengths.
func (r *TopologyReport) curve(ctx context.Context, t collective.Topology, at collective.At) (TopologyCurve, error) {
	c := TopologyCurve{Topology: collective.Topologies.Spec(t)}
	step := 2.0
	if at.Size > 64 { // time of thousands of moves hardly bends between
		step = 4
	}
	for bytes := leastVector; bytes <= mostVector; bytes *= step {
		at.Bytes = int(bytes)
		if err := ctx.Err(); err != nil {
			return c, err
		}
		if p := t.Plan(at); len(p.Moves)*at.Size > mostPriced/32 || p.Chunks*at.Size > mostCut/8 {
			break
		}
		c.Bytes = append(c.Bytes, bytes)
		c.Seconds = append(c.Seconds, collective.Cost(t, at, 4, r.Links).Seconds)
	}
	return c, nil
}

// cross finds where the curves of the topology asked for and of the others cross.
func (r *TopologyReport) cross() {
	i := slices.IndexFunc(r.Curves, func(c TopologyCurve) bool { return c.Topology == r.Topology })
	if i < 0 {
		return
	}
	own := r.Curves[i]
	for j, other := range r.Curves {
		n := min(len(own.Bytes), len(other.Bytes))
		if j == i || n == 0 {
			continue
		}
		c := Crossover{Other: other.Topology, Least: own.Bytes[0], Greatest: own.Bytes[n-1]}
		// ahead is by how much ours is faster, in powers of e.
		ahead := func(k int) float64 { return math.Log(other.Seconds[k] / own.Seconds[k]) }
		c.Faster = ahead(0) > 0
		faster := c.Faster
		for k := 1; k < n; k++ {
			if now := ahead(k) > 0; now != faster {
				faster = now
				part := ahead(k-1) / (ahead(k-1) - ahead(k))
				c.At = append(c.At, own.Bytes[k-1]*math.Pow(own.Bytes[k]/own.Bytes[k-1], part))
			}
		}
		r.Against = append(r.Against, c)
	}
}

// word says a crossover in a few words.
func (c Crossover) word() string {
	faster := c.Faster
	state := func() string {
		if faster {
			return "faster"
		}
		return "no faster"
	}
	s := state()
	for _, at := range c.At {
		faster = !faster
		s += fmt.Sprintf(" up to %s, then %s", progress.Bytes(uint64(at)), state())
	}
	if len(c.At) == 0 {
		s += " at any length"
	}
	return s
}

// Write prints the report for people, with at most most moves of the plan.
func (r *TopologyReport) Write(w io.Writer, style string, most int) error {
	fmt.Fprintf(w, "%s: %d ranks, %d a node, a vector of %s in %d chunk(s)\n", r.Topology, r.Ranks, max(1, r.Node), progress.Bytes(uint64(r.Bytes)), r.Chunks)
	fmt.Fprintf(w, "\nplan of rank %d: %d move(s)\n", r.Rank, len(r.Moves))
	for i, m := range r.Moves {
		if i == most {
			fmt.Fprintf(w, "  … %d more\n", len(r.Moves)-i)
			break
		}
		fmt.Fprintf(w, "  %3d  %s\n", i+1, m.word())
	}
	fmt.Fprintf(w, "\nproof: %s\n", r.Proof)
	fmt.Fprintf(w, "\ncost, at %s a frame and %s a byte between nodes, %s a byte within, %s a byte added",
		short(r.Links.Alpha), short(r.Links.Beta), short(r.Links.InsideBeta), short(r.Links.Gamma))
	if r.Links.Extra > 0 {
		fmt.Fprintf(w, ", %s a message of up to %s", short(r.Links.Extra*r.Links.Beta), progress.Bytes(pieces))
	}
	if r.Links.Uplink > r.Links.Beta {
		fmt.Fprintf(w, ", %s a byte out of a rack", short(r.Links.Uplink))
	}
	fmt.Fprintln(w, ":")
	var rows [][]string
	for _, c := range r.Costs {
		name, virtual := c.Topology, "–"
		if name == r.Topology {
			name = "→ " + name
		}
		if c.Virtual > 0 {
			virtual = short(c.Virtual)
		}
		rows = append(rows, []string{name, fmt.Sprint(c.Price.Steps), fmt.Sprint(c.Price.Messages), progress.Bytes(uint64(c.Price.Sent)),
			progress.Bytes(uint64(c.Price.Outside)), short(c.Price.Seconds), virtual})
	}
	t := figure.Table{Header: []string{"topology", "steps", "frames", "sent by a rank", "out of a node", "time", "virtual cluster"}, Rows: rows, Right: []bool{false, true, true, true, true, true, true}}
	if err := t.Write(w, style, 0); err != nil {
		return err
	}
	for i, l := range r.LeftOut {
		if i == 0 {
			fmt.Fprintln(w, "left out:")
		}
		fmt.Fprintf(w, "  %-14s %s\n", l.Topology, l.Why)
	}
	if len(r.Against) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s against the others, %s to %s:\n", r.Topology, progress.Bytes(uint64(r.Against[0].Least)), progress.Bytes(uint64(r.Against[0].Greatest)))
	for _, c := range r.Against {
		fmt.Fprintf(w, "  %-14s %s\n", c.Other, c.word())
	}
	return nil
}

func (m TopologyMove) word() string {
	part := func(p [2]int) string {
		if p[1]-p[0] == 1 {
			return fmt.Sprintf("chunk %d", p[0])
		}
		return fmt.Sprintf("chunks %d…%d", p[0], p[1]-1)
	}
	s := ""
	if m.To >= 0 {
		s = fmt.Sprintf("%s to %d", part(m.Send), m.To)
	}
	if m.From >= 0 {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("%s from %d", part(m.Recv), m.From)
		if m.Add {
			s += ", added"
		}
	}
	return s
}

// Figure draws time over length, a curve a topology.
func (r *TopologyReport) Figure() figure.Figure {
	f := figure.Figure{
		Title: fmt.Sprintf("all-reduce over %d ranks", r.Ranks),
		X:     figure.Axis{Label: "vector", Log: true, Unit: figure.Bytes}, Y: figure.Axis{Label: "time", Log: true, Unit: figure.Seconds},
	}
	for _, c := range r.Curves {
		f.Series = append(f.Series, figure.Series{Name: c.Topology, X: c.Bytes, Y: c.Seconds})
	}
	return f
}

// short writes seconds in the unit that suits them.
func short(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < 1e-6:
		return fmt.Sprintf("%.3g ns", 1e9*s)
	case s < 1e-3:
		return fmt.Sprintf("%.4g µs", 1e6*s)
	case s < 1:
		return fmt.Sprintf("%.4g ms", 1e3*s)
	}
	return fmt.Sprintf("%.4g s", s)
}
