package coding

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// Default is the table that bills where nothing else is said.
const Default = "xeon-sapphire-rapids"

// Speed says how fast a device encodes and decodes, beside the core of a table. The
// first that is not 0 counts.
type Speed struct {
	Times  float64 // stated: so many times as fast as what a table was measured on
	Memory float64 // bytes a second of the device's memory, over that of the core
	FLOPS  float64 // operations a second of the device, over those of the core
}

// Over is how many times as fast as the core or device of a table.
func (s Speed) Over(t *hardware.CodecTable) float64 {
	switch {
	case s.Times > 0:
		return s.Times
	case t.FLOPS == 0:
		return 1 // rates of the device itself
	case s.Memory > 0:
		return s.Memory / t.Memory
	case s.FLOPS > 0:
		return s.FLOPS / t.FLOPS
	}
	return 1
}

// Meter measures codecs on this machine, once, and keeps what it found. It may be
// used by several at once.
type Meter struct {
	Note func(format string, args ...any) // hears what is measured; may be nil
	// Measure measures a codec's payloads for Beside, as NewMeter sets it.
	Measure func(f compress.Family) (*hardware.CodecRate, error)

	dir     string
	build   string          // of the executable that is measured; "": not looked at yet
	effort  int             // how many times as long it measures as a run wants to wait
	doubt   float64         // spread above which a rate is measured again
	renewed map[string]bool // codecs and kinds of block that were measured in this process
	mu      sync.Mutex
	table   *hardware.CodecTable // nil: not read yet
	values  values
	clock   time.Duration
	times   map[string]float64 // by table and codec, see Beside
}

// NewMeter makes a meter that keeps what it measures in a folder; "": nowhere.
func NewMeter(dir string) *Meter { return &Meter{dir: dir, effort: 1, doubt: doubtful, Measure: one} }

// doubtful is the spread above which a rate is not believed: half of what was measured took
// twice as long as the least.
const doubtful = 2

// keptBuilds is how many builds' rates are kept for a processor.
const keptBuilds = 4

// executable is the hash of this executable's content: another build has other codecs.
var executable = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), nil
})

// of is how the files of this processor begin, and file where the rates of this build on it
// are kept.
func (m *Meter) of() string {
	sum := sha256.Sum256([]byte(Processor()))
	return filepath.Join(m.dir, fmt.Sprintf("%x-", sum[:4]))
}

func (m *Meter) file() string { return m.of() + m.build + ".yaml" }

// begin reads what is known, or measures the core.
func (m *Meter) begin() error {
	if m.table != nil {
		return nil
	}
	m.clock = looking()
	if m.build == "" {
		var err error
		if m.build, err = executable(); err != nil { // rates hold for this process alone
			m.build, m.dir = "unknown", ""
		}
	}
	if m.dir != "" {
		t, err := hardware.LoadCodecs(m.file())
		if err == nil {
			m.table = t
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) && m.Note != nil {
			m.Note("rates of codecs are measured again: %v", err)
		}
	}
	t, err := Core(m.effort)
	if err != nil {
		return fmt.Errorf("speed of this processor: %w", err)
	}
	t.Name, t.Command, t.Build = "measured here", "gradlab run", m.build
	m.table = t
	return nil
}

