package advise

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// pricer prices steps on one cluster.
type pricer struct {
	q       *Question
	job     *train.Job
	prices  *config.CodecPrices
	pass    pass
	forward float64   // seconds of a forward pass, the slowest worker's
	share   []float64 // of each span in it
	alpha   float64   // seconds between nodes
	beta    float64   // seconds a byte at a NIC
	stream  float64   // seconds a byte of one stream between nodes
	extra   float64   // bytes a frame counts for between nodes, beside its own
	around  frame     // of payloads that are gathered
	links   collective.Links
	memo    map[memoKey]collective.Price
	frames  float64 // that all workers sent in the steps that were priced
	blocks  map[string][]block
}

// frame is what a message between nodes costs.
type frame struct{ stream, extra float64 }

type memoKey struct {
	topology string
	width    int
	bytes    int
}

// block is what a codec makes of one span.
type block struct {
	elements int
	payload  int // bytes
	sum      bool
	rounds   int
	width    int     // bytes of an element that is summed
	encode   float64 // seconds
	decode   float64 // of all that is decoded
}

func newPricer(q *Question) (*pricer, error) {
	c := q.Base
	c.Codec, c.Mode, c.Policy = "raw", "gather", "bsp" // anything that can be built
	of, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	j, err := of.Build(q.Places, nil)
	if err != nil {
		return nil, err
	}
	prices, err := of.CodecPrices(q.Places)
	if err != nil {
		return nil, err
	}
	p := &pricer{q: q, job: j, prices: prices, memo: map[memoKey]collective.Price{}, blocks: map[string][]block{}}
	gathers := of.Hockney(0)
	p.around = frame{max(gathers.Beta, gathers.Stream), gathers.Extra}
	c.Mode = "server" // whose streams no software of collectives limits
	if of, err = c.Resolve(); err != nil {
		return nil, err
	}
	served := of.Hockney(0)
	p.alpha, p.beta, p.stream, p.extra = served.Alpha, served.Beta, max(served.Beta, served.Stream), served.Extra
	c.Mode = "reduce"
	if of, err = c.Resolve(); err != nil {
		return nil, err
	}
	p.links = of.Hockney(0)
	flops := 0.0
	for _, f := range j.Model.SpanFLOPs() {
		flops += f
	}
	for _, f := range j.Model.SpanFLOPs() {
		p.share = append(p.share, f/flops)
	}
	p.pass = passes(j)
	p.forward = p.pass.slowest()
	return p, nil
}

// of says what a codec makes of every span.
func (p *pricer) of(codec string) ([]block, error) {
	if b, ok := p.blocks[codec]; ok {
		return b, nil
	}
	f, err := compress.Parse(codec)
	if err != nil {
		return nil, err
	}
	var out []block
	for _, s := range p.job.Model.Layout().Spans {
		blk := compress.Block{Name: s.Name, Role: s.Role.String(), Rows: s.Rows, Cols: s.Cols, World: p.job.Workers, Peer: -1, Seed: 1}
		b := block{elements: s.Len(), payload: 4 * s.Len(), sum: true, rounds: 1, width: 4}
		if !compress.Plain(f) {
			claims, ok := compress.ClaimsOf(f, blk)
			if !ok || !claims.Exact {
				return nil, fmt.Errorf("codec %s: how much it sends depends on the data", codec)
			}
			_, road, err := compress.NewExchange(f, blk)
			if err != nil {
				return nil, err
			}
			b.payload, b.sum = claims.Size, road != compress.RoadGather
			if road == compress.RoadOwn {
				b.payload, b.rounds = claims.Asked, claims.Rounds
			}
			if b.width = b.payload / s.Len(); b.width < 1 || b.width > 4 {
				b.width = 4
			}
			use := timing.Coding{Codec: f, Block: blk, Gathered: road == compress.RoadGather}
			payloads := float64(p.job.Workers)
			if road != compress.RoadGather {
				use.Ranks, payloads = p.job.Workers, 1
			}
			b.encode = p.coding(use, false)
			b.decode = payloads * p.coding(use, true)
		}
		out = append(out, b)
	}
	p.blocks[codec] = out
	return out, nil
}

// allReduce is the time of one sum of bytes over all ranks.
func (p *pricer) allReduce(topology string, bytes, width int) float64 {
	// Costs are straight between powers of four, but for roundings of chunks, and
	// for those of pieces where each costs something: few ranks are quickly asked.
	if p.extra > 0 && p.job.Workers <= 64 {
		one := p.price(topology, bytes, width)
		p.frames += float64(one.Messages * p.job.Workers)
		return one.Seconds
	}
	lo := 256
	for lo*4 <= bytes {
		lo *= 4
	}
	hi := lo * 4
	a, b := p.price(topology, lo, width), p.price(topology, hi, width)
	p.frames += float64(b.Messages * p.job.Workers)
	return a.Seconds + (b.Seconds-a.Seconds)*float64(bytes-lo)/float64(hi-lo)
}

