package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/montanaflynn/stats"
	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/experiments/figure"
)

// codecReport is what `gradlab codec check` finds out.
type codecReport struct {
	Spec     string            `json:"spec"`
	Elements int               `json:"elements"` // of the block that claims and errors are for
	Claims   codecClaims       `json:"claims"`
	Checks   []codecCheck      `json:"checks"`
	Failed   int               `json:"failed"`
	Errors   []codecError      `json:"errors"`
	Speed    codecSpeed        `json:"speed"`
	Billed   *codecBilled      `json:"billed,omitempty"` // nil: no table has it
	Roads    map[string]string `json:"roads"`            // how ranks without a server combine it
	Exchange codecExchange     `json:"exchange"`
}

type codecClaims struct {
	Made         bool     `json:"made"`
	Lossless     bool     `json:"lossless"`
	Unbiased     bool     `json:"unbiased"`
	Omega        *float64 `json:"omega,omitempty"` // nil: unbounded, or not unbiased
	Delta        float64  `json:"delta"`
	Absolute     float64  `json:"absolute,omitempty"`
	BitsAnElem   float64  `json:"bits_an_element"`
	Exact        bool     `json:"exact_size"`
	Sums         bool     `json:"sums"`
	Stateful     bool     `json:"stateful"`
	Homogeneous  bool     `json:"homogeneous"`
	PassesNaN    bool     `json:"passes_nan"`
	Cast         bool     `json:"cast"`
	Remembers    bool     `json:"remembers"`
	WarmsUp      bool     `json:"warms_up"`
	AllocsAStep  int      `json:"allocations"`
	WorstWitness bool     `json:"has_witness"`
}

type codecCheck struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"`
}

type codecError struct {
	Input string  `json:"input"`
	VNMSE float64 `json:"vnmse"`
	Dev   float64 `json:"standard_error"`
	Bits  float64 `json:"bits_an_element"`
}

// codecExchange is what one rank asks for in a step of mode reduce.
type codecExchange struct {
	Ranks   int                  `json:"ranks"`
	Rounds  float64              `json:"rounds"` // a step
	Bytes   float64              `json:"bytes"`  // put in by a rank in a step
	Claimed int                  `json:"claimed_bytes"`
	Bound   bool                 `json:"claimed_at_most"`
	Asked   []compresstest.Asked `json:"operations"` // of rank 0, in the last step that asked for any
}

// codecSpeed is in bytes of float32 a second, 4 an element, on one core.
type codecSpeed struct {
	Encode float64 `json:"encode_bytes_per_second"`
	Decode float64 `json:"decode_bytes_per_second"`
}

const (
	codecElements = 1 << 16
	codecSteps    = 20
)

func (e *env) codecCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "codec [SPEC]",
		Short: "Say how to use a codec, or try it without training anything",
		Long: `Codec with a codec in spec text, such as

  gradlab codec 'topk(keep=0.01)'

says in a few lines what the codec guarantees and what to type to train with it,
with feedback around it where it needs that. gradlab list codecs has them all.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("codec wants one codec in spec text, not %d arguments; quote it, for the shell reads brackets", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			f, err := compress.Parse(args[0])
			if err != nil {
				return usageError{err}
			}
			return codecUse(e.out, f)
		},
	}
	var asJSON bool
	check := &cobra.Command{
		Use:   "check SPEC",
		Short: "Prove a codec's claims and measure its error, bits and speed",
		Long: `Check runs the conformance suite (package compress/compresstest) on a codec in
any combination, such as

  gradlab codec check 'feedback(topk(keep=0.01,index=rice,values=bf16))'

and prints what the codec claims, which checks hold, the mean squared error over
‖g‖² on vectors of several laws, bits an element and speed on one core, and what
an exchange without a server asks for: its rounds, and the bytes a rank puts in.
The speed is held against the table of rates that runs on net=sim are billed at: a
codec of gradlab that was changed keeps its rate there, and runs say so.
The exit code is 1 if a check fails.

