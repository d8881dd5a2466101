package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Fetch makes sure the set is in o.Cache (or, without one, in o.Dir),
// downloading what is missing there or differs from the published checksums. A
// download that breaks off is resumed, by this call or a later one. Only one
// process should fetch into a folder at a time; a clash is noticed by the
// checksum. A set that cannot be had is a MissingError.
func Fetch(ctx context.Context, name string, o Options) (Location, error) {
	r, name, err := lookup(name)
	if err != nil || r == nil {
		return Location{Name: name, Origin: BuiltIn, Found: err == nil}, err
	}
	return r.fetch(ctx, o)
}

func (r *recipe) fetch(ctx context.Context, o Options) (Location, error) {
	dir := r.home(o)
	if len(r.files) == 0 || dir == "" {
		cause := errors.New("there is no folder to download to")
		if len(r.files) == 0 {
			cause = errors.New("it has no public address")
		}
		return Location{Name: r.name, Origin: Absent}, r.missing(o, cause)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Location{Name: r.name, Path: dir, Origin: Absent}, fmt.Errorf("data: %w", err)
	}
	loc := Location{Name: r.name, Path: dir, Origin: Cached, Found: true}
	if o.Cache == "" {
		loc.Origin = FromDir
	}
	for _, f := range r.files {
		dst := filepath.Join(dir, f.name)
		state := f.verify(dst)
		if state == Missing || state == Differs {
			d := download{remote: f, dst: dst, set: r.name, tell: o.Progress, timing: defaultTiming}
			for _, base := range r.sources(o) {
				d.urls = append(d.urls, base+f.name)
			}
			if err := d.run(ctx); err != nil {
				return Location{Name: r.name, Path: dir, Origin: Absent}, r.missing(o, err)
			}
			state = f.verify(dst)
		}
		file := File{Path: dst, State: state}
		if st, err := os.Stat(dst); err == nil {
			file.Size = st.Size()
		}
		loc.Files = append(loc.Files, file)
	}
	return loc, nil
}

// sources is the base addresses of the set's files, the user's mirror first.
func (r *recipe) sources(o Options) []string {
	if o.Mirror == "" {
		return r.mirrors
	}
	return append([]string{strings.TrimRight(o.Mirror, "/") + "/" + r.name + "/"}, r.mirrors...)
}
