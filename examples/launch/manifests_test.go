// Package launch checks the manifests beside it against what Kubernetes and JobSet
// publish: their Go types, read strictly, and the schema of JobSet's resource, in which
// that of a Job is.
package launch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

// types reads each kind into its published type. A field that it does not have is an
// error, and so is one of another type.
var types = map[string]func() any{
	"v1 ConfigMap":                    func() any { return new(core.ConfigMap) },
	"v1 Secret":                       func() any { return new(core.Secret) },
	"v1 Service":                      func() any { return new(core.Service) },
	"batch/v1 Job":                    func() any { return new(batch.Job) },
	"jobset.x-k8s.io/v1alpha2 JobSet": func() any { return new(jobset.JobSet) },
}

// schemas are those of a JobSet and of a Job, from JobSet's definition.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	set := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	at := func(v map[string]any, path ...string) map[string]any {
		for _, p := range path {
			v = v[p].(map[string]any)
		}
		return v
	}
	job := map[string]any{"type": "object", "required": []any{"spec"}, "properties": map[string]any{
		"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
		"spec": at(set, "properties", "spec", "properties", "replicatedJobs", "items", "properties", "template", "properties", "spec"),
	}}
	out := map[string]*jsonschema.Schema{}
	for name, s := range map[string]map[string]any{"jobset.x-k8s.io/v1alpha2 JobSet": set, "batch/v1 Job": job} {
		c := jsonschema.NewCompiler()
		if err := c.AddResource("s.json", s); err != nil {
			t.Fatal(err)
		}
		if out[name], err = c.Compile("s.json"); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// check says what is wrong with the resources of a manifest.
func check(t *testing.T, text []byte, schemas map[string]*jsonschema.Schema) (kinds []string, problems []string) {
	t.Helper()
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			return kinds, append(problems, err.Error())
		}
		name := head.APIVersion + " " + head.Kind
		kinds = append(kinds, name)
		into, known := types[name]
		if !known {
			problems = append(problems, "nobody knows "+name)
			continue
		}
		if err := yaml.UnmarshalStrict(doc, into()); err != nil {
			problems = append(problems, name+": "+err.Error())
		}
		if s := schemas[name]; s != nil {
			asJSON, err := yaml.YAMLToJSON(doc)
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); err != nil {
				problems = append(problems, name+": "+err.Error())
			}
		}
	}
	return kinds, problems
}

func TestManifests(t *testing.T) {
	s := schemas(t)
	for file, want := range map[string][]string{
		"job.yaml":    {"v1 ConfigMap", "v1 Service", "batch/v1 Job"},
		"jobset.yaml": {"v1 ConfigMap", "jobset.x-k8s.io/v1alpha2 JobSet"},
		"sweep.yaml":  {"v1 ConfigMap", "batch/v1 Job"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kinds, problems := check(t, text, s)
		if !slices.Equal(kinds, want) {
			t.Errorf("%s holds %q, want %q", file, kinds, want)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", file, p)
		}
	}
}

// JobSet's webhook, which no schema tells of, takes these names of rules alone.
var ruleName = regexp.MustCompile("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")

func TestRulesHaveNamesThatAreTaken(t *testing.T) {
	text, err := os.ReadFile("jobset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set jobset.JobSet
	docs := bytes.Split(text, []byte("\n---\n"))
	if err := yaml.Unmarshal(docs[len(docs)-1], &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Spec.FailurePolicy.Rules) == 0 {
		t.Error("no rules")
	}
	for _, r := range set.Spec.FailurePolicy.Rules {
		if !ruleName.MatchString(r.Name) {
			t.Errorf("%q does not match %s", r.Name, ruleName)
		}
	}
}

// What is wrong in a manifest is found.
func TestWrongManifestsAreFound(t *testing.T) {
	s := schemas(t)
	for _, c := range []struct{ file, from, to string }{
		{"job.yaml", "completionMode: Indexed", "completionMode: [Indexed]"},
		{"job.yaml", "backoffLimit:", "backofLimit:"},
		{"job.yaml", "      - name: gradlab\n        image:", "      - image:"},
		{"job.yaml", "publishNotReadyAddresses: true", "publishUnreadyAddresses: true"},
		{"job.yaml", "- action: FailJob", "- reaction: FailJob"},
		{"jobset.yaml", "action: FailJobSet", "action: FailAll"},
		{"jobset.yaml", "maxRestarts: 10", "maxRestarts: ten"},
		{"jobset.yaml", "  - name: ranks\n    replicas: 1", "  - replicas: 1"},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		wrong := strings.Replace(string(text), c.from, c.to, 1)
		if wrong == string(text) {
			t.Fatalf("%s has no %q", c.file, c.from)
		}
		if _, problems := check(t, []byte(wrong), s); len(problems) == 0 {
			t.Errorf("%s with %q for %q passes", c.file, c.to, c.from)
		}
	}
}
