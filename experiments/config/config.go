// Package config says what a run is: keys and their values with units, recipes and
// what they inherit, ranges, hints for what is spelled wrong; and it makes of a
// configuration the job that is trained, the net it runs on and what its codecs cost.
// It makes no run and writes no file.
package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Config is everything that decides a run. Each field's key is the same on the
// command line, in a recipe, in the run's record and in its result; its effect
// says what it can change (see [Effect]). Spec text stays text here: a Config is
// comparable and prints as it was read. [Config.Resolve] checks it and reads its texts.
//
// Tags say everything else of a key: default, its value where a recipe gives none; spec, the
// kind of its text (see languages); job, the field of [train.Job] that it fills; unit, min,
// max and oneof, its range; on, the nets that heed it; alone:"kept", that one worker alone
// has it too (see [Config.Alone]).
type Config struct {
	Model         string      `key:"model" default:"mlp" spec:"model" effect:"trajectory" alone:"kept" doc:"what is trained (gradlab list models)"`
	Init          string      `key:"init" default:"none" spec:"file" effect:"trajectory" alone:"kept" doc:"first weights: a safetensors file with PyTorch's names and shapes (gradlab help weights), or the model.safetensors of a run; none: the model's own, by seed"`
	Data          string      `key:"data" default:"digits" spec:"data" effect:"trajectory" alone:"kept" doc:"what it is trained on (gradlab list data)"`
	Optimizer     string      `key:"optimizer" default:"sgd" spec:"optimizer" job:"Optimizer" effect:"trajectory" alone:"kept" doc:"update rule, applied where the parameters live"`
	Schedule      string      `key:"schedule" default:"constant(lr=0.1)" spec:"schedule" job:"Schedule" effect:"trajectory" alone:"kept" doc:"learning rate over time"`
	Codec         string      `key:"codec" default:"raw" spec:"codec" job:"Codec" effect:"trajectory" doc:"how gradients are encoded"`
	DownCodec     string      `key:"down_codec" default:"raw" spec:"codec" job:"DownCodec" effect:"trajectory" doc:"how parameters are encoded on their way to workers"`
	Mode          string      `key:"mode" default:"server" spec:"mode" job:"Mode" effect:"trajectory" doc:"who adds gradients up, or averages parameters (gradlab list modes)"`
	Policy        string      `key:"policy" default:"bsp" spec:"policy" job:"Policy" effect:"trajectory" doc:"when a server applies a gradient and answers"`
	Corrector     string      `key:"corrector" default:"none" spec:"corrector" job:"Corrector" effect:"trajectory" doc:"what staleness does to a gradient's learning rate"`
	Topology      string      `key:"topology" default:"ring" spec:"topology" job:"Topology" effect:"trajectory" doc:"plan of all-reduces in mode reduce"`
	Graph         string      `key:"graph" default:"ring" spec:"graph" job:"Graph" effect:"trajectory" doc:"who talks to whom in the modes that gossip"`
	Outer         string      `key:"outer" default:"sgd" spec:"optimizer" job:"Outer" effect:"trajectory" doc:"mode localsgd: rule applied to the mean of pseudo-gradients; its rate is the mode's lr"`
	Placement     string      `key:"placement" default:"greedy" spec:"placement" job:"Placement" effect:"trajectory" doc:"how tensors are spread over servers"`
	Net           string      `key:"net" default:"sim" spec:"net" effect:"environment" doc:"where ranks run: local (goroutines), grpc (processes), mpi (processes that mpirun starts, in a program built with tag mpi), sim (a virtual cluster); gradlab list nets"`
	Links         string      `key:"links" default:"auto" effect:"environment" on:"launched" oneof:"auto,shm,tcp,grpc" doc:"net=grpc: what frames go through: shared memory on one host, a TCP connection beside gRPC, or gRPC; auto is the first of these that can be had, each other one itself or an error"`
	Workers       int         `key:"workers" default:"4" job:"Workers" effect:"trajectory" min:"1" max:"65536" doc:"replicas that compute gradients; net=grpc without another launcher runs them all on this machine, a process each; net=mpi is one process for each, and for each server, started by mpirun"`
	Servers       int         `key:"servers" default:"1" job:"Servers" effect:"trajectory" min:"1" max:"65535" doc:"parameter-server shards, one a rank"`
	Batch         int         `key:"batch" default:"32" job:"Batch" effect:"trajectory" alone:"kept" min:"1" doc:"samples per worker and step"`
	BatchSchedule string      `key:"batch_schedule" default:"fixed" spec:"batch_schedule" job:"Batches" effect:"trajectory" alone:"kept" doc:"how the batch changes over a run in step, in multiples of batch; learning rates stay those of the first (gradlab list batch-schedules)"`
	SideSchedule  string      `key:"side_schedule" default:"fixed" spec:"side_schedule" job:"Sides" effect:"trajectory" alone:"kept" doc:"how the side of training pictures changes over a run, in pixels up to the size of the data set, at which evaluations are (gradlab list side-schedules)"`
	Accumulate    int         `key:"accumulate" default:"1" job:"Accumulate" effect:"trajectory" alone:"kept" min:"1" doc:"micro-batches in which a worker computes its batch, one behind the other, to save memory: their gradients add up to that of the batch, up to rounding; a batch norm sees one micro-batch at a time"`
	Steps         int         `key:"steps" effect:"trajectory" alone:"kept" min:"0" doc:"updates of the parameters; 0: as many as epochs needs"`
	Epochs        float64     `key:"epochs" default:"1" effect:"trajectory" alone:"kept" min:"0" doc:"passes over the training set; 0: as many as steps makes"`
	Seed          uint64      `key:"seed" default:"1" job:"Seed" effect:"trajectory" alone:"kept" doc:"of everything random"`
	EvalEvery     int         `key:"eval_every" job:"EvalEvery" effect:"observed" min:"0" doc:"updates between evaluations; 0: only at the end"`
	Metric        string      `key:"metric" default:"first" spec:"metric" effect:"observed" doc:"what tells on the test set which run is better: the name of a metric of the model, such as accuracy, or loss, of which less is better; first: the one that the model names first; target=loss<=1.9 sets it"`
	Target        record.Goal `key:"target" spec:"goal" effect:"observed" doc:"value on the test set whose first reach is reported: of the metric that key metric names, as 0.95, or of another one, as NAME>=x, or NAME<=x where less is better: loss<=1.9; 0.95best is a share of the best that any of the runs compared reaches; 0: none"`
	Until         string      `key:"until" default:"end" effect:"trajectory" alone:"kept" oneof:"end,target,plateau" doc:"where a run ends: end, with the last of its steps; target, at the evaluation that first reaches target; plateau, at the fifth evaluation in a row without a new best value of key metric; the values and parameters of that evaluation are its result"`
	Dropout       float64     `key:"dropout" default:"-1" effect:"trajectory" alone:"kept" min:"-1" max:"0.99" doc:"overrides the model's dropout; -1: the model's own"`
	Precision     string      `key:"precision" default:"float32" effect:"trajectory" alone:"kept" oneof:"float32,bfloat16,float16" doc:"how passes store activations, and what products read; sums, parameters and gradients are float32"`
	LossScale     float64     `key:"loss_scale" effect:"trajectory" alone:"kept" min:"0" doc:"factor on the loss while gradients are computed, halved where float16 overflows; 0: 1024 for float16, else 1"`
	Winograd      bool        `key:"winograd" default:"true" effect:"trajectory" alone:"kept" doc:"3×3 and 5×5 convolutions at stride 1 by Winograd's algorithm where it is faster; its rounding errors are two to five times as large"`
	Threads       int         `key:"threads" job:"Threads" effect:"environment" min:"0" doc:"goroutines one worker's pass may use; as many workers compute at once as cores allow; 0: the cores shared out among the workers of a machine"`

	TrainLimit int  `key:"train_limit" effect:"trajectory" alone:"kept" min:"0" doc:"use only so many samples of the training set, the same for every seed; 0: all"`
	TestLimit  int  `key:"test_limit" effect:"trajectory" alone:"kept" min:"0" doc:"use only so many samples of the test set, the same for every seed; 0: all"`
	Augment    bool `key:"augment" effect:"trajectory" alone:"kept" doc:"random crops and flips of training images"`

	Validation float64 `key:"validation" effect:"trajectory" alone:"kept" min:"0" max:"0.9" doc:"share of the training set that is held out, the same samples for every seed, and evaluated on instead of the test set, for choosing among configurations; 0: none"`

	Unreadable float64 `key:"unreadable" default:"0.001" effect:"trajectory" alone:"kept" min:"0" max:"1" doc:"share of a set's pictures that may be broken: they are counted, named and left out, and more end the run; 0: none may"`

	Overlap         string `key:"overlap" default:"none" spec:"overlap" job:"Overlap" effect:"trajectory" doc:"how gradients leave during the backward pass, and parameters arrive during the forward pass: none, buckets(bytes=…), or in modes reduce and gather fusion(cycle=…,bytes=…) or priority(bytes=…), each with partition=… (gradlab list overlaps)"`
	BNGroup         int    `key:"bn_group" default:"1" job:"NormGroup" effect:"trajectory" min:"0" doc:"successive workers whose batch norms share statistics, as one worker on all their batches, in modes reduce and gather; 1: each has its own, 0: all share"`
	EMA             string `key:"ema" default:"none" spec:"average" effect:"trajectory" alone:"kept" doc:"a moving average of the parameters, which is evaluated and kept at the end, while training goes on from the parameters themselves: on(decay=0.999,every=1) (gradlab list averages); none"`
	NonFinite       string `key:"nonfinite" default:"fail" job:"NonFinite" effect:"trajectory" alone:"kept" oneof:"fail,zero" doc:"what a gradient with NaN or Inf does"`
	Observe         string `key:"observe" default:"none" spec:"observations" effect:"observed" doc:"what a run records of itself beside its evaluations: one word, or a list such as [gap,trace], of gap, noise_scale, order_log and trace (gradlab list observations); none"`
	CheckpointEvery int    `key:"checkpoint_every" job:"CheckpointEvery" effect:"trajectory" min:"0" doc:"worker steps between the marks at which a checkpoint is kept, and asynchronous runs on sim come to rest, by which their bits change; 0: a checkpoint every five minutes and just before the end where that changes nothing, and at a stop, but none where nobody waits on sim"`

	Elastic string `key:"elastic" default:"none" spec:"elasticity" effect:"trajectory" doc:"whether a run goes on when workers leave or join it: none, or on, with options min_workers, max_restarts and on_resize (gradlab list elasticities). A worker that dies does not end a run in step: the step in flight is void, and the others make it again without it; in asynchronous runs workers come in at once, where the mode can (docs/faults.md)"`

	Timing           string     `key:"timing" default:"model" spec:"timing" effect:"environment" on:"virtual" doc:"whose operations the virtual clock bills: model, a profile (gradlab list profiles), layers of yours (./layers.yaml, or the folder of a run), or another model on the same samples; of equal names the profile is meant"`
	Weightless       bool       `key:"weightless" job:"Weightless" effect:"trajectory" alone:"kept" doc:"computes nothing: frames of the sizes of the timing profile with nothing in them, for the times and bytes of clusters of any size; net=sim only"`
	Cluster          string     `key:"cluster" default:"none" spec:"cluster" effect:"environment" on:"virtual" doc:"sets the keys device, transport, node, device.*, network.* and constants.* by the sheet of a known cluster (gradlab list clusters), or by one of yours, ./mine.yaml, which keys beside it then change; on a command line it replaces what the recipe says of them; none"`
	Transport        string     `key:"transport" default:"ideal" spec:"transport" effect:"environment" on:"virtual" doc:"how software moves bytes and how much longer steps take for it: sets constants and device.law to what was measured (gradlab list transports), where a cluster does not say otherwise; keys beside it then change. Unsaid it is unknown on net=sim, but for a known cluster, whose devices were rated with their software; ideal: software takes nothing"`
	Node             string     `key:"node" default:"none" spec:"node" effect:"environment" on:"virtual" doc:"how the devices of a host reach each other and its NIC, such as by NVLink or PCIe: sets network.inside and constants to what was measured (gradlab list nodes), where a cluster does not say otherwise; keys beside it then change; none"`
	Device           string     `key:"device" default:"none" spec:"device" effect:"environment" on:"virtual" doc:"a known device whose rate on the timing profile takes the place of device.flops (gradlab list devices); none"`
	DeviceFLOPS      float64    `key:"device.flops" default:"1e11" effect:"environment" on:"virtual" unit:"flops" min:"1" doc:"speed of a virtual device, operations per second"`
	DeviceLaw        string     `key:"device.law" default:"constant" spec:"law" effect:"environment" on:"virtual" doc:"distribution of a step's compute time around its mean, such as lognormal(sigma=0.1) (gradlab list laws)"`
	DeviceSlow       string     `key:"device.slow" default:"none" spec:"slow" effect:"environment" on:"virtual" doc:"workers slower than the others for good, the last ones: 1x10 is one that takes ten times as long, 1x100+3x2 four; lognormal(sigma=0.3) draws a factor for each worker; none"`
	Faults           string     `key:"faults" default:"none" spec:"faults" effect:"environment" doc:"what happens to ranks and links during a run, joined by +: at instants, kill(w2,at=2s)+pause(s0,at=1s,for=300ms), by a law, poisson(every=1m), or before steps, leave(w2,before=40)+join(w2,before=60) (gradlab list faults); none; on net=sim all of them, on net=grpc kill, rejoin and pause of processes that gradlab starts; leave, join and rejoin with elastic=on only, leave and join on every net of such runs"`
	DeviceCodec      string     `key:"device.codec" default:"measured" spec:"codec_time" effect:"environment" on:"virtual" doc:"how long codecs take on a virtual device (gradlab help codec-time): measured, at rates measured on a core, scaled to the device; a table's name or file, or here, on this machine; 40xmeasured: so many times as fast; 1GB/s: whatever the codec; free"`
	NetworkBandwidth float64    `key:"network.bandwidth" default:"1.25e8" effect:"environment" on:"virtual" unit:"bandwidth" min:"1" doc:"of a virtual NIC, each direction: 1Gbps, 125MB/s; a bare number is bytes per second"`
	NetworkLatency   string     `key:"network.latency" default:"50µs" effect:"environment" on:"virtual" unit:"duration" doc:"one way between virtual NICs"`
	NetworkPerHost   int        `key:"network.per_host" default:"1" job:"Node" effect:"environment" min:"1" doc:"workers on one virtual host, sharing its NIC; servers have hosts of their own, as many on each; what topologies take for a node"`
	NetworkInside    float64    `key:"network.inside" default:"1e10" effect:"environment" on:"virtual" unit:"bandwidth" min:"1" doc:"between ranks of one host, of each rank and direction"`
	NetworkRack      int        `key:"network.rack" effect:"environment" on:"virtual" min:"0" doc:"hosts in a rack; 0: no racks"`
	NetworkOversub   float64    `key:"network.oversubscription" default:"1" effect:"environment" on:"virtual" min:"1" doc:"NICs of a rack over its link to the core"`
	Constants        Constants  `key:"constants" default:"ideal" spec:"constants" effect:"environment" on:"virtual" doc:"what software and hardware take of bytes and steps, such as constants.share=0.8 for one of them (gradlab help ideal); sheets of clusters, transports and nodes set them"`
	Emulate          bool       `key:"emulate" effect:"environment" doc:"net=local and net=grpc: every rank gets a NIC and a device of its own on the real clock: network.bandwidth and latency, constants.message, timing and device.* hold as on the virtual cluster; processes of one machine only"`
	known            *knowledge // of its cluster, in memory alone
}

// Default is the configuration that a recipe's keys are laid over: every key has the
// value of its tag. Its transport is the ideal one; a recipe that names none is on
// transport unknown where it is simulated.
func Default() Config { return defaults() }

var defaults = sync.OnceValue(func() (c Config) {
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		text, ok := v.Type().Field(i).Tag.Lookup("default")
		if !ok {
			continue
		}
		if err := setValue(v.Field(i), text); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", v.Type().Field(i).Name, err))
		}
	}
	return c
})

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

// Error says that a configuration cannot run, though each of its keys is
// right by itself.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }
