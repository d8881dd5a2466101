// Package config says what a run is: keys and their values with units, recipes and
// what they inherit, ranges, hints for what is spelled wrong; and it makes of a
// configuration the job that is trained, the net it runs on and what its codecs cost.
// It makes no run and writes no file.
package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Config is everything that decides a run. Each field's key is the same on the
// command line, in a recipe, in the run's record and in its result; its effect
// says what it can change (see [Effect]). Spec text stays text here: a Config is
// comparable and prints as it was read.
type Config struct {
	Model         string      `key:"model" effect:"trajectory" doc:"what is trained (gradlab list models)"`
	Init          string      `key:"init" effect:"trajectory" doc:"first weights: a safetensors file with PyTorch's names and shapes (gradlab help weights), or the model.safetensors of a run; none: the model's own, by seed"`
	Data          string      `key:"data" effect:"trajectory" doc:"what it is trained on (gradlab list data)"`
	Optimizer     string      `key:"optimizer" effect:"trajectory" doc:"update rule, applied where the parameters live"`
	Schedule      string      `key:"schedule" effect:"trajectory" doc:"learning rate over time"`
	Codec         string      `key:"codec" effect:"trajectory" doc:"how gradients are encoded"`
	DownCodec     string      `key:"down_codec" effect:"trajectory" doc:"how parameters are encoded on their way to workers"`
	Mode          string      `key:"mode" effect:"trajectory" doc:"who adds gradients up, or averages parameters (gradlab list modes)"`
	Policy        string      `key:"policy" effect:"trajectory" doc:"when a server applies a gradient and answers"`
	Corrector     string      `key:"corrector" effect:"trajectory" doc:"what staleness does to a gradient's learning rate"`
	Topology      string      `key:"topology" effect:"trajectory" doc:"plan of all-reduces in mode reduce"`
	Graph         string      `key:"graph" effect:"trajectory" doc:"who talks to whom in the modes that gossip"`
	Outer         string      `key:"outer" effect:"trajectory" doc:"mode localsgd: rule applied to the mean of pseudo-gradients; its rate is the mode's lr"`
	Placement     string      `key:"placement" effect:"trajectory" doc:"how tensors are spread over servers"`
	Net           string      `key:"net" effect:"environment" oneof:"local,grpc,mpi,sim" doc:"where ranks run: local (goroutines), grpc (processes), mpi (processes that mpirun starts, in a program built with tag mpi), sim (a virtual cluster)"`
	Links         string      `key:"links" effect:"environment" on:"grpc" oneof:"auto,grpc,shm" doc:"net=grpc: what processes of one host talk through; auto is shared memory where it can be had; between hosts it is always gRPC, and shm an error"`
	Workers       int         `key:"workers" effect:"trajectory" min:"1" max:"65536" doc:"replicas that compute gradients; net=grpc without another launcher runs them all on this machine, a process each; net=mpi is one process for each, and for each server, started by mpirun"`
	Servers       int         `key:"servers" effect:"trajectory" min:"1" max:"65535" doc:"parameter-server shards, one a rank"`
	Batch         int         `key:"batch" effect:"trajectory" min:"1" doc:"samples per worker and step"`
	BatchSchedule string      `key:"batch_schedule" effect:"trajectory" doc:"how the batch changes over a run in step, in multiples of batch; learning rates stay those of the first (gradlab list batch-schedules)"`
	SideSchedule  string      `key:"side_schedule" effect:"trajectory" doc:"how the side of training pictures changes over a run, in pixels up to the size of the data set, at which evaluations are (gradlab list side-schedules)"`
	Accumulate    int         `key:"accumulate" effect:"trajectory" min:"1" doc:"micro-batches in which a worker computes its batch, one behind the other, to save memory: their gradients add up to that of the batch, up to rounding; a batch norm sees one micro-batch at a time"`
	Steps         int         `key:"steps" effect:"trajectory" min:"0" doc:"updates of the parameters; 0: as many as epochs needs"`
	Epochs        float64     `key:"epochs" effect:"trajectory" min:"0" doc:"passes over the training set; 0: as many as steps makes"`
	Seed          uint64      `key:"seed" effect:"trajectory" doc:"of everything random"`
	EvalEvery     int         `key:"eval_every" effect:"observed" min:"0" doc:"updates between evaluations; 0: only at the end"`
	Metric        string      `key:"metric" effect:"observed" doc:"what tells on the test set which run is better: the name of a metric of the model, such as accuracy, or loss, of which less is better; first: the one that the model names first; target=loss<=1.9 sets it"`
	Target        record.Goal `key:"target" effect:"observed" doc:"value on the test set whose first reach is reported: of the metric that key metric names, as 0.95, or of another one, as NAME>=x, or NAME<=x where less is better: loss<=1.9; 0.95best is a share of the best that any of the runs compared reaches; 0: none"`
	Until         string      `key:"until" effect:"trajectory" oneof:"end,target,plateau" doc:"where a run ends: end, with the last of its steps; target, at the evaluation that first reaches target; plateau, at the fifth evaluation in a row without a new best value of key metric; the values and parameters of that evaluation are its result"`
	Dropout       float64     `key:"dropout" effect:"trajectory" min:"-1" max:"0.99" doc:"overrides the model's dropout; -1: the model's own"`
	Precision     string      `key:"precision" effect:"trajectory" oneof:"float32,bfloat16,float16" doc:"how passes store activations, and what products read; sums, parameters and gradients are float32"`
	LossScale     float64     `key:"loss_scale" effect:"trajectory" min:"0" doc:"factor on the loss while gradients are computed, halved where float16 overflows; 0: 1024 for float16, else 1"`
	Winograd      bool        `key:"winograd" effect:"trajectory" doc:"3×3 and 5×5 convolutions at stride 1 by Winograd's algorithm where it is faster; its rounding errors are two to five times as large"`
	Threads       int         `key:"threads" effect:"environment" min:"0" doc:"goroutines one worker's pass may use; as many workers compute at once as cores allow; 0: the cores shared out among the workers of a machine"`

	TrainLimit int  `key:"train_limit" effect:"trajectory" min:"0" doc:"use only so many samples of the training set, the same for every seed; 0: all"`
	TestLimit  int  `key:"test_limit" effect:"trajectory" min:"0" doc:"use only so many samples of the test set, the same for every seed; 0: all"`
	Augment    bool `key:"augment" effect:"trajectory" doc:"random crops and flips of training images"`

	Validation float64 `key:"validation" effect:"trajectory" min:"0" max:"0.9" doc:"share of the training set that is held out, the same samples for every seed, and evaluated on instead of the test set, for choosing among configurations; 0: none"`

	Unreadable float64 `key:"unreadable" effect:"trajectory" min:"0" max:"1" doc:"share of a set's pictures that may be broken: they are counted, named and left out, and more end the run; 0: none may"`

	Overlap         bool   `key:"overlap" effect:"trajectory" doc:"gradients leave during the backward pass, parameters arrive during the forward pass"`
	Bucket          int    `key:"bucket" effect:"trajectory" min:"0" doc:"bytes of gradients exchanged together when reduce overlaps; 0: 1 MiB, or 64 MiB with cycle"`
	Cycle           string `key:"cycle" effect:"trajectory" unit:"duration" doc:"tensor fusion: every so often ranks that overlap without servers exchange what tensors all have ready, at most bucket bytes at once; 0s: buckets are fixed"`
	Priority        bool   `key:"priority" effect:"trajectory" doc:"ranks that overlap without servers exchange buckets of the first layers first, and begin the next forward pass as soon as these are there"`
	Partition       int    `key:"partition" effect:"trajectory" min:"0" doc:"bytes above which a tensor is cut, where ranks overlap without servers, into pieces that are exchanged by themselves; 0: never"`
	BNGroup         int    `key:"bn_group" effect:"trajectory" min:"0" doc:"successive workers whose batch norms share statistics, as one worker on all their batches, in modes reduce and gather; 1: each has its own, 0: all share"`
	EMA             string `key:"ema" effect:"trajectory" doc:"a moving average of the parameters, which is evaluated and kept at the end, while training goes on from the parameters themselves: on(decay=0.999,every=1) (gradlab list averages); none"`
	NonFinite       string `key:"nonfinite" effect:"trajectory" oneof:"fail,zero" doc:"what a gradient with NaN or Inf does"`
	Observe         string `key:"observe" effect:"observed" doc:"what a run records of itself beside its evaluations: one word, or a list such as [gap,trace], of gap, noise_scale, order_log and trace (gradlab list observations); none"`
	CheckpointEvery int    `key:"checkpoint_every" effect:"trajectory" min:"0" doc:"worker steps between the marks at which a checkpoint is kept, and asynchronous runs on sim come to rest, by which their bits change; 0: a checkpoint every five minutes and just before the end where that changes nothing, and at a stop, but none where nobody waits on sim"`

	Elastic string `key:"elastic" effect:"trajectory" doc:"whether a run goes on when workers leave or join it: none, or on, with options min_workers, max_restarts and on_resize (gradlab list elasticities). A worker that dies does not end a run in step: the step in flight is void, and the others make it again without it; in asynchronous runs workers come in at once, where the mode can (docs/faults.md)"`

	Timing           string     `key:"timing" effect:"environment" on:"virtual" doc:"whose operations the virtual clock bills: model, a profile (gradlab list profiles), layers of yours (./layers.yaml, or the folder of a run), or another model on the same samples; of equal names the profile is meant"`
	Weightless       bool       `key:"weightless" effect:"trajectory" doc:"computes nothing: frames of the sizes of the timing profile with nothing in them, for the times and bytes of clusters of any size; net=sim only"`
	Cluster          string     `key:"cluster" effect:"environment" on:"virtual" doc:"sets the keys device, transport, node, device.*, network.* and constants.* by the sheet of a known cluster (gradlab list clusters), or by one of yours, ./mine.yaml, which keys beside it then change; on a command line it replaces what the recipe says of them; none"`
	Transport        string     `key:"transport" effect:"environment" on:"virtual" doc:"how software moves bytes and how much longer steps take for it: sets constants and device.law to what was measured (gradlab list transports), where a cluster does not say otherwise; keys beside it then change. Unsaid it is unknown on net=sim, but for a known cluster, whose devices were rated with their software; ideal: software takes nothing"`
	Node             string     `key:"node" effect:"environment" on:"virtual" doc:"how the devices of a host reach each other and its NIC, such as by NVLink or PCIe: sets network.inside and constants to what was measured (gradlab list nodes), where a cluster does not say otherwise; keys beside it then change; none"`
	Device           string     `key:"device" effect:"environment" on:"virtual" doc:"a known device whose rate on the timing profile takes the place of device.flops (gradlab list devices); none"`
	DeviceFLOPS      float64    `key:"device.flops" effect:"environment" on:"virtual" unit:"flops" min:"1" doc:"speed of a virtual device, operations per second"`
	DeviceLaw        string     `key:"device.law" effect:"environment" on:"virtual" doc:"distribution of a step's compute time around its mean, such as lognormal(sigma=0.1) (gradlab list laws)"`
	DeviceSlow       string     `key:"device.slow" effect:"environment" on:"virtual" doc:"workers slower than the others for good, the last ones: 1x10 is one that takes ten times as long, 1x100+3x2 four; lognormal(sigma=0.3) draws a factor for each worker; none"`
	Faults           string     `key:"faults" effect:"environment" doc:"what happens to ranks and links during a run, joined by +: at instants, kill(w2,at=2s)+pause(s0,at=1s,for=300ms), by a law, poisson(every=1m), or before steps, leave(w2,before=40)+join(w2,before=60) (gradlab list faults); none; on net=sim all of them, on net=grpc kill, rejoin and pause of processes that gradlab starts; leave, join and rejoin with elastic=on only, leave and join on every net of such runs"`
	DeviceCodec      string     `key:"device.codec" effect:"environment" on:"virtual" doc:"how long codecs take on a virtual device (gradlab help codec-time): measured, at rates measured on a core, scaled to the device; a table's name or file, or here, on this machine; 40xmeasured: so many times as fast; 1GB/s: whatever the codec; free"`
	NetworkBandwidth float64    `key:"network.bandwidth" effect:"environment" on:"virtual" unit:"bandwidth" min:"1" doc:"of a virtual NIC, each direction: 1Gbps, 125MB/s; a bare number is bytes per second"`
	NetworkLatency   string     `key:"network.latency" effect:"environment" on:"virtual" unit:"duration" doc:"one way between virtual NICs"`
	NetworkPerHost   int        `key:"network.per_host" effect:"environment" min:"1" doc:"workers on one virtual host, sharing its NIC; servers have hosts of their own, as many on each; what topologies take for a node"`
	NetworkInside    float64    `key:"network.inside" effect:"environment" on:"virtual" unit:"bandwidth" min:"1" doc:"between ranks of one host, of each rank and direction"`
	NetworkRack      int        `key:"network.rack" effect:"environment" on:"virtual" min:"0" doc:"hosts in a rack; 0: no racks"`
	NetworkOversub   float64    `key:"network.oversubscription" effect:"environment" on:"virtual" min:"1" doc:"NICs of a rack over its link to the core"`
	Constants        Constants  `key:"constants" effect:"environment" on:"virtual" doc:"what software and hardware take of bytes and steps, such as constants.share=0.8 for one of them (gradlab help ideal); sheets of clusters, transports and nodes set them"`
	Emulate          bool       `key:"emulate" effect:"environment" doc:"net=local and net=grpc: every rank gets a NIC and a device of its own on the real clock: network.bandwidth and latency, constants.message, timing and device.* hold as on the virtual cluster; processes of one machine only"`
	known            *knowledge // of its cluster, in memory alone
}

