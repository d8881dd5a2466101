package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/internal/regular"
)

// CodecTable is how long encoding and decoding take on one core of a processor. One
// with neither FLOPS nor Memory has rates stated for a device, which are not scaled.
type CodecTable struct {
	Name      string  `yaml:"name"`
	Processor string  `yaml:"processor"` // what it was measured on
	Date      string  `yaml:"date"`
	Command   string  `yaml:"command"` // that made it
	FLOPS     float64 `yaml:"flops"`   // operations a second at which the core trains ResNet-20
	Memory    float64 `yaml:"memory"`  // bytes a second it copies, read and written
	// Spread is how well the rates are known: the factor of one standard deviation of the
	// logarithm of all of them together, at least 1. 0: predictions take them as exact.
	Spread float64 `yaml:"spread,omitempty"`
	// Build names the executable that was measured, and Load how many processes wanted the
	// machine's cores then; of tables that are kept for a build.
	Build string      `yaml:"build,omitempty"`
	Load  float64     `yaml:"load,omitempty"`
	Rates []CodecRate `yaml:"rates"`
}

// CodecRate is what one codec takes on one kind of block, by its size.
type CodecRate struct {
	Codec string `yaml:"codec"` // whole spec text
	Block string `yaml:"block"` // matrix or vector, behind the role where the codec asks for it
	// Ranks is 0 for payloads: encoding makes one, decoding adds one to a vector. Else
	// it is an exchange of so many ranks: up to its first operation, and from there on.
	Ranks    int       `yaml:"ranks"`
	Elements []int     `yaml:"elements"` // sizes, rising
	Encode   []float64 `yaml:"encode"`   // nanoseconds an element, at each
	Decode   []float64 `yaml:"decode"`
	// Spread is the largest factor, over the sizes, of the median of what was measured over
	// the least, which counts. 0: unknown.
	Spread float64 `yaml:"spread,omitempty"`
}

// Same says whether two rates are of the same use of the same codec.
func (r *CodecRate) Same(o *CodecRate) bool {
	return r.Codec == o.Codec && r.Block == o.Block && r.Ranks == o.Ranks
}

// Add measures a larger size.
func (r *CodecRate) Add(elements int, encode, decode float64) {
	r.Elements, r.Encode, r.Decode = append(r.Elements, elements), append(r.Encode, encode), append(r.Decode, decode)
}

// Seconds is the time that a block of n elements takes: on the line between the
// sizes measured, on the first line below them, and at the last size's rate above.
func (r *CodecRate) Seconds(n int, decode bool) float64 {
	per := r.Encode
	if decode {
		per = r.Decode
	}
	if n <= 0 || len(per) == 0 {
		return 0
	}
	at := func(i int) float64 { return float64(per[i] * float64(r.Elements[i])) }
	i, exact := slices.BinarySearch(r.Elements, n)
	ns := 0.0
	switch last := len(per) - 1; {
	case exact:
		ns = at(i)
	case i > last:
		ns = per[last] * float64(n)
	case i > 0:
		share := float64(n-r.Elements[i-1]) / float64(r.Elements[i]-r.Elements[i-1])
		ns = float64(at(i-1)*(1-share)) + float64(at(i)*share) // the same on all processors: not fused
	case last == 0:
		ns = per[0] * float64(n)
	default:
		slope := max(0, (at(1)-at(0))/float64(r.Elements[1]-r.Elements[0]))
		ns = max(per[0]*float64(n), at(0)-float64(slope*float64(r.Elements[0]-n)))
	}
	return ns / 1e9
}

// Find is the rate of a use of a codec, nil if it was not measured.
func (t *CodecTable) Find(codec, block string, ranks int) *CodecRate {
	want := CodecRate{Codec: codec, Block: block, Ranks: ranks}
	for i := range t.Rates {
		if t.Rates[i].Same(&want) {
			return &t.Rates[i]
		}
	}
	return nil
}

// Codecs lists the tables of codecs' rates that come with gradlab.
func Codecs() []string { return names("codecs") }

// LoadCodecs reads a table by name, or a file of one by its path, which ends in
// .yaml. The table is the caller's own.
func LoadCodecs(name string) (*CodecTable, error) {
	if strings.HasSuffix(name, ".yaml") {
		b, err := regular.ReadText(name, regular.Text)
		if err != nil {
			return nil, fmt.Errorf("table of codecs' rates: %w", err)
		}
		return ReadCodecs(name, b)
	}
	read, _ := embedded.LoadOrStore(name, sync.OnceValues(func() (*CodecTable, error) {
		t := &CodecTable{}
		if err := load("codec", name, t); err != nil {
			return nil, err
		}
		return t, t.check(name)
	}))
	t, err := read.(func() (*CodecTable, error))()
	if err != nil {
		return nil, err
	}
	own := *t
	own.Rates = slices.Clone(t.Rates)
	return &own, nil
}

