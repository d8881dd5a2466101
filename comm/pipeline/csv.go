package pipeline

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// overlap is how PyTorch ends a cell of two actions.
const overlap = "OVERLAP_F_B"

// String writes a cell as PyTorch does.
func (c Cell) String() string {
	if len(c) == 1 {
		return c[0].String()
	}
	var texts []string
	for _, a := range c {
		texts = append(texts, a.String())
	}
	return "(" + strings.Join(texts, ";") + ")" + overlap
}

// WriteCSV writes a plan in the form that PyTorch reads (_PipelineScheduleRuntime._load_csv
// of torch.distributed.pipelining): a row for each device, a cell for each step.
func (p *Plan) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	for _, cells := range p.Devices {
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = c.String()
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// ReadCSV reads a plan in PyTorch's form. Empty cells, and cells that move data (SEND, RECV,
// WAIT, UNSHARD, RESHARD, REDUCE_GRAD), say nothing here: what moves follows from the
// passes. Errors name row and cell; Verify proves what was read.
func ReadCSV(r io.Reader) (*Plan, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	rows, err := in.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	p := &Plan{}
	on := map[int]int{}
	for d, row := range rows {
		var l line
		for i, text := range row {
			c, err := parseCell(strings.TrimSpace(text))
			if err != nil {
				return nil, fmt.Errorf("pipeline: row %d, cell %d: %w", d+1, i+1, err)
			}
			for _, a := range c {
				if other, ok := on[a.Stage]; ok && other != d {
					return nil, fmt.Errorf("pipeline: row %d, cell %d: %v: stage %d is on device %d", d+1, i+1, a, a.Stage, other)
				}
				on[a.Stage] = d
				p.Micros = max(p.Micros, a.Micro+1)
			}
			if len(c) > 0 {
				l = append(l, c)
			}
		}
		p.Devices = append(p.Devices, l)
	}
	for s := range len(on) {
		d, ok := on[s]
		if !ok {
			return nil, fmt.Errorf("pipeline: there are %d stages, and nothing is done with stage %d", len(on), s)
		}
		p.Stages = append(p.Stages, d)
	}
	return p, nil
}

// parseCell reads a cell; one without passes is empty.
func parseCell(text string) (Cell, error) {
	if inner, ok := strings.CutSuffix(text, overlap); ok {
		a, b, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(inner, "("), ")"), ";")
		if !found {
			return nil, fmt.Errorf("%q overlaps no two passes, as (0F1;7B3)%s does", text, overlap)
		}
		first, err := parseCell(a)
		if err != nil {
			return nil, err
		}
		second, err := parseCell(b)
		if err != nil {
			return nil, err
		}
		if len(first) != 1 || len(second) != 1 {
			return nil, fmt.Errorf("%q overlaps no two passes, as (0F1;7B3)%s does", text, overlap)
		}
		return Cell{first[0], second[0]}, nil
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if text == "" || moves(text[digits:]) {
		return nil, nil
	}
	if digits == 0 || digits == len(text) || !strings.ContainsRune("FBIW", rune(text[digits])) {
		return nil, fmt.Errorf("%q is no pass, such as 3F0: stage, one of F, B, I and W, micro-batch", text)
	}
	stage, err := strconv.Atoi(text[:digits])
	if err != nil || stage > maxNumber {
		return nil, fmt.Errorf("%q: want a stage up to %d", text, maxNumber)
	}
	micro, err := strconv.Atoi(text[digits+1:])
	if err != nil || micro < 0 || micro > maxNumber {
		return nil, fmt.Errorf("%q: want a micro-batch up to %d", text, maxNumber)
	}
	return Cell{{stage, Kind(text[digits]), micro}}, nil
}

// maxNumber bounds stages and micro-batches that are read.
const maxNumber = 1 << 20

// moves reports whether PyTorch's word is of data that moves.
func moves(word string) bool {
	for _, w := range []string{"SEND", "RECV", "WAIT", "UNSHARD", "RESHARD", "REDUCE_GRAD"} {
		if strings.HasPrefix(word, w) {
			return true
		}
	}
	return false
}