// find measures a use of a codec at sizes up to one that holds n elements, unless
// it was before.
func (m *Meter) find(f compress.Family, kind string, ranks, n int) (*hardware.CodecRate, *hardware.CodecTable, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(); err != nil {
		return nil, nil, err
	}
	spec := compress.Spec(f)
	r := m.table.Find(spec, kind, ranks)
	sizes := max(2, 1+sizeOf(n))
	renew := r != nil && r.Spread > m.doubt && !m.renewed[r.Codec+" "+r.Block]
	if renew {
		sizes = max(sizes, measured(r))
	}
	if r == nil || renew || measured(r) < min(sizes, len(Sizes)) {
		start := time.Now()
		next := hardware.CodecRate{Codec: spec, Block: kind, Ranks: ranks}
		if r != nil && !renew {
			next.Spread, next.Elements, next.Encode, next.Decode = r.Spread, slices.Clone(r.Elements), slices.Clone(r.Encode), slices.Clone(r.Decode)
		}
		more, err := m.measure(&next, f, sizes)
		if err != nil {
			return nil, nil, fmt.Errorf("codec %s cannot be measured: %w", spec, err)
		}
		if r = m.table.Find(spec, kind, ranks); r == nil {
			m.table.Rates = append(m.table.Rates, next)
		} else {
			*r = next
		}
		if more != nil && m.table.Find(spec, kind, more.Ranks) == nil {
			m.table.Rates = append(m.table.Rates, *more)
		}
		if m.renewed == nil {
			m.renewed = map[string]bool{}
		}
		m.renewed[spec+" "+kind] = true
		if m.table.Build != "" {
			m.table.Date, m.table.Load = today(), max(m.table.Load, load())
		}
		m.table.Round()
		r = m.table.Find(spec, kind, ranks)
		if m.Note != nil {
			m.Note("measuring %s on this processor: %.1f s", spec, time.Since(start).Seconds())
		}
		m.keep()
	}
	return r, m.table, nil
}

// manyRanks is a second number of ranks, of exchanges that take longer with more.
const (
	fewRanks  = 2
	manyRanks = 8
)

// measure fills in sizes of a rate. more is the rate with many ranks, of an
// exchange that takes longer with them.
func (m *Meter) measure(r *hardware.CodecRate, f compress.Family, sizes int) (more *hardware.CodecRate, err error) {
	if need := Sizes[min(sizes, len(Sizes))-1]; len(m.values) < need+1024 {
		m.values = newValues(need)
	}
	collects := false
	var refused error // codecs may refuse small blocks
	for i := measured(r); i < min(sizes, len(Sizes)); i++ {
		before := r.Spread
		c, err := point(r, f, Sizes[i], m.values, m.clock, m.effort)
		if err != nil && (len(r.Elements) > 0 || i == len(Sizes)-1) {
			return nil, err
		}
		refused = errors.Join(refused, err)
		collects = collects || c
		if err == nil {
			m.settle(r, f, before)
		}
	}
	if len(r.Elements) == 0 {
		return nil, refused
	}
	if !collects || r.Ranks != fewRanks {
		return nil, nil
	}
	more = &hardware.CodecRate{Codec: r.Codec, Block: r.Block, Ranks: manyRanks}
	_, err = m.measure(more, f, sizes)
	return more, err
}

// tries is how often a size that stands out is measured again.
const tries = 2

// settle measures the last size of a rate again where it stands out, and takes the least.
// before is the spread of the sizes before.
func (m *Meter) settle(r *hardware.CodecRate, f compress.Family, before float64) {
	i := len(r.Elements) - 1
	for range tries {
		if r.Spread == before && before > m.doubt || !m.standsOut(r, i) {
			return
		}
		next := hardware.CodecRate{Codec: r.Codec, Block: r.Block, Ranks: r.Ranks}
		if _, err := point(&next, f, r.Elements[i], m.values, m.clock, m.effort); err != nil {
			return
		}
		r.Encode[i], r.Decode[i] = min(r.Encode[i], next.Encode[0]), min(r.Decode[i], next.Decode[0])
		if next.Spread > 0 {
			r.Spread = max(before, min(r.Spread, next.Spread))
		}
	}
}

// How much slower an element may be at a size than at the one before, and than with the
// same family's other options.
const overSmaller, overRelatives = 3, 4

// standsOut reports whether a size was measured with much spread, or takes much longer than
// its neighbours: the size before, and codecs of the same family.
func (m *Meter) standsOut(r *hardware.CodecRate, i int) bool {
	took := func(r *hardware.CodecRate, i int) float64 { return r.Encode[i] + r.Decode[i] }
	if r.Spread > m.doubt || i > 0 && took(r, i) > overSmaller*took(r, i-1) {
		return true
	}
	family, _, _ := strings.Cut(r.Codec, "(")
	most := 0.0
	for k := range m.table.Rates {
		o := &m.table.Rates[k]
		name, _, _ := strings.Cut(o.Codec, "(")
		if at := slices.Index(o.Elements, r.Elements[i]); name == family && o.Codec != r.Codec && o.Block == r.Block && o.Ranks == r.Ranks && at >= 0 {
			most = max(most, took(o, at))
		}
	}
	return most > 0 && took(r, i) > overRelatives*most
}

