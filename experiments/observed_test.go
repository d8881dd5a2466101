package experiments

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// ways are runs whose trajectories are made by different hands, some of which hang
// on the order of events.
var ways = map[string][]string{
	"server":      {"mode=server", "policy=bsp"},
	"asp":         {"mode=server", "policy=asp", "servers=2", "device.law=lognormal(sigma=0.3)"},
	"softsync":    {"mode=server", "policy=softsync(n=2)", "device.law=lognormal(sigma=0.3)", "corrector=dcasgd"},
	"overlap":     {"mode=server", "policy=asp", "overlap=buckets", "device.law=lognormal(sigma=0.3)"},
	"rudra":       {"mode=rudra(tree=2)", "policy=softsync(n=2)", "device.law=lognormal(sigma=0.3)"},
	"reduce":      {"mode=reduce", "codec=feedback(topk(keep=0.1))"},
	"cycle":       {"mode=reduce", "overlap=fusion(cycle=1ms)"},
	"localsgd":    {"mode=localsgd(h=3)"},
	"downpour":    {"mode=downpour(n_push=2)", "policy=asp", "device.law=lognormal(sigma=0.3)"},
	"easgd":       {"mode=easgd(tau=2)", "policy=asp", "device.law=lognormal(sigma=0.3)"},
	"sandblaster": {"mode=sandblaster", "steps=4"},
	"sgp":         {"mode=sgp", "graph=one_peer"},
	"adpsgd":      {"mode=adpsgd", "device.law=lognormal(sigma=0.3)"},
	"agp":         {"mode=agp", "graph=one_peer", "device.law=lognormal(sigma=0.3)"},
}

// Runs that differ in an observed key alone have the same bits, bytes and virtual
// times, whatever makes their trajectory; and a record tells what was asked of it.
func TestObservedKeysChangeNothing(t *testing.T) {
	patience.Virtual(t)
	for name, keys := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := mustExecute(t, append(keys, "eval_every=0")...)
			for _, k := range config.Keys() {
				if k.Effect() != config.Observed {
					continue
				}
				for _, right := range valuesToTry(k) {
					keys := append(keys[:len(keys):len(keys)], "eval_every=0", k.Name+"="+right)
					is, err := execute(t, t.TempDir(), false, keys...)
					if err != nil {
						if bad := new(config.Error); errors.As(err, &bad) {
							continue // it does not go with this mode
						}
						t.Fatalf("%s: %v", k.Name, err)
					}
					if is.ParamsSHA256 != was.ParamsSHA256 || is.VirtualSeconds != was.VirtualSeconds || is.BytesUp != was.BytesUp || is.BytesDown != was.BytesDown {
						t.Errorf("%s=%s: %.8s in %v, %d and %d bytes; without it %.8s in %v, %d and %d", k.Name, right,
							is.ParamsSHA256, is.VirtualSeconds, is.BytesUp, is.BytesDown, was.ParamsSHA256, was.VirtualSeconds, was.BytesUp, was.BytesDown)
					}
				}
			}
		})
	}
}

// valuesToTry are values of an observed key away from its default, all that it has words for.
func valuesToTry(k config.Key) (values []string) {
	switch {
	case k.Name == "observe":
		for _, o := range config.Observations() {
			values = append(values, o.Spec)
		}
	case k.Name == "metric":
		values = []string{"loss"}
	case k.Name == "target":
		values = []string{"0.25", "loss<=1.5", "0.9best"}
	case k.OneOf() != nil:
		values = slices.DeleteFunc(k.OneOf(), func(word string) bool { return word == k.Default })
	default:
		values = []string{map[string]string{"int": "3", "float64": "0.25", "bool": strconv.FormatBool(k.Default == "false")}[k.Type]}
	}
	return values
}

// A finished run is not made again for another target, which is looked up in its
// evaluations, and is for evaluations that it lacks.
func TestAnotherTargetIsNoOtherRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := execute(t, dir, false, "target=0.99")
	if err != nil || first.TargetReached {
		t.Fatal(first, err)
	}
	again, err := execute(t, dir, true, "target=0.05")
	if err != nil {
		t.Fatal(err)
	}
	if again.Folder != first.Folder || !again.TargetReached || again.Target != 0.05 || again.TargetSeconds != again.Evals[0].Seconds {
		t.Errorf("%s beside %s: target %v, %v at %v", again.Folder, first.Folder, again.Target, again.TargetReached, again.TargetSeconds)
	}
	finer, err := execute(t, dir, true, "eval_every=2")
	if err != nil {
		t.Fatal(err)
	}
	if finer.Folder == first.Folder || len(finer.Evals) != 6 || finer.ParamsSHA256 != first.ParamsSHA256 {
		t.Errorf("%s: %d evaluations", finer.Folder, len(finer.Evals))
	}
}
