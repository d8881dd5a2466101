package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/data"
)

// hint is what to type here for what other tools call by these words.
type hint struct {
	words string // apart by spaces; lower_snake
	say   string // one clause; "" if what to try says it all
	try   string // keys and values that can be given to recipe quickstart
}

// keyHints are for words that are taken for keys. Words of flags are not among
// them: the command line knows its flags.
var keyHints = []hint{
	{"lr learning_rate learningrate base_lr init_lr alpha eta", "the learning rate is the schedule's", "schedule=constant(lr=0.1)"},
	{"scheduler lr_schedule lr_scheduler lr_decay decay_rate milestones annealing", "", "schedule=cosine(lr=0.1)"},
	{"warmup warmup_epochs warmup_steps", "warm-up is a schedule around another", "schedule=warmup(cosine(lr=0.1),epochs=5)"},
	{"weight_decay wd l2 l2_reg", "weight decay is a filter before the optimizer", "optimizer=chain(decay(rate=0.0005),momentum)"},
	{"ema_decay model_ema weight_ema model_ema_decay averaging weight_averaging polyak swa", "a moving average of the parameters is ema", "ema=on(decay=0.99)"},
	{"clip grad_clip clip_norm max_grad_norm gradient_clipping clip_grad_norm", "clipping is a filter before the optimizer", "optimizer=chain(clip,momentum)"},
	{"momentum beta heavy_ball", "momentum is an optimizer", "optimizer=momentum(beta=0.9)"},
	{"nesterov", "it is an optimizer", "optimizer=nesterov"},
	{"betas beta1 beta2 eps epsilon", "it is an option of the optimizer", "optimizer=adam(beta1=0.9,beta2=0.999)"},
	{"opt optim algorithm update_rule", "", "optimizer=momentum"},
	{"bs batch_size batchsize minibatch mini_batch mini_batch_size train_batch_size per_device_batch_size", "the batch is that of one worker and step", "batch=32"},
	{"accumulation_steps gradient_accumulation gradient_accumulation_steps accum accum_steps grad_accum micro_batches microbatches num_microbatches", "the batch is that of a worker and step, all its micro-batches together", "batch=128 accumulate=4"},
	{"global_batch global_batch_size total_batch_size", "the batch is that of one worker, the workers' together are workers × batch", "batch=32"},
	{"num_workers nworkers n_workers worker nproc nproc_per_node world world_size num_processes np nodes num_nodes gpus num_gpus replicas", "replicas that compute gradients are workers", "workers=8"},
	{"ps num_ps num_servers server n_servers parameter_servers shards", "parameter servers are servers", "mode=server servers=2"},
	{"num_epochs n_epochs max_epochs train_epochs", "", "epochs=5"},
	{"iterations iters iter max_iter max_iters num_iterations max_steps num_steps n_steps total_steps train_steps updates num_updates", "", "steps=1000"},
	{"dataset data_set datasets task", "", "data=digits"},
	{"arch architecture net_type network_arch", "", "model=mlp(hidden=[64])"},
	{"hidden hidden_size layers width", "it is an option of the model", "model=mlp(hidden=[64])"},
	{"compression compressor compress grad_compression quantization quantizer encoding", "", "codec=topk(keep=0.01)"},
	{"error_feedback ef residual memory", "error feedback is a codec around another", "codec=feedback(topk(keep=0.01))"},
	{"topk top_k k keep density sparsity ratio compression_ratio sparsify", "it is an option of the codec", "codec=topk(keep=0.01)"},
	{"bits num_bits nbits levels quantize", "it is an option of the codec", "codec=qsgd(bits=4)"},
	{"rank", "it is an option of the codec", "codec=feedback(powersgd(rank=4))"},
	{"async asynchronous asgd synchronous sync barrier", "when a server applies gradients is the policy", "mode=server policy=asp"},
	{"staleness slack max_staleness staleness_bound ssp", "it is an option of the policy", "mode=server policy=ssp(slack=3)"},
	{"allreduce all_reduce collective strategy distributed ddp", "who adds gradients up is the mode", "mode=reduce topology=ring"},
	{"local_steps h sync_every sync_period", "it is an option of the mode", "mode=localsgd(h=8) codec=raw"},
	{"backend launcher", "where ranks run is the net", "net=local"},
	{"bandwidth bw speed link_speed network_bandwidth", "", "network.bandwidth=10Gbps"},
	{"latency delay rtt ping", "", "network.latency=30us"},
	{"flops device_flops tflops", "", "device.flops=15T"},
	{"gpu cuda accelerator", "training uses the CPU; the virtual cluster has devices by name", "device=v100 timing=resnet50"},
	{"jitter noise", "", "device.law=lognormal(sigma=0.1)"},
	{"straggler stragglers slow", "", "device.slow=1x10"},
	{"max_restarts min_workers min_nodes nnodes on_resize fault_tolerance", "it is an option of elastic", "codec=raw elastic=on(min_workers=2)"},
	{"trace tracing timeline profile profiler", "a trace is recorded where observe lists it", "observe=trace"},
	{"noise_scale gradient_noise gradient_noise_scale", "the noise scale is measured where observe lists it", "mode=reduce codec=raw observe=noise_scale"},
	{"gap parameter_gap", "it is measured where observe lists it", "mode=server observe=gap"},
	{"order_log arrival_order", "it is recorded where observe lists it", "mode=server observe=order_log"},
	{"leave join kill die death deaths preempt preemption failure failures fault", "what happens to ranks is in faults", "codec=raw elastic=on faults=leave(w2,before=40)+join(w2,before=60)"},
	{"random_seed manual_seed random_state rng_seed seeds", "", "seed=1,2,3"},
	{"amp fp16 bf16 dtype mixed_precision half", "", "precision=bfloat16"},
	{"eval_interval eval_freq eval_steps evaluate_every test_interval val_every val_interval validate_every log_every log_interval", "", "eval_every=15"},
	{"save_every save_interval save_steps save_freq ckpt_every checkpoint checkpoint_interval", "", "checkpoint_every=100"},
	{"target_accuracy target_acc goal", "", "target=0.95"},
	{"augmentation data_augmentation augment_data", "", "augment=true data=cifar10 model=lenet5"},
}