// prune removes the rates of all but the newest builds on this processor.
func (m *Meter) prune() {
	files, err := filepath.Glob(m.of() + "*.yaml")
	if err != nil || len(files) <= keptBuilds {
		return
	}
	when := map[string]time.Time{}
	for _, f := range files {
		if i, err := os.Stat(f); err == nil {
			when[f] = i.ModTime()
		}
	}
	slices.SortStableFunc(files, func(a, b string) int { return when[b].Compare(when[a]) })
	for _, f := range files[keptBuilds:] {
		if f != m.file() {
			os.Remove(f)
		}
	}
}

// keep writes what is known, whole or not at all. If it cannot be kept, it is
// measured again some day.
func (m *Meter) keep() {
	if m.dir == "" || os.MkdirAll(m.dir, 0o755) != nil {
		return
	}
	t, err := os.CreateTemp(m.dir, ".tmp-*")
	if err != nil {
		return
	}
	_, err = t.Write(m.table.Text())
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), m.file())
	}
	if err != nil {
		os.Remove(t.Name())
	}
	m.prune()
}

// sizeOf is the index of the size that holds n elements, the last if none does.
func sizeOf(n int) int {
	i, _ := slices.BinarySearch(Sizes, n)
	return min(i, len(Sizes)-1)
}

// measured is the number of sizes up to the last that a rate was measured at.
func measured(r *hardware.CodecRate) int {
	if len(r.Elements) == 0 {
		return 0
	}
	return 1 + sizeOf(r.Elements[len(r.Elements)-1])
}

// Table measures codecs anew at all sizes, for a file of rates.
func Table(specs []string, note func(string, ...any)) (*hardware.CodecTable, error) {
	m := &Meter{Note: note, effort: 5, doubt: doubtful}
	var all []compress.Family
	for _, spec := range specs {
		f, err := compress.Parse(spec)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	for len(all) > 0 {
		f := all[0]
		all = all[1:]
		if ch, ok := f.(compress.Chooser); ok { // what is chosen is billed
			all = append(all, ch.Inner()...)
			continue
		}
		for _, kind := range []string{"matrix", "vector"} {
			for _, ranks := range []int{0, fewRanks} {
				if ranks > 0 && gathers(f, block(kind, Sizes[1], fewRanks)) {
					continue // its payloads are decoded one by one
				}
				if _, _, err := m.find(f, kind, ranks, Sizes[len(Sizes)-1]); err != nil {
					return nil, err
				}
			}
		}
	}
	return m.table, nil
}

func gathers(f compress.Family, b compress.Block) bool {
	_, road, err := compress.NewExchange(f, b)
	return err == nil && road == compress.RoadGather
}

// Book prices uses of codecs, and keeps the rates that it was asked for.
type Book struct {
	tables []*hardware.CodecTable
	meter  *Meter // of what no table has; nil: that is an error
	speed  Speed

	mu   sync.Mutex
	used []*hardware.CodecTable
	err  error
}

// NewBook makes a book of tables, the first that knows a codec counting. meter
// may be nil.
func NewBook(speed Speed, meter *Meter, tables ...*hardware.CodecTable) *Book {
	return &Book{tables: tables, meter: meter, speed: speed}
}

// Price is what a use of a codec takes: see [timing.Timing]. One that cannot be
// priced takes no time, and is told by Err.
func (b *Book) Price(c timing.Coding) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, err := b.price(c)
	if err != nil && b.err == nil {
		b.err = err
	}
	return d
}

// Err is the first use that could not be priced.
func (b *Book) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Used are the tables that prices came from, with the rates asked for alone.
// nil has none.
func (b *Book) Used() []*hardware.CodecTable {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.used)
}

