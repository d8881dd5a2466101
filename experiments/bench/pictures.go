package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
)

// DataOptions say what Data measures.
type DataOptions struct {
	Sizes    []int   // sides of a sample in pixels, a row for each
	Pictures string  // folder with a folder for each class; "" for pictures made here
	Seconds  float64 // of measuring for each contender and row
	PIL      *PIL    // nil: no peer
	Command  []string
	Logf     func(format string, args ...any) // hears how it goes
}

// DataReport is everything Data found out.
type DataReport struct {
	Command []string  `json:"command"`
	Machine Machine   `json:"machine"`
	Kind    string    `json:"pictures"` // which ones were read
	Rows    []DataRow `json:"rows"`
}

// DataRow is samples of one size.
type DataRow struct {
	Size  int         `json:"size"`
	Ours  []DataSpeed `json:"ours"` // by way of decoding; the last is the one that is compared
	Peers []DataSpeed `json:"peers,omitempty"`
	Best  string      `json:"best_peer,omitempty"`
	Error string      `json:"error,omitempty"`
}

// DataSpeed is what a contender reached: pictures a second of processor time.
type DataSpeed struct {
	Name     string    `json:"name"`
	Version  string    `json:"version,omitempty"`
	Pictures Spread    `json:"pictures_per_second"`
	Blocks   []float64 `json:"blocks"`
	Ratio    Spread    `json:"ratio,omitzero"` // of peers: ours to theirs, round by round
	Error    string    `json:"error,omitempty"`
}

// Check refuses what cannot be measured.
func (o DataOptions) Check() error {
	for _, n := range o.Sizes {
		if n < 8 || n > 1024 {
			return fmt.Errorf("size is %d, want 8 to 1024 pixels", n)
		}
	}
	if len(o.Sizes) == 0 {
		return errors.New("no size is given")
	}
	if !(o.Seconds > 0 && o.Seconds <= maxSeconds) {
		return fmt.Errorf("seconds is %g, want more than 0 and at most %d", o.Seconds, maxSeconds)
	}
	return nil
}

// ways are those of decoding, the one that is compared last.
var ways = []string{"full", cachedWay, "reduced"}

// cachedWay serves pictures that were scaled to 8/7 of the size before.
const cachedWay = "cached"

// Data measures how many pictures a core reads, decodes, crops at random and scales;
// we and the peer take turns. What fails is left out and told in the error, beside
// the report of all the rest; the end of ctx ends it with the rows that were complete.
func Data(ctx context.Context, o DataOptions) (*DataReport, error) {
	r := &DataReport{Command: o.Command, Machine: ThisMachine(), Kind: o.Pictures, Rows: []DataRow{}}
	own, err := os.MkdirTemp("", "gradlab-pictures-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(own)
	dir, cache := o.Pictures, filepath.Join(own, "cache")
	if dir == "" {
		dir = filepath.Join(own, "pictures")
		o.Logf("making %d pictures", madePictures)
		size, err := makePictures(dir)
		if err != nil {
			return r, err
		}
		r.Kind = fmt.Sprintf("made here: %d×%d pixels, JPEG of quality %d, %d KB on average", madeWidth, madeHeight, madeQuality, size>>10)
	}
	defer useThreads(1)()
	var failed []error
	for _, size := range o.Sizes {
		row, err := o.row(ctx, dir, cache, size)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("size %d: %w", size, err))
		}
		r.Rows = append(r.Rows, row)
	}
	return r, errors.Join(failed...)
}

func (o DataOptions) row(ctx context.Context, dir, cache string, size int) (DataRow, error) {
	row := DataRow{Size: size}
	fail := func(err error) (DataRow, error) {
		row.Error = err.Error()
		return row, err
	}
	var cs []contender
	for _, way := range ways {
		r, err := newReader(dir, cache, size, way)
		if err != nil {
			return fail(err)
		}
		cs = append(cs, r)
		row.Ours = append(row.Ours, DataSpeed{Name: way})
	}
	if o.PIL != nil {
		for _, name := range pilVariants {
			p := DataSpeed{Name: name}
			w, err := o.PIL.start(ctx, name, dir, size)
			if err != nil {
				cs = append(cs, absent{err})
			} else {
				defer w.end()
				cs, p.Version = append(cs, w), w.hello.PIL
			}
			row.Peers = append(row.Peers, p)
		}
	}
	o.Logf("size %d: measuring", size)
	scores, err := compete(ctx, cs, o.Seconds, func() {})
	if err != nil {
		return fail(err)
	}
	for i := range row.Ours {
		if scores[i].err != nil {
			return fail(scores[i].err)
		}
		row.Ours[i].Blocks, row.Ours[i].Pictures = scores[i].perS, SpreadOf(scores[i].perS)
	}
	var failed []error
	us, best := scores[len(ways)-1], 0.0
	for i := range row.Peers {
		p, s := &row.Peers[i], scores[len(ways)+i]
		if s.err != nil {
			p.Error = s.err.Error()
			failed = append(failed, s.err)
			continue
		}
		p.Blocks, p.Pictures, p.Ratio = s.perS, SpreadOf(s.perS), ratio(us, s)
		if p.Pictures.Median > best {
			best, row.Best = p.Pictures.Median, p.Name
		}
	}
	return row, errors.Join(failed...)
}

