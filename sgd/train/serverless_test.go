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
		"policy=bsp":       policy("asp"),
		"corrector=none":   corrector("alpha_tau"),
		"down_codec=raw":   down("bf16"),
		"gap=false":        func(j *train.Job) { j.Gap = true },
		"order_log=false,": func(j *train.Job) { j.LogOrder = true },
	}
	for _, text := range []string{"reduce", "gather", "localsgd", "dpsgd", "sgp", "choco", "adpsgd", "agp", "hogwild", "server"} {
		for want, opt := range served {
			j := job(t, mode(text), graph("ring"))
			opt(j)
			j.Prepare()
			err := j.Check()
			ok := text == "server"
			if want == "order_log=false," && text != "adpsgd" && text != "agp" && text != "hogwild" {
				ok = true // one order is as good as another: replays need no log
			}
			if ok != (err == nil) || !ok && (!strings.Contains(err.Error(), "set "+want) || !strings.Contains(err.Error(), "mode "+text)) {
				t.Errorf("mode %s, not %s: %v", text, want, err)
			}
		}
	}
}