func (b *Book) price(c timing.Coding) (time.Duration, error) {
	f := c.Codec
	for ch, ok := f.(compress.Chooser); ok; ch, ok = f.(compress.Chooser) {
		f = ch.Choose(c.Block)
	}
	kind, n := kindOf(f, c.Block), c.Block.Len()
	spec := compress.Spec(f)
	for _, t := range b.tables {
		if few, many := find(t, spec, kind, c.Ranks); few != nil {
			return b.charge(t, few, many, c), nil
		}
	}
	if b.meter == nil {
		return 0, fmt.Errorf("no table says how long codec %s takes; state a rate (device.codec=1GB/s), name a table that has it (device.codec=FILE.yaml, gradlab bench codecs writes one), or bill nothing (device.codec=free)", spec)
	}
	ranks := min(c.Ranks, fewRanks)
	if c.Ranks > 0 {
		ranks = fewRanks
	}
	if _, _, err := b.meter.find(f, kind, ranks, n); err != nil {
		return 0, err
	}
	b.meter.mu.Lock()
	defer b.meter.mu.Unlock()
	few, many := find(b.meter.table, spec, kind, c.Ranks)
	return b.charge(b.meter.table, few, many, c), nil
}

// find is the rate of a use, and beside it one with more ranks if that takes
// longer. Rates of any block hold where there is none of a kind.
func find(t *hardware.CodecTable, spec, kind string, ranks int) (few, many *hardware.CodecRate) {
	if ranks == 0 {
		if few = t.Find(spec, kind, 0); few == nil {
			few = t.Find(spec, Any, 0)
		}
		return few, nil
	}
	if few = t.Find(spec, kind, fewRanks); few == nil {
		return t.Find(spec, Any, 0), nil
	}
	return few, t.Find(spec, kind, manyRanks)
}

// Any is the kind of block of rates that hold for all.
const Any = "any"

// charge is the price of a use at rates, which it keeps.
func (b *Book) charge(t *hardware.CodecTable, few, many *hardware.CodecRate, c timing.Coding) time.Duration {
	b.note(t, few)
	n := c.Block.Len()
	s := few.Seconds(n, c.Decode)
	if many != nil {
		b.note(t, many)
		each := max(0, (many.Seconds(n, c.Decode)-s)/float64(many.Ranks-few.Ranks))
		s += float64(each * float64(c.Ranks-few.Ranks))
	}
	return time.Duration(math.Min(1e9*s/b.speed.Over(t), math.MaxInt64/4))
}

// note keeps a rate that was asked for.
func (b *Book) note(t *hardware.CodecTable, r *hardware.CodecRate) {
	i := slices.IndexFunc(b.used, func(u *hardware.CodecTable) bool {
		return u.Name == t.Name && u.Processor == t.Processor && u.Date == t.Date
	})
	if i < 0 {
		i = len(b.used)
		head := *t
		head.Rates = nil
		b.used = append(b.used, &head)
	}
	u := b.used[i]
	own := hardware.CodecRate{Codec: r.Codec, Block: r.Block, Ranks: r.Ranks, Spread: r.Spread, Elements: slices.Clone(r.Elements), Encode: slices.Clone(r.Encode), Decode: slices.Clone(r.Decode)}
	if k := slices.IndexFunc(u.Rates, func(x hardware.CodecRate) bool { return x.Same(r) }); k >= 0 {
		u.Rates[k] = own
	} else {
		u.Rates = append(u.Rates, own)
	}
}

// kindOf is the kind of a block: a matrix or a vector, behind its role where some
// codec inside is chosen by it.
func kindOf(f compress.Family, b compress.Block) string {
	shape := "vector"
	if b.Rows > 1 && b.Cols > 1 {
		shape = "matrix"
	}
	if chooses(f) && b.Role != "" {
		if b.Role == "embedding" { // to codecs a weight
			return "weight " + shape
		}
		return b.Role + " " + shape
	}
	return shape
}

func chooses(f compress.Family) bool {
	if _, ok := f.(compress.Chooser); ok {
		return true
	}
	return slices.ContainsFunc(compress.Inside(f), chooses)
}
