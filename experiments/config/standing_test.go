package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A key that nobody is shown is a key too many: every one stands in a recipe, in a study or
// in an example of the pages.
func TestEveryKeyStandsSomewhere(t *testing.T) {
	t.Parallel()
	stands := map[string]bool{}
	for _, name := range RecipeNames() {
		r, err := LoadRecipe(name)
		if err != nil {
			t.Fatal(err)
		}
		shapes := []*Recipe{r}
		for _, name := range r.Forms() {
			form, err := r.Form(name)
			if err != nil {
				t.Fatal(err)
			}
			shapes = append(shapes, form)
		}
		for _, r := range shapes {
			for key := range saidKeys(r) {
				stands[key] = true
			}
			for _, a := range r.quick {
				stands[a.key] = true
			}
		}
	}
	assigned := regexp.MustCompile(`(?:^|[^a-z_.])([a-z_]+(?:\.[a-z_]+)?)=`)
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"docs/*.md", "README.md", "experiments/reproduce/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, f := range files {
			if matched, _ := filepath.Match("*_test.go", filepath.Base(f)); matched {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range assigned.FindAllSubmatch(text, -1) {
				stands[string(m[1])] = true
			}
		}
	}
	for _, k := range Keys() {
		if !stands[k.Name] {
			t.Errorf("key %s stands in no recipe, no study and no page: show what it is for, or take it away", k.Name)
		}
	}
}