// Default is the configuration that a recipe's keys are laid over. Its transport is the
// ideal one; a recipe that names none is on transport unknown where it is simulated.
func Default() Config {
	return Config{
		Model: "mlp", Init: "none", Data: "digits", Optimizer: "sgd", Schedule: "constant(lr=0.1)",
		Codec: "raw", DownCodec: "raw", Mode: "server", Policy: "bsp", Corrector: "none",
		Topology: "ring", Graph: "ring", Outer: "sgd", Placement: "greedy", Net: "sim", Links: "auto", Workers: 4, Servers: 1, Batch: 32, BatchSchedule: "fixed", SideSchedule: "fixed", Accumulate: 1,
		Epochs: 1, Seed: 1, Metric: sgd.First, Until: "end", Dropout: -1, Precision: "float32", Winograd: true, Cycle: "0s", BNGroup: 1, Elastic: "none", EMA: "none", NonFinite: "fail", Observe: "none", Unreadable: 0.001,
		Timing: "model", DeviceFLOPS: 1e11, DeviceCodec: codecsMeasured, Cluster: "none", Device: "none", DeviceLaw: "constant", DeviceSlow: "none", Faults: "none", NetworkBandwidth: 1e9 / 8, NetworkLatency: "50µs",
		Constants: idealConstants, Transport: idealTransport, Node: "none", NetworkPerHost: 1, NetworkInside: 1e10, NetworkOversub: 1,
	}
}