// embedded holds the tables that come with gradlab, by name: every run asks for one,
// and reading it takes longer than many a run.
var embedded sync.Map

// ReadCodecs reads the text of a table; file is for messages.
func ReadCodecs(file string, b []byte) (*CodecTable, error) {
	t := &CodecTable{}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(t); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w; want a table of codecs' rates, as gradlab bench codecs writes it", file, err)
	}
	return t, t.check(file)
}

// check refuses what times cannot be made of.
func (t *CodecTable) check(file string) error {
	if stated := t.FLOPS == 0 && t.Memory == 0 && len(t.Rates) > 0; !stated && (!(t.FLOPS > 0) || !(t.Memory > 0)) || math.IsInf(t.FLOPS, 0) || math.IsInf(t.Memory, 0) {
		return fmt.Errorf("%s: flops and memory, the speed of the core, must be more than 0; gradlab bench codecs measures them", file)
	}
	if t.Spread != 0 && !(t.Spread >= 1) || math.IsInf(t.Spread, 0) {
		return fmt.Errorf("%s: spread is the factor of a standard deviation: want at least 1, or no such line, not %g", file, t.Spread)
	}
	if !(t.Load >= 0) || math.IsInf(t.Load, 0) {
		return fmt.Errorf("%s: load is a number of processes: want 0 or more, not %g", file, t.Load)
	}
	for i := range t.Rates {
		if err := t.Rates[i].check(file); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what times cannot be made of.
func (r *CodecRate) check(file string) error {
	if r.Spread != 0 && !(r.Spread >= 1) || math.IsInf(r.Spread, 0) {
		return fmt.Errorf("%s: codec %s: spread is the factor of a median over the least: want at least 1, or none, not %g", file, r.Codec, r.Spread)
	}
	bad := len(r.Elements) == 0 || len(r.Elements) != len(r.Encode) || len(r.Elements) != len(r.Decode) || r.Ranks < 0
	for j := range r.Elements {
		if bad = bad || r.Elements[j] < 1 || j > 0 && r.Elements[j] <= r.Elements[j-1]; bad {
			break
		}
		for _, x := range []float64{r.Encode[j], r.Decode[j]} {
			bad = bad || !(x >= 0) || math.IsInf(x, 0)
		}
	}
	if bad {
		return fmt.Errorf("%s: codec %s: want rising elements, and for each the nanoseconds an element that encode and decode take, finite and not negative", file, r.Codec)
	}
	return nil
}

// Text is the table as a file, a line a rate.
func (t *CodecTable) Text() []byte {
	var b bytes.Buffer
	quote := func(s string) string { return strconv.Quote(s) }
	fmt.Fprintf(&b, "name: %s\nprocessor: %s\ndate: %s\ncommand: %s\nflops: %.4g    # a second: training ResNet-20 on one core\nmemory: %.4g   # bytes a second, read and written: copying on one core\n",
		quote(t.Name), quote(t.Processor), quote(t.Date), quote(t.Command), t.FLOPS, t.Memory)
	if t.Spread != 0 {
		fmt.Fprintf(&b, "spread: %g     # factor of one standard deviation, on all rates\n", t.Spread)
	}
	if t.Build != "" {
		fmt.Fprintf(&b, "build: %s   # the executable that was measured\nload: %.4g     # processes that wanted cores then\n", quote(t.Build), t.Load)
	}
	b.WriteString("rates:         # nanoseconds an element; ranks 0: payloads, else exchanges of so many ranks\n")
	list := func(xs []float64) string {
		var out []string
		for _, x := range xs {
			out = append(out, strconv.FormatFloat(x, 'g', 4, 64))
		}
		return strings.Join(out, ", ")
	}
	for _, r := range t.Rates {
		spread := ""
		if r.Spread != 0 {
			spread = ", spread: " + list([]float64{r.Spread})
		}
		fmt.Fprintf(&b, "  - {codec: %s, block: %s, ranks: %d, elements: [%s], encode: [%s], decode: [%s]%s}\n", quote(r.Codec), quote(r.Block), r.Ranks,
			strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Elements), " ", ", "), "[]"), list(r.Encode), list(r.Decode), spread)
	}
	return b.Bytes()
}

// Round gives rates and speeds the figures that Text writes, so that what was
// measured bills what its file will.
func (t *CodecTable) Round() {
	round := func(x *float64) { *x, _ = strconv.ParseFloat(strconv.FormatFloat(*x, 'g', 4, 64), 64) }
	round(&t.FLOPS)
	round(&t.Memory)
	round(&t.Load)
	for i := range t.Rates {
		round(&t.Rates[i].Spread)
		for j := range t.Rates[i].Elements {
			round(&t.Rates[i].Encode[j])
			round(&t.Rates[i].Decode[j])
		}
	}
}