// valueHints are for words that stand where names or options of spec text do, by
// the kind of thing; "": of any kind.
var valueHints = map[string][]hint{
	"codec": {
		{"none no off null identity fp32 float32 float full uncompressed dense", "no encoding is raw", "codec=raw"},
		{"half float16", "", "codec=fp16"},
		{"bfloat16", "", "codec=bf16"},
		{"int8 8bit quant quantize linear", "", "codec=uniform(bits=8)"},
		{"1bit one_bit 1bitsgd", "", "codec=feedback(onebit)"},
		{"signsgd sign_sgd majority", "", "codec=vote"},
		{"ef error_feedback efsgd", "", "codec=feedback(topk(keep=0.01))"},
		{"random_k randk rand_k", "", "codec=randomk(keep=0.01)"},
		{"demo decoupled_momentum", "", "codec=feedback(dct(topk(keep=0.0078125,chunk=4096)),decay=0.999) device.codec=free"},
		{"lowrank low_rank", "", "codec=feedback(powersgd(rank=4))"},
		{"k ratio density sparsity fraction frac compression_ratio percent", "the share that is kept is keep", "codec=topk(keep=0.01)"},
		{"error_feedback memory residual", "", "codec=feedback(topk(keep=0.01))"},
		{"levels s nbits num_bits", "", "codec=qsgd(bits=4)"},
	},
	"optimizer": {
		{"none off default", "", "optimizer=sgd"},
		{"adamw", "weight decay is a filter before the rule, in Adam it is L2", "optimizer=chain(decay(rate=0.01),adam)"},
		{"sgdm heavy_ball heavyball momentum_sgd msgd", "", "optimizer=momentum(beta=0.9)"},
		{"nag", "", "optimizer=nesterov"},
		{"lr learning_rate eta alpha", "the learning rate is the schedule's", "schedule=constant(lr=0.1)"},
		{"momentum mu m", "the share of velocity kept is beta of momentum and nesterov", "optimizer=momentum(beta=0.9)"},
		{"nesterov", "", "optimizer=nesterov(beta=0.9)"},
		{"weight_decay wd l2 decay", "weight decay is a filter before the rule", "optimizer=chain(decay(rate=0.0005),momentum)"},
		{"betas", "", "optimizer=adam(beta1=0.9,beta2=0.999)"},
	},
	"schedule": {
		{"none off const fixed flat", "", "schedule=constant(lr=0.1)"},
		{"multistep step_decay", "", "schedule=step(lr=0.1)"},
		{"exp exponential_decay", "", "schedule=exponential(lr=0.1)"},
		{"piecewise_constant boundaries", "", "schedule=piecewise(lr=[0.1,0.01],at=[30])"},
		{"sgdr warm_restarts cosine_restarts", "", "schedule=restarts(lr=0.1)"},
		{"wsd triangle triangular", "", "schedule=trapezoid(lr=0.1)"},
		{"one_cycle superconvergence", "", "schedule=onecycle(lr=0.1)"},
		{"cosine_annealing cos cosineannealing", "", "schedule=cosine(lr=0.1)"},
		{"linear_decay polynomial", "", "schedule=poly(lr=0.1)"},
		{"learning_rate base_lr eta alpha rate", "the learning rate is lr", "schedule=constant(lr=0.1)"},
	},
	"policy": {
		{"none off sync synchronous barrier bulk", "", "mode=server policy=bsp"},
		{"async asynchronous downpour", "", "mode=server policy=asp"},
		{"stale staleness bounded_staleness", "", "mode=server policy=ssp(slack=3)"},
		{"staleness max_staleness bound s", "", "mode=server policy=ssp(slack=3)"},
	},
	"elasticity": {{"true yes enabled elastic", "", "codec=raw elastic=on"}, {"false no off", "", "elastic=none"}},
	"average":    {{"true yes ema polyak", "", "ema=on(decay=0.999)"}, {"false no off", "", "ema=none"}},
	"corrector":  {{"off no null", "", "mode=server policy=asp corrector=none"}},
	"mode": {
		{"none sync allreduce all_reduce ddp horovod collective", "", "mode=reduce"},
		{"ps parameter_server param_server servers async asgd", "asynchronous or not is the policy's", "mode=server policy=asp"},
		{"fedavg local local_sgd periodic_averaging", "", "mode=localsgd(h=8) codec=raw"},
		{"post_local post_local_sgd", "", "mode=localsgd(h=8,start=100) codec=raw"},
		{"slowmo", "it is local steps with an outer rule that has momentum", "mode=localsgd(h=8,by_rate=true) outer=momentum codec=raw"},
		{"diloco streaming_diloco", "it is local steps of Adam with an outer rule", "mode=localsgd(h=100,lr=0.7) outer=nesterov optimizer=adam codec=raw"},
		{"sparta", "it averages a random share of the parameters, for which there is no mode; nearest is a random share of pseudo-gradients", "mode=localsgd(h=8) codec=randomk(keep=0.01)"},
		{"gossip decentralized decentralised d_psgd", "", "mode=dpsgd graph=ring codec=raw"},
		{"allgather all_gather", "", "mode=gather"},
		{"steps local_steps k sync_every", "the steps between two exchanges are h", "mode=localsgd(h=8) codec=raw"},
	},
	"topology": {
		{"none default", "", "topology=auto"},
		{"rabenseifner halving_doubling butterfly", "", "topology=halving"},
		{"hierarchical", "", "topology=leaders(ring)"},
		{"2d_ring 2d_torus mesh", "", "topology=torus"},
		{"recursive_doubling", "", "topology=doubling"},
	},
	"model": {
		{"none linear softmax", "", "model=logistic"},
		{"dnn fc dense", "", "model=mlp(hidden=[64])"},
		{"hidden_size layers width units", "", "model=mlp(hidden=[64])"},
	},
	"data": {
		{"none fake random toy", "", "data=synthetic"},
		{"fashion_mnist fashionmnist", "", "data=fashion model=logistic"},
		{"tinyimagenet tiny", "", "data=tiny_imagenet model=logistic"},
	},
}