For a codec with state the error includes what it keeps back for later.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("codec check wants one codec in spec text, not %d arguments; quote it, for the shell reads brackets", len(args))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := compress.Parse(args[0])
			if err != nil {
				return usageError{err}
			}
			r, err := checkCodec(f)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				err = enc.Encode(r)
			} else {
				err = r.write(e.out)
			}
			if err == nil && r.Failed > 0 {
				err = fmt.Errorf("%s fails %d of %d checks", r.Spec, r.Failed, len(r.Checks))
			}
			return err
		},
	}
	check.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	c.AddCommand(check)
	return c
}

// checkCodec runs the suite and the measurements.
func checkCodec(f compress.Family) (*codecReport, error) {
	b := compress.Block{Name: "check", Rows: 256, Cols: codecElements / 256, World: 8, Peer: -1, Seed: 1}
	r := &codecReport{Spec: compress.Spec(f), Elements: codecElements}
	c, made := compress.ClaimsOf(f, b)
	r.Claims = codecClaims{
		Made: made, Lossless: c.Lossless, Unbiased: c.Unbiased, Delta: c.Delta, Absolute: c.Absolute,
		BitsAnElem: 8 * float64(c.Size) / codecElements, Exact: c.Exact, Sums: c.Linear != compress.NotLinear,
		Stateful: c.Stateful, Homogeneous: c.Homogeneous, PassesNaN: c.Special == compress.SpecialPropagate, AllocsAStep: c.Allocs,
		Cast: c.Cast, Remembers: c.Remembers, WarmsUp: c.WarmsUp,
	}
	if c.Unbiased && !math.IsInf(c.Omega, 1) {
		r.Claims.Omega = &c.Omega
	}
	if w, ok := f.(compress.Witnesser); ok {
		r.Claims.WorstWitness = w.Witness(b) != nil
	}
	_, road, err := compress.NewExchange(f, b)
	if err != nil {
		return nil, usageError{err}
	}
	r.Roads = map[string]string{"reduce": string(road), "gather": string(compress.RoadGather)}

	failures := compresstest.Failures(f)
	for _, check := range compresstest.Checks {
		out := codecCheck{Name: check.Name}
		if err := failures[check.Name]; err != nil {
			out.Error = err.Error()
			r.Failed++
		}
		r.Checks = append(r.Checks, out)
	}
	if err := r.measure(f, b, road); err != nil && r.Failed == 0 {
		return nil, err
	}
	return r, nil
}

// measure fills in errors, traffic and speed: of a codec that fails checks, as far as it
// comes.
func (r *codecReport) measure(f compress.Family, b compress.Block, road compress.Road) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	errs, err := compresstest.Measure(f, codecElements, codecSteps)
	if err != nil {
		return err
	}
	for _, e := range errs {
		r.Errors = append(r.Errors, codecError(e))
	}
	traffic, err := compresstest.MeasureExchange(f, codecElements, codecSteps)
	if err != nil {
		return err
	}
	b.World = traffic.Ranks
	c, _ := compress.ClaimsOf(f, b)
	r.Exchange = codecExchange{
		Ranks: traffic.Ranks, Rounds: traffic.Rounds, Bytes: traffic.Bytes, Asked: traffic.Asked,
		Claimed: c.Size, Bound: !c.Exact,
	}
	if road == compress.RoadOwn {
		r.Exchange.Claimed, r.Exchange.Bound = c.Asked, c.AskedBound
	}
	if r.Speed, err = codecRate(f); err != nil {
		return err
	}
	r.Billed, err = billed(f)
	return err
}

// codecRate times encoding and decoding of a million normal elements on one
// core: the median of some rounds.
func codecRate(f compress.Family) (codecSpeed, error) {
	const d, rounds = 1 << 20, 9
	c, err := f.New(compress.Block{Name: "speed", Rows: 1 << 10, Cols: d >> 10, World: 8, Peer: -1, Seed: 1})
	if err != nil {
		return codecSpeed{}, err
	}
	g, dst := compresstest.Vector("gaussian", d, 0), make([]float32, d)
	var p []byte
	var enc, dec stats.Float64Data
	for n := range rounds + 1 {
		start := time.Now()
		if p, err = c.Append(p[:0], g, compress.Step{N: n}); err != nil {
			return codecSpeed{}, err
		}
		mid := time.Now()
		if err := c.AddTo(dst, 1, p, compress.From{Step: n}); err != nil {
			return codecSpeed{}, err
		}
		if n > 0 { // the first one makes its buffers
			enc, dec = append(enc, 4*d/mid.Sub(start).Seconds()), append(dec, 4*d/time.Since(mid).Seconds())
		}
	}
	e, _ := enc.Median()
	s, _ := dec.Median()
	return codecSpeed{e, s}, nil
}