// reader is our contender: a step is a picture of a training set, read from its
// file, decoded, cropped at random, scaled, and normalised to float32.
type reader struct {
	source sgd.Source
	batch  sgd.Batch
	at     uint64
}

func newReader(dir, cache string, size int, way string) (*reader, error) {
	proto, _ := data.Sets.Proto("pictures")
	set := proto.(data.PictureFolder)
	o := data.Options{Seed: 1, Augment: true}
	set.Path, set.Size, set.Decode = dir, size, way
	if way == cachedWay {
		set.Decode, set.Cache = "full", size*8/7
		o.Cache, o.KeepDecoded = cache, true
	}
	ds, err := set.Open(o)
	if err != nil {
		return nil, err
	}
	return &reader{source: ds.Train}, nil
}

// block implements contender, in processor time.
func (r *reader) block(ctx context.Context, n int) (seconds float64, err error) {
	start := processorSeconds()
	for range n {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := r.source.Batch(sgd.Draw{First: r.at, N: 1}, &r.batch); err != nil {
			return 0, err
		}
		r.at++
	}
	return processorSeconds() - start, nil
}

// Pictures made here have ImageNet's usual size, and about its bytes a pixel.
const (
	madePictures          = 24
	madeWidth, madeHeight = 500, 375
	madeQuality           = 92
)

// makePictures writes pictures into dir and returns their mean size in bytes.
func makePictures(dir string) (size int, err error) {
	for i := range madePictures {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, madePicture(rng.New(1, "picture").With(uint64(i))), &jpeg.Options{Quality: madeQuality}); err != nil {
			return 0, err
		}
		size += b.Len()
		for k, part := range []string{"train", "val"} {
			if k == 1 && i > 0 {
				continue
			}
			class := filepath.Join(dir, part, "some")
			if err := os.MkdirAll(class, 0o755); err != nil {
				return 0, err
			}
			if err := os.WriteFile(filepath.Join(class, strconv.Itoa(i)+".jpg"), b.Bytes(), 0o644); err != nil {
				return 0, err
			}
		}
	}
	return size / madePictures, nil
}

// madePicture has structure at every scale, as photographs have: its amplitude is
// in proportion to the wavelength.
func madePicture(key rng.Key) image.Image {
	m := image.NewYCbCr(image.Rect(0, 0, madeWidth, madeHeight), image.YCbCrSubsampleRatio420)
	clouds(m.Y, m.YStride, 75, key.With(0))
	clouds(m.Cb, m.CStride, 25, key.With(1))
	clouds(m.Cr, m.CStride, 25, key.With(2))
	return m
}

// clouds fills a plane with sums of noise, interpolated between the points of grids
// of 128 … 1 pixels.
func clouds(pix []uint8, stride int, amplitude float64, key rng.Key) {
	h := len(pix) / stride
	sum := make([]float64, len(pix))
	for step := 128; step >= 1; step /= 2 {
		across, grid := stride/step+2, key.With(uint64(step))
		noise := make([]float64, across*(h/step+2))
		for i := range noise {
			noise[i] = grid.Norm(uint64(i)) * (amplitude*float64(step)/128 + 5)
		}
		for y := range h {
			fy := float64(y%step) / float64(step)
			top, below := noise[y/step*across:], noise[(y/step+1)*across:]
			for x := range stride {
				i, fx := x/step, float64(x%step)/float64(step)
				sum[y*stride+x] += (1-fy)*((1-fx)*top[i]+fx*top[i+1]) + fy*((1-fx)*below[i]+fx*below[i+1])
			}
		}
	}
	for i, v := range sum {
		pix[i] = uint8(min(max(128+v, 0), 255))
	}
}

// WriteTables writes the report as text. style is that of [figure.Table.Write].
func (r *DataReport) WriteTables(w io.Writer, style string) error {
	m := r.Machine
	if _, err := fmt.Fprintf(w, "%s, %v, %s\npictures %s\n", m.CPU, m.Features, m.Go, r.Kind); err != nil {
		return err
	}
	header := []string{"size"}
	var rows [][]string
	for i, t := range r.Rows {
		cells := []string{strconv.Itoa(t.Size)}
		if t.Error != "" {
			rows = append(rows, append(cells, "failed"))
			continue
		}
		for _, s := range append(t.Ours[:len(t.Ours):len(t.Ours)], t.Peers...) {
			if i == 0 {
				header = append(header, s.Name+" /s")
			}
			if s.Error != "" {
				cells = append(cells, "failed")
				continue
			}
			cells = append(cells, digits(s.Pictures.Median))
		}
		for _, p := range t.Peers {
			if p.Name == t.Best {
				cells = append(cells, fmt.Sprintf("%.2f", p.Ratio.Median), fmt.Sprintf("%.2f–%.2f", p.Ratio.Min, p.Ratio.Max))
			}
		}
		rows = append(rows, cells)
	}
	for _, cells := range rows {
		if len(cells) > len(header) {
			header = append(header, "ratio to the best", "least to most")
		}
	}
	return figure.Table{Header: header, Rows: rows, Right: figure.AllButFirst(len(header))}.Write(w, style, 0)
}