// Key describes one key for listings and messages.
type Key struct {
	Name, Type, Default, Doc string
	field                    int
	tag                      reflect.StructTag
}

// Keys lists all keys in the order of Config.
func Keys() []Key { return slices.Clone(allKeys()) }

var allKeys = sync.OnceValue(func() []Key {
	def := reflect.ValueOf(Default())
	var out []Key
	for i := 0; i < def.NumField(); i++ {
		f := def.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		typ := f.Type.String()
		if u := f.Tag.Get("unit"); u != "" {
			typ = u
		} else if f.Type.Kind() == reflect.Struct {
			typ = "string" // its text
		}
		out = append(out, Key{f.Tag.Get("key"), typ, formatValue(def.Field(i)), f.Tag.Get("doc"), i, f.Tag})
	}
	return out
})

// OneOf lists the words a key may have; none if it is no such key.
func (k Key) OneOf() []string {
	if one := k.tag.Get("oneof"); one != "" {
		return strings.Split(one, ",")
	}
	return nil
}

func keyNames() []string {
	var out []string
	for _, k := range Settings() {
		out = append(out, k.Name)
	}
	return out
}

func findKey(name string) (Key, bool) {
	for _, k := range allKeys() {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

// UnknownKey words the message for a key that does not exist.
func UnknownKey(name string) error {
	if h := Hint(name); h != "" {
		return fmt.Errorf("unknown key %q; %s", name, h)
	}
	near := registry.Nearest(name, keyNames())
	for _, k := range constantKeys() {
		if strings.HasSuffix("."+name, strings.TrimPrefix(k.Name, constantsKey)) {
			near = k.Name
		}
	}
	if near != "" {
		near = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("unknown key %q; %sgradlab list keys shows them all", name, near)
}

// Set gives a key a value written as text, with its unit if it has one. The
// error names the key, what was given and what is allowed.
func (c *Config) Set(name, text string) error {
	name = strings.ToLower(name)
	if isPart(name) {
		return c.setPart(name, strings.TrimSpace(text))
	}
	k, ok := findKey(name)
	if !ok {
		return UnknownKey(name)
	}
	f := reflect.ValueOf(c).Elem().Field(k.field)
	text = strings.TrimSpace(text)
	before := map[string]string{"transport": c.Transport, "node": c.Node}
	var err error
	switch k.tag.Get("unit") {
	case "bandwidth":
		var v float64
		if v, err = parseBandwidth(text); err == nil {
			f.SetFloat(v)
		}
	case "flops":
		var v float64
		if v, err = parseScaled(text, "FLOPS", "FLOP/s"); err == nil {
			f.SetFloat(v)
		}
	case "duration":
		if d, bad := time.ParseDuration(text); bad == nil {
			text = d.String()
		}
		f.SetString(text)
	default:
		err = setValue(f, text)
	}
	if k.Name == "cluster" && err == nil {
		err = c.join(text)
		if hardware.IsFile(text) { // what a run keeps needs no file of others
			text = "none"
			f.SetString(text)
		}
	}
	if was, ok := before[k.Name]; ok && err == nil {
		err = c.takeOver(k.Name, was, text)
	}
	if check := specs[k.Name]; check != nil && err == nil {
		_, err = check(text)
		err = hinted(err)
	}
	if err == nil {
		err = k.inRange(f)
	}
	if k.Name == "target" && c.Target.Metric.Name != "" {
		c.Metric = c.Target.Metric.Name
	}
	if err != nil {
		return fmt.Errorf("key %q: %w", k.Name, err)
	}
	return nil
}

// setValue reads the text of a field of Config.
func setValue(f reflect.Value, text string) error {
	if into, ok := f.Addr().Interface().(*Constants); ok {
		all, err := Ideal.Parse(text)
		if err == nil {
			*into = all
		}
		return err
	}
	return registry.SetScalar(f, text)
}

// inRange refuses a value that the key's tags rule out.
func (k Key) inRange(f reflect.Value) error {
	if all, ok := f.Interface().(Constants); ok {
		return all.Validate()
	}
	if k.tag.Get("unit") == "duration" && f.Kind() == reflect.String {
		if d, err := time.ParseDuration(f.String()); err != nil || d < 0 {
			return fmt.Errorf("want a duration such as 50us or 1.5ms, not %q", f.String())
		}
	}
	if one := k.tag.Get("oneof"); one != "" {
		if all := strings.Split(one, ","); !contains(all, f.String()) {
			return fmt.Errorf("want %s, not %q", strings.Join(all, " or "), f.String())
		}
	}
	var x float64
	switch {
	case f.Type() == reflect.TypeFor[time.Duration]() && f.Int() < 0:
		return fmt.Errorf("want a duration such as 50us or 1.5ms, not %v", f.Interface())
	case f.CanInt():
		x = float64(f.Int())
	case f.CanFloat():
		x = f.Float()
	default:
		return nil
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return fmt.Errorf("want a finite number")
	}
	if lo := k.tag.Get("min"); lo != "" {
		if v, _ := strconv.ParseFloat(lo, 64); x < v {
			return fmt.Errorf("want at least %s, not %v", lo, f.Interface())
		}
	}
	if hi := k.tag.Get("max"); hi != "" {
		if v, _ := strconv.ParseFloat(hi, 64); x > v {
			return fmt.Errorf("want at most %s, not %v", hi, f.Interface())
		}
	}
	return nil
}

func contains(all []string, s string) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}

// Get returns a key's value as text, the form Set reads.
func (c Config) Get(name string) string {
	if isPart(name) {
		return c.getPart(name)
	}
	k, ok := findKey(name)
	if !ok {
		return ""
	}
	return formatValue(reflect.ValueOf(c).Field(k.field))
}

func formatValue(v reflect.Value) string {
	if all, ok := v.Interface().(Constants); ok {
		return Ideal.Spec(all)
	}
	switch v.Kind() {
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// YAML writes every key, in the order of Config: what a run folder keeps as
// its resolved configuration, and what can be run again.
func (c Config) YAML() []byte {
	root := yaml.Node{Kind: yaml.MappingNode}
	v := reflect.ValueOf(c)
	for _, k := range Keys() {
		val := &yaml.Node{}
		f := v.Field(k.field)
		if k.Name == constantsKey { // each, so that a transport beside them changes none
			for _, one := range constantKeys() {
				root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: one.Name}, &yaml.Node{Kind: yaml.ScalarNode, Value: c.Get(one.Name)})
			}
			continue
		}
		if k.Name == "target" {
			_ = val.Encode(c.Target.Scalar())
		} else if k.tag.Get("unit") == "bandwidth" && 0 < f.Float() && f.Float() < bareBandwidth { // Set wants its unit
			_ = val.Encode(formatValue(f) + "B/s")
		} else {
			_ = val.Encode(f.Interface())
		}
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: k.Name}, val)
	}
	b, _ := yaml.Marshal(&root)
	return b
}

