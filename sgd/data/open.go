package data

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// find locates the set, downloading it if that is wanted and needed.
func (r *recipe) find(o Options) (Location, error) {
	loc := r.locate(o)
	if o.Download && len(r.files) > 0 && (!loc.Found || loc.Path == r.home(o) && r.cutOff(loc.Path)) {
		return r.fetch(context.Background(), o)
	}
	if !loc.Found {
		return loc, r.missing(o, nil)
	}
	return loc, nil
}

// cutOff tells whether a download to dir ended between two files.
func (r *recipe) cutOff(dir string) bool {
	n := 0
	for _, f := range r.files {
		for _, name := range []string{f.name, strings.TrimSuffix(f.name, ".gz")} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				n++
				break
			}
		}
	}
	return n > 0 && n < len(r.files)
}

// unpacking tells of packed archives being read.
func (r *recipe) unpacking(o Options) func(file string, size int64) *work {
	return func(file string, size int64) *work { return r.newWork(o, reading, file, "", size) }
}

// open reads the set into memory and serves it.
func (r *recipe) open(o Options) (sgd.Dataset, error) {
	loc, err := r.find(o)
	if err != nil {
		return sgd.Dataset{}, err
	}
	t, err := openTree(loc.Path, false, "", r.unpacking(o))
	if err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: %s: %w", r.name, err)
	}
	defer t.Close()
	keep := ""
	if o.KeepDecoded && o.Cache != "" {
		keep = filepath.Join(o.Cache, "decoded")
	}
	l, err := t.load(r, keep, o)
	if err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: %s: %w", r.name, err)
	}
	sc := newScale(l.parts[0].sh.C, 255, r.mean, r.std)
	train := &held{images: l.parts[0], view: r.trainView(sc)}
	ds := dataset(train, &held{images: l.parts[1], view: view{scale: sc}}, o, false)
	if note := idle(r.set, o); note != "" {
		l.notes = append(l.notes, note)
	}
	ds.Name, ds.Hash, ds.Note = r.name, digest(l.parts[:]...), strings.Join(l.notes, "; ")
	return ds, nil
}

// indices is the folder of the indices of tars, "" for none.
func (o Options) indices() string {
	if o.Cache == "" {
		return ""
	}
	return filepath.Join(o.Cache, "index")
}