// word is a key or name the way hints have it.
func word(s string) string {
	return strings.ReplaceAll(strings.TrimLeft(strings.ToLower(s), "-"), "-", "_")
}

func find(hints []hint, s string) string {
	for _, h := range hints {
		for _, w := range strings.Fields(h.words) {
			if w != word(s) {
				continue
			}
			if h.say == "" {
				return "did you mean " + h.try + "?"
			}
			return h.say + ": " + h.try
		}
	}
	return ""
}

// Hint says what to type for a word that is no key here but elsewhere: "the
// learning rate is the schedule's: schedule=constant(lr=0.1)". Of other words it
// says nothing.
func Hint(s string) string { return find(keyHints, s) }

// Meaning is Hint for words that are taken for keys or for names of parts, such as methods
// of papers.
func Meaning(s string) string {
	if h := Hint(s); h != "" {
		return h
	}
	for _, kind := range slices.Sorted(maps.Keys(valueHints)) {
		if h := find(valueHints[kind], s); h != "" {
			return h
		}
	}
	return ""
}

// hinted adds to an error about spec text what to type instead, if that is known.
func hinted(err error) error {
	var u *registry.UnknownError
	if !errors.As(err, &u) {
		return err
	}
	if set := data.ReaderOf(u.Word); u.Kind == "data" && u.Of == "" && set != "" {
		return fmt.Errorf("%q is a file; a set names what reads it: data=%s", u.Word, set)
	}
	if h := find(valueHints[u.Kind], u.Word); h != "" {
		return fmt.Errorf("%w; %s", err, h)
	}
	if k, ok := findKey(word(u.Word)); ok && u.Of != "" {
		return fmt.Errorf("%w; %s= is a key of its own", err, k.Name)
	}
	return err
}