func (p *pricer) price(topology string, bytes, width int) collective.Price {
	k := memoKey{topology, width, bytes}
	if s, ok := p.memo[k]; ok {
		return s
	}
	at := collective.At{Size: p.job.Workers, Bytes: bytes, Node: p.q.Base.NetworkPerHost}
	s := p.q.drawn.frames(topology, at, width).Price(p.links)
	p.memo[k] = s
	return s
}

// plans are the frames of all-reduces that are priced again and again.
type plans struct {
	mu   sync.Mutex
	made map[planKey]func() *collective.Frames
}

type planKey struct {
	topology string
	width    int
	at       collective.At
}

func newPlans() *plans { return &plans{made: map[planKey]func() *collective.Frames{}} }

func (p *plans) frames(topology string, at collective.At, width int) *collective.Frames {
	list := func() *collective.Frames {
		return collective.NewFrames(collective.Topologies.MustParse(topology), at, width)
	}
	if p == nil {
		return list()
	}
	p.mu.Lock()
	k := planKey{topology, width, at}
	once, ok := p.made[k]
	if !ok {
		once = sync.OnceValue(list)
		p.made[k] = once
	}
	p.mu.Unlock()
	return once()
}

// gather is the time in which everybody's payload goes around the ring.
func (p *pricer) gather(bytes int) float64 {
	p.frames += float64(p.job.Workers * (p.job.Workers - 1))
	return float64(p.job.Workers-1) * (p.alpha + (float64(bytes)+p.around.extra)*p.around.stream)
}

// step is the time of a step of a configuration, and the bytes a worker sends in it. Of
// what overlap saves, the part constants.overlap is really saved.
func (p *pricer) step(c config.Config) (seconds, sent float64, err error) {
	seconds, sent, err = p.ideal(c)
	if err != nil || c.Overlap == "none" || c.Constants.Overlap == 1 {
		return seconds, sent, err
	}
	none, _, err := p.ideal(ask.Unoverlapped(c))
	return seconds + (1-c.Constants.Overlap)*max(0, none-seconds), sent, err
}

// ideal is step where overlap saves all that it can.
func (p *pricer) ideal(c config.Config) (seconds, sent float64, err error) {
	blocks, err := p.of(c.Codec)
	if err != nil {
		return 0, 0, err
	}
	if c.Mode == "server" { // at least one frame a tensor, or a server, each way
		p.frames += float64(2 * p.job.Workers * max(c.Servers, len(blocks)))
	}
	if c.Mode == "server" && c.Overlap != "none" {
		return p.streamed(c)
	}
	if c.Mode == "server" {
		return p.server(c)
	}
	seconds, sent = p.reduce(c, blocks)
	return seconds, sent, nil
}

// leg is a bucket of gradient, in seconds.
type leg struct {
	forward  float64 // pass of its layers; the backward pass takes twice that
	encode   float64
	exchange float64 // and decoding
}

// codes is the time in which a worker encodes and decodes in a step where ranks sum
// gradients themselves; 0 elsewhere.
func (p *pricer) codes(c config.Config) (seconds float64) {
	if c.Mode == "reduce" {
		for _, b := range p.blocks[c.Codec] {
			seconds += b.encode + b.decode
		}
	}
	return seconds
}

// legs are the buckets in the order in which the backward pass makes them, and
// the bytes a worker sends for all of them.
func (p *pricer) legs(c config.Config, blocks []block) (legs []leg, sent float64) {
	limit := math.MaxInt
	if p := planOf(c); p.Beside {
		limit = p.Bytes
	}
	hi, bytes := len(blocks), 0
	for i := len(blocks) - 1; i >= 0; i-- {
		if bytes += 4 * blocks[i].elements; bytes < limit && i > 0 {
			continue
		}
		share, encode, decode := 0.0, 0.0, 0.0
		for j := i; j < hi; j++ {
			share, encode, decode = share+p.share[j], encode+blocks[j].encode, decode+blocks[j].decode
		}
		took, out := p.exchange(c.Topology, blocks[i:hi])
		legs = append(legs, leg{share * p.forward, encode, took + decode})
		sent += out
		hi, bytes = i, 0
	}
	return legs, sent
}

// reduce lays buckets of gradient on the timeline of the backward pass: each
// leaves when it is complete and encoded and the one before has arrived.
func (p *pricer) reduce(c config.Config, blocks []block) (seconds, sent float64) {
	legs, sent := p.legs(c, blocks)
	if planOf(c).First {
		return p.first(legs), sent
	}
	compute, wire := p.forward, 0.0
	for _, l := range legs {
		compute += 2*l.forward + l.encode
		wire = max(compute, wire) + l.exchange
	}
	return max(compute, wire), sent
}

