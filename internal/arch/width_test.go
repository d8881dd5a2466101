package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of structure, which limits of lines do not see: a class cut into files is as long as
// before, and a flat package has no walls. Tests and generated files count nowhere.
const (
	mostMethods     = 40 // of a type
	mostTypeFiles   = 6  // that the methods of a type lie in
	mostFolderFiles = 30 // of a package
)

// width is what a type or a package has too much of.
type width struct{ methods, files int }

// wide are types and packages beyond the limits. Figures may only fall, and what comes within
// the limits leaves the list.
var wide = map[string]width{
	"comm/grpcnet run":            {50, 11},
	"comm/sim host":               {33, 7},
	"experiments":                 {files: 42},
	"experiments folder":          {19, 8},
	"experiments/advise Question": {17, 7},
	"experiments/cli":             {files: 51},
	"experiments/cli env":         {106, 40},
	"experiments/reproduce Lab":   {36, 18},
	"sgd/data":                    {files: 61},
	"sgd/data recipe":             {30, 14},
	"sgd/data tree":               {43, 17},
	"sgd/nn":                      {files: 44},
	"sgd/train":                   {files: 76},
	"sgd/train Job":               {114, 26},
	"sgd/train Observer":          {63, 7},
	"sgd/train Peer":              {51, 4},
	"sgd/train Rank":              {45, 8},
	"sgd/train server":            {57, 7},
	"sgd/train worker":            {51, 7},
}

// catalogues are packages of parts enrolled by registry, a file each: they may have any number
// of files.
var catalogues = []string{"compress", "compress/compresstest", "experiments/reproduce", "sgd"}

// widths measures types, by package and name, and packages.
func widths(files []file) map[string]width {
	methods, where, folders := map[string]int{}, map[string]map[string]bool{}, map[string]int{}
	for _, f := range files {
		if f.test || ast.IsGenerated(f.ast) || strings.HasPrefix(f.pkg, "internal/_gen") {
			continue
		}
		folders[f.pkg]++
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			of, _, _ := strings.Cut(funcName(fn), ".")
			of = f.pkg + " " + of
			if methods[of]++; where[of] == nil {
				where[of] = map[string]bool{}
			}
			where[of][filepath.Base(f.path)] = true
		}
	}
	out := map[string]width{}
	for of, n := range methods {
		out[of] = width{n, len(where[of])}
	}
	for pkg, n := range folders {
		out[pkg] = width{files: n}
	}
	return out
}

// tooWide lists what is beyond limits and exceptions, and exceptions that are too large.
func tooWide(of map[string]width, exceptions map[string]width) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		w, most := of[name], width{mostMethods, mostTypeFiles}
		if !strings.Contains(name, " ") {
			if most = (width{files: mostFolderFiles}); slices.Contains(catalogues, name) {
				continue
			}
		}
		allowed, exempt := exceptions[name]
		within := w.methods <= most.methods && w.files <= most.files
		switch {
		case !within && !exempt:
			out = append(out, fmt.Sprintf("%s has %d methods in %d files, at most %d in %d", name, w.methods, w.files, most.methods, most.files))
		case !within && (w.methods > max(allowed.methods, most.methods) || w.files > max(allowed.files, most.files)):
			out = append(out, fmt.Sprintf("%s has grown to %d methods in %d files, from %d in %d", name, w.methods, w.files, allowed.methods, allowed.files))
		case exempt && within:
			out = append(out, name+" is within limits; take it out of the exceptions")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		if _, there := of[name]; !there {
			out = append(out, name+" is an exception, and is not there")
		}
	}
	return out
}

func TestNothingIsTooWide(t *testing.T) {
	t.Parallel()
	for _, w := range tooWide(widths(sources(t)), wide) {
		t.Error(w)
	}
}

func TestWidthIsFound(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct{ of, exceptions map[string]width }{
		"": {map[string]width{"a T": {40, 6}, "a": {files: 30}, "compress": {files: 99}, "a U": {50, 7}}, map[string]width{"a U": {50, 7}}},
		"a T has 41 methods in 1 files, at most 40 in 6":       {map[string]width{"a T": {41, 1}}, nil},
		"a T has 7 methods in 7 files, at most 40 in 6":        {map[string]width{"a T": {7, 7}}, nil},
		"a has 0 methods in 31 files, at most 0 in 30":         {map[string]width{"a": {files: 31}}, nil},
		"a T has grown to 51 methods in 3 files, from 50 in 3": {map[string]width{"a T": {51, 3}}, map[string]width{"a T": {50, 3}}},
		"a T has grown to 50 methods in 8 files, from 50 in 7": {map[string]width{"a T": {50, 8}}, map[string]width{"a T": {50, 7}}},
		"a T is an exception, and is not there":                {nil, map[string]width{"a T": {50, 3}}},
		"a T is within limits; take it out of the exceptions":  {map[string]width{"a T": {40, 6}}, map[string]width{"a T": {50, 3}}},
	} {
		if got := strings.Join(tooWide(c.of, c.exceptions), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