// Map gives every key's value, for JSON.
func (c Config) Map() map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(c)
	for _, k := range Keys() {
		out[k.Name] = v.Field(k.field).Interface()
		switch k.Name {
		case constantsKey:
			out[k.Name] = c.Get(k.Name)
		case "target":
			out[k.Name] = c.Target.Scalar()
		}
	}
	return out
}

// ParseConfig reads a resolved configuration, as a run's folder keeps it: keys
// it does not have take their defaults, keys that are unknown here are returned
// beside it, as text. Values are not checked: what was once in range may not be.
func ParseConfig(b []byte) (c Config, unknown map[string]string, err error) {
	var keys map[string]any
	if err := yaml.Unmarshal(b, &keys); err != nil {
		return c, nil, err
	}
	c, unknown = Default(), map[string]string{}
	var errs []error
	for name, v := range keys {
		text := fmt.Sprint(v)
		if f, ok := v.(float64); ok {
			text = strconv.FormatFloat(f, 'g', -1, 64)
		}
		if isPart(name) {
			if err := c.setPart(name, text); err != nil {
				errs = append(errs, err)
			}
			continue
		}
		k, ok := findKey(name)
		if !ok {
			unknown[name] = text
			continue
		}
		if k.tag.Get("unit") == "bandwidth" {
			text = strings.TrimSuffix(text, "B/s")
		}
		if err := setValue(reflect.ValueOf(&c).Elem().Field(k.field), text); err != nil {
			errs = append(errs, fmt.Errorf("key %q: %w", name, err))
		}
	}
	c.DeviceCodec = Canonical("device.codec", c.DeviceCodec)          // once a number
	if slices.Contains(hardware.Names(hardware.Cluster), c.Cluster) { // those of files are as they were when it was recorded
		cl, err := hardware.Load(hardware.Cluster, c.Cluster)
		if err == nil {
			c.known, err = knownOf(cl)
		}
		errs = append(errs, err)
	}
	return c, unknown, errors.Join(errs...)
}