// first is reduce where, of the buckets that all ranks have made, the one with the
// earliest layers leaves next, and the next forward pass goes on as sums arrive.
// Until all buckets are made, ranks agree on how many there are before each
// exchange, in as many rounds as collective.Least takes.
func (p *pricer) first(legs []leg) float64 {
	agree := math.Ceil(math.Log2(float64(p.job.Workers))) * p.alpha
	arrived, made := make([]float64, len(legs)), make([]float64, len(legs))
	done := make([]bool, len(legs))
	now, wire, before := 0.0, 0.0, 0.0
	const steps = 4 // the first ones are not like the others
	for range steps {
		before = now
		for k := len(legs) - 1; k >= 0; k-- {
			now = max(now, arrived[k]) + legs[k].forward
		}
		for k, l := range legs {
			now += 2*l.forward + l.encode
			made[k] = now
		}
		clear(done)
		all := 0
		for n := range legs {
			if all < len(legs) {
				if all == n {
					wire = max(wire, made[n])
				}
				for all < len(legs) && made[all] <= wire {
					all++
				}
				wire += agree
			}
			k := all - 1
			for done[k] {
				k--
			}
			wire += legs[k].exchange
			done[k], arrived[k] = true, wire
		}
	}
	return now - before
}

// coding is what a use of a codec takes, as the virtual clock bills it.
func (p *pricer) coding(use timing.Coding, decode bool) float64 {
	use.Decode = decode
	return p.prices.Price(use).Seconds()
}

// exchange is the time in which a bucket's blocks are combined, round by round,
// and the bytes a worker sends for it.
func (p *pricer) exchange(topology string, blocks []block) (seconds, sent float64) {
	w := float64(p.job.Workers)
	for round, busy := 0, true; busy; round++ {
		sum, payload, calls := [5]int{}, 0, 0
		busy = false
		for _, b := range blocks {
			switch {
			case round >= b.rounds:
			case b.sum:
				sum[b.width] += b.payload / b.rounds
				busy = true
			default:
				payload += b.payload
				calls++
				busy = true
			}
		}
		for width, n := range sum {
			if n > 0 {
				seconds += p.allReduce(topology, n, width)
				sent += 2 * (w - 1) / w * float64(n)
			}
		}
		if payload > 0 {
			seconds += p.job.Timing.Calls(calls, p.job.Workers).Seconds() + p.gather(payload)
			sent += (w - 1) * float64(payload)
		}
	}
	return seconds, sent
}

// shardPart is a run of pieces of one shard that travels as one frame.
type shardPart struct {
	up, down float64 // bytes
	encode   float64 // seconds, of a worker
	serve    float64 // seconds in which a server takes it up
	elements int
	first    int // the span whose gradient completes it
	spans    []int
}

// shards cuts the tensors as the placement says, and each shard into parts of
// about limit bytes of gradient from its last piece on; the first layers' part
// comes first. Tensors that are shared out are encoded piece by piece.
func (p *pricer) shards(c config.Config, limit int) ([][]shardPart, error) {
	f, err := compress.Parse(c.Codec)
	if err != nil {
		return nil, err
	}
	down, err := compress.Parse(c.DownCodec)
	if err != nil {
		return nil, err
	}
	var out [][]shardPart
	layout := p.job.Model.Layout()
	placement, err := ps.Placements.Parse(c.Placement)
	if err != nil {
		return nil, err
	}
	for _, cuts := range wire.Cuts(layout, placement, c.Servers, f, down) {
		var parts []shardPart
		var now shardPart
		from := -1 // where the piece behind begins, if what is taken together is one stretch of the gradient
		raw := compress.Plain(f)
		for i := len(cuts) - 1; i >= 0; i-- {
			b, span := cuts[i].Block, cuts[i].Span
			b.World, b.Peer, b.Seed = c.Workers, -1, 1
			size := 4 * b.Len()
			if claims, ok := compress.ClaimsOf(f, b); ok {
				size = claims.Size
			}
			use := timing.Coding{Codec: f, Block: b}
			now.encode += p.coding(use, false)
			use.Server = true
			if apply := float64(c.Constants.Apply); apply > 0 {
				now.serve += float64(size) / apply
			} else {
				now.serve += p.coding(use, true)
			}
			if begins := layout.Spans[span].Off + cuts[i].Off; now.elements == 0 || from == begins+b.Len() {
				from = begins
			} else {
				from = math.MinInt
			}
			now.up += float64(size)
			now.down += 4 * float64(b.Len())
			now.elements += b.Len()
			now.first = span
			now.spans = append(now.spans, span)
			if 4*now.elements >= limit || i == 0 {
				if raw && from >= 0 {
					now.encode = 0 // it leaves as it lies
				}
				parts = append(parts, now)
				now = shardPart{}
			}
		}
		slices.Reverse(parts)
		out = append(out, parts)
	}
	return out, nil
}