func (r *codecReport) write(w io.Writer) error {
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintln(w, r.Spec)
	if c := r.Claims; !c.Made {
		fmt.Fprintln(w, "claims nothing")
	} else {
		size := "at most "
		if c.Exact {
			size = "exactly "
		}
		omega := "none"
		if c.Omega != nil {
			omega = strconv.FormatFloat(*c.Omega, 'g', 4, 64)
		}
		rows := [][]string{
			{"unbiased", yes[c.Unbiased]}, {"omega", omega},
			{"delta", strconv.FormatFloat(c.Delta, 'g', 4, 64)},
			{"size", size + strconv.FormatFloat(c.BitsAnElem, 'f', 3, 64) + " bits an element"},
			{"sums without decoding", yes[c.Sums]}, {"road of mode reduce", r.Roads["reduce"]},
			{"state", yes[c.Stateful]}, {"exact under powers of two", yes[c.Homogeneous]}, {"lets NaN through", yes[c.PassesNaN]},
			{"every value travels alone", yes[c.Cast]}, {"sends later what it leaves out", yes[c.Remembers]}, {"payloads shrink at first", yes[c.WarmsUp]},
		}
		t := figure.Table{Header: []string{fmt.Sprintf("claim for %d elements", r.Elements), ""}, Rows: rows}
		if err := t.Write(w, "box", 0); err != nil {
			return err
		}
	}
	for _, c := range r.Checks {
		if c.Error != "" {
			fmt.Fprintf(w, "FAILED %s: %s\n", c.Name, c.Error)
		}
	}
	fmt.Fprintf(w, "%d of %d checks hold\n", len(r.Checks)-r.Failed, len(r.Checks))
	if r.Speed.Decode == 0 { // it could not be measured
		return nil
	}
	var rows [][]string
	for _, e := range r.Errors {
		rows = append(rows, []string{e.Input, fmt.Sprintf("%.4g", e.VNMSE), fmt.Sprintf("%.1g", e.Dev), fmt.Sprintf("%.3f", e.Bits)})
	}
	t := figure.Table{Header: []string{"input", "squared error / ‖g‖²", "its standard error", "bits an element"}, Rows: rows, Right: []bool{false, true, true, true}}
	if err := t.Write(w, "box", 0); err != nil {
		return err
	}
	r.Exchange.write(w, r.Claims.Made)
	_, err := fmt.Fprintf(w, "encodes %s, decodes and adds %s of float32 on one core\n", bytesPerSecond(r.Speed.Encode), bytesPerSecond(r.Speed.Decode))
	if r.Billed != nil && err == nil {
		_, err = fmt.Fprintln(w, r.Billed.words(r.Spec))
	}
	return err
}

// bytesPerSecond is a rate with three digits.
func bytesPerSecond(x float64) string {
	if x < 1e9 {
		return fmt.Sprintf("%.3g MB/s", x/1e6)
	}
	return fmt.Sprintf("%.3g GB/s", x/1e9)
}

func (x codecExchange) write(w io.Writer, claimed bool) {
	fmt.Fprintf(w, "an exchange of %d ranks: %.0f bytes a rank and step, rounds %.4g", x.Ranks, x.Bytes, x.Rounds)
	switch {
	case claimed && x.Bound:
		fmt.Fprintf(w, " (at most %d bytes claimed)", x.Claimed)
	case claimed:
		fmt.Fprintf(w, " (%d bytes claimed)", x.Claimed)
	}
	for i, a := range x.Asked {
		fmt.Fprint(w, map[bool]string{true: ": ", false: ", then "}[i == 0], a)
	}
	fmt.Fprintln(w)
}
