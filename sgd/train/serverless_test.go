package train_test

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
)

// Without servers, what only servers give a meaning is refused with the value that
// is allowed; with them it is taken.
func TestServerlessRefuses(t *testing.T) {
	t.Parallel()
	served := map[string]option{
		"set policy=bsp":                policy("asp"),
		"set corrector=none":            corrector("alpha_tau"),
		"set down_codec=raw":            down("bf16"),
		"take gap out of observe":       func(j *train.Job) { j.Gap = true },
		"take order_log out of observe": func(j *train.Job) { j.LogOrder = true },
	}
	for _, text := range []string{"reduce", "gather", "localsgd", "dpsgd", "sgp", "choco", "adpsgd", "agp", "hogwild", "server"} {
		for want, opt := range served {
			j := job(t, mode(text), graph("ring"))
			opt(j)
			j.Prepare()
			err := j.Check()
			ok := text == "server"
			if ok != (err == nil) || !ok && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mode "+text)) {
				t.Errorf("mode %s, not %s: %v", text, want, err)
			}
		}
	}
}