// server is a barrier at parameter servers: pushes meet at the servers' NICs, and
// so do the answers, which carry all parameters.
func (p *pricer) server(c config.Config) (seconds, sent float64, err error) {
	shards, err := p.shards(c, math.MaxInt)
	if err != nil {
		return 0, 0, err
	}
	var in, out float64 // bytes of the fullest shard
	var encode, serve float64
	for _, parts := range shards {
		for _, pt := range parts {
			in, out, sent = max(in, pt.up), max(out, pt.down), sent+pt.up
			encode, serve = encode+pt.encode, max(serve, pt.serve)
		}
	}
	in, out = in+p.extra, out+p.extra
	w, host, n := float64(c.Workers), float64(c.NetworkPerHost), p.job.Model.Layout().Size()
	servers := min(host, float64(c.Servers)) // on one host, sharing its NIC
	inward, outward := p.racks(c)
	calls := float64(c.Servers) * p.extra
	push := func(share float64) float64 { // of so many of the workers
		return max(max(share*w*in*servers*inward, max(1, share*host)*(sent+calls)*outward)*p.beta, in*p.stream)
	}
	answer := max(max(w*out*servers*inward, host*(4*float64(n)+calls)*outward)*p.beta, out*p.stream)
	// Whoever is behind finds pushes of others made; those that meet arrive together,
	// and are then taken up one behind the other.
	pushed, applied := 0.0, 0.0
	for i, forward := range p.pass.order {
		left := w - float64(i)
		at := 3*forward + push(left/w)
		pushed = max(pushed, at)
		applied = max(applied, at+left*serve)
	}
	return encode + max(pushed, applied) + answer + 2*p.alpha, sent, nil
}

// racks are the factors by which the links of racks slow the NICs of servers and
// of workers down. Servers stand in racks of their own.
func (p *pricer) racks(c config.Config) (servers, workers float64) {
	rack := float64(c.NetworkRack)
	if rack == 0 {
		return 1, 1
	}
	hosts := math.Ceil(float64(c.Servers) / float64(c.NetworkPerHost))
	return max(1, min(hosts, rack)*c.NetworkOversub/rack), max(1, c.NetworkOversub)
}

// streamed is server where parts of a push leave as the backward pass completes
// them, and the next forward pass goes on as parts of the answers arrive. Streams
// are taken to share the NICs alike all the time.
func (p *pricer) streamed(c config.Config) (seconds, sent float64, err error) {
	shards, err := p.shards(c, planOf(c).Bytes)
	if err != nil {
		return 0, 0, err
	}
	w, host := float64(c.Workers), float64(c.NetworkPerHost)
	servers := min(host, float64(c.Servers))
	inward, outward := p.racks(c)
	beta := max(max(w*servers*inward, host*float64(c.Servers)*outward)*p.beta, p.stream) // of one stream
	type at struct{ shard, part int }
	var order []at // as the backward pass completes them
	for s, parts := range shards {
		for k, pt := range parts {
			order = append(order, at{s, k})
			sent += pt.up
		}
	}
	slices.SortStableFunc(order, func(a, b at) int { return shards[b.shard][b.part].first - shards[a.shard][a.part].first })
	arrived := make([]float64, len(p.share))
	now, before := 0.0, 0.0
	const steps = 4 // the first ones are not like the others
	for range steps {
		before = now
		for span, share := range p.share {
			now = max(now, arrived[span]) + share*p.forward
		}
		free, applied := make([]float64, len(shards)), make([]float64, len(shards))
		span := len(p.share) - 1
		for _, o := range order {
			pt := shards[o.shard][o.part]
			for ; span >= pt.first; span-- {
				now += 2 * p.share[span] * p.forward
			}
			now += pt.encode
			free[o.shard] = max(free[o.shard], now) + (pt.up+p.extra)*beta
			applied[o.shard] = max(applied[o.shard], free[o.shard]) + w*pt.serve
		}
		for ; span >= 0; span-- {
			now += 2 * p.share[span] * p.forward
		}
		clear(arrived)
		for s, parts := range shards {
			out := applied[s] + p.alpha
			for _, pt := range parts {
				out += (pt.down + p.extra) * beta
				for _, sp := range pt.spans {
					arrived[sp] = max(arrived[sp], out+p.alpha)
				}
			}
		}
	}
	return now - before, sent, nil
}