// parseScaled reads a number with an optional SI prefix and one of the units.
func parseScaled(text string, units ...string) (float64, error) {
	s := text
	for _, u := range units {
		if len(s) > len(u) && strings.EqualFold(s[len(s)-len(u):], u) {
			s = s[:len(s)-len(u)]
			break
		}
	}
	s = strings.TrimSpace(s)
	scale := 1.0
	if s != "" {
		if i := strings.IndexByte("kMGTP", s[len(s)-1]); i >= 0 {
			scale = portable.Pow(1000, float64(i+1))
			s = strings.TrimSpace(s[:len(s)-1])
		} else if s[len(s)-1] == 'K' {
			scale, s = 1000, strings.TrimSpace(s[:len(s)-1])
		}
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(x) {
		return 0, fmt.Errorf("want a number such as 1e11 or 100G%s, not %q", units[0], text)
	}
	return x * scale, nil
}

// bareBandwidth is the least bandwidth, in bytes per second, that may be written
// without a unit.
const bareBandwidth = 1000

// parseBandwidth reads bits per second (1Gbps, 10 Gb/s, 100Mbit/s) or bytes per
// second (125MB/s, a bare number) and returns bytes per second.
func parseBandwidth(text string) (float64, error) {
	bad := fmt.Errorf("want bits per second such as 1Gbps, or bytes per second such as 125MB/s or 1.25e8, not %q", text)
	for _, u := range []string{"bps", "bit/s", "b/s", "B/s"} {
		if !strings.HasSuffix(text, u) {
			continue
		}
		x, err := parseScaled(strings.TrimSuffix(text, u), "")
		if err != nil {
			return 0, bad
		}
		if u == "B/s" {
			return x, nil
		}
		return x / 8, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) {
		return 0, bad
	}
	if 0 < x && x < bareBandwidth { // no link is that slow; folders keep more, in full
		return 0, fmt.Errorf("%s means %s bytes a second; write the unit, such as %sGbps, %sMB/s or %sB/s", text, text, text, text, text)
	}
	return x, nil
}

// Error says that a configuration cannot run, though each of its keys is
// right by itself.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }
