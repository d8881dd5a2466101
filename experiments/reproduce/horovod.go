package reproduce

import (
	"context"
	"fmt"
)

// Horovod is the scaling of Horovod's ring all-reduce to 128 GPUs over RDMA and
// TCP, and of TensorFlow's parameter servers beside it.
//
// Source: Sergeev and Del Balso 2018, as quoted in COMS E6998 (2019); Horovod's
// documentation.
//
// By default jitter, NIC and TCP connection are those of the data files, which
// fit=inception3 finds.
type Horovod struct {
	Fit string `doc:"network whose efficiency over RDMA the jitter is fitted to anew, inception3 or resnet101, with the NIC and a TCP connection to VGG-16's; none: those of the data files, fitted to inception3"`
}

var _ = Studies.Add("horovod", "Horovod on 128 GPUs: three networks, RDMA and TCP, beside TensorFlow's parameter servers", Horovod{Fit: "none"})

// What the source says of 128 GPUs: Horovod has an efficiency of 88 to 90 %, and
// parameter servers waste about half of the GPUs, which is 45 to 55 %.
const leastOverServers, mostOverServers = 0.88 / 0.55, 0.90 / 0.45

// Validate checks the options.
func (s Horovod) Validate() error {
	if s.Fit != "none" && s.Fit != "inception3" && s.Fit != "resnet101" {
		return fmt.Errorf("option \"fit\" is %q; want inception3 or resnet101, or none for what the data files have", s.Fit)
	}
	return nil
}

// horovodModel is a network, images a second of one GPU, and the published efficiency of
// 128 over RDMA, per cent.
type horovodModel struct {
	name, profile  string
	one, published float64
}

var horovodModels = []horovodModel{{"Inception-v3", "inception3", 142, 90}, {"ResNet-101", "resnet101", 103.6, 90}, {"VGG-16", "vgg16", 154, 79}}

// horovodGain is what RDMA gained over TCP on VGG-16, per cent.
const horovodGain = 30

// kind says whether a network's efficiency is fitted.
func (s Horovod) kind(m horovodModel) Kind {
	if m.profile == "vgg16" || m.profile == s.Fit || s.Fit == "none" && m.profile == "inception3" {
		return Fitted
	}
	return HeldOut
}

// ring are the keys of a run on 128 GPUs over a network, rdma or tcp.
func (Horovod) ring(m horovodModel, network string) []string {
	return []string{"cluster=uber-" + network, "timing=" + m.profile, "batch=64", "workers=128", "topology=ring", "overlap=buckets(bytes=64000000)"}
}

// fit finds the jitter of the network in Fit, what a NIC carries, and what a TCP connection
// does, one behind the other: each point depends on its own parameter most.
func (s Horovod) fit(ctx context.Context, lab *Lab, pr protocol) (rdma, tcp []string, said string, err error) {
	own, vgg := horovodModels[0], horovodModels[2]
	if s.Fit == "resnet101" {
		own = horovodModels[1]
	}
	rate := func(m horovodModel, network string, more ...string) (float64, error) {
		got, err := lab.simulate(ctx, pr, append(s.ring(m, network), more...)...)
		return got.mean, err
	}
	efficiency := func(m horovodModel, more []string) (float64, error) {
		got, err := rate(m, "rdma", more...)
		return got / (128 * m.one) / (m.published / 100), err
	}
	jitter, nic, stream := 0.03, 2.9e9, 2e9
	keys := func(jitter, nic float64) []string {
		return []string{fmt.Sprintf("device.law=lognormal(sigma=%g)", jitter), fmt.Sprintf("network.bandwidth=%gB/s", nic)}
	}
	for range 2 {
		if jitter, err = solve(ctx, jitter, func(x float64) (float64, error) { return efficiency(own, keys(x, nic)) }); err != nil {
			return nil, nil, "", err
		}
		if nic, err = solve(ctx, nic, func(x float64) (float64, error) { return efficiency(vgg, keys(jitter, x)) }); err != nil {
			return nil, nil, "", err
		}
	}
	rdma = keys(jitter, nic)
	fast, err := rate(vgg, "rdma", rdma...)
	if err != nil {
		return nil, nil, "", err
	}
	with := func(stream float64) []string {
		return append(keys(jitter, nic), fmt.Sprintf("constants.stream=%gB/s", stream))
	}
	stream, err = solve(ctx, stream, func(x float64) (float64, error) {
		slow, err := rate(vgg, "tcp", with(x)...)
		return fast / slow / (1 + horovodGain/100.), err
	})
	said = fmt.Sprintf("fit=%s: jitter, sigma %.3g, fitted to %s over RDMA; what a NIC carries of 25 Gb/s, %.3g GB/s, to VGG-16 over RDMA; what one TCP connection carries, %.3g GB/s, to what RDMA gained on VGG-16. Parameter servers have many connections", s.Fit, jitter, own.name, nic/1e9, stream/1e9)
	return rdma, with(stream), said, err
}

// Group implements Study.
func (Horovod) Group() Group { return Scaling }

// Mechanisms implements Study.
func (Horovod) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "limit of a connection", Doc: "one TCP connection carries what the NIC does", Off: swap("constants.stream", `^.+$`, "0"), Slow: true},
		{Name: "jitter", Doc: "all devices take the same time", Off: swap("device.law", `^lognormal.*$`, "constant"), Slow: true},
	}
}

// Run implements Study.
func (s Horovod) Run(ctx context.Context, lab *Lab) (*Report, error) {
	pr := lab.protocol()
	if lab.Quick {
		pr.warm, pr.steps = 1, 6
	}
	var fast, slow []string
	said := "fitted: jitter, sigma 0.03, to Inception-v3 over RDMA; what a NIC carries of 25 Gb/s, 2.9 GB/s, to VGG-16 over RDMA; what one TCP connection carries, 2 GB/s, to the 30 % that RDMA gained on VGG-16. Parameter servers have many connections"
	if s.Fit != "none" {
		var err error
		if fast, slow, said, err = s.fit(ctx, lab, pr); err != nil {
			return nil, err
		}
	}
	r := &Report{
		Title:  "128 GPUs in 32 servers, batch 64 a GPU",
		Source: "Sergeev and Del Balso 2018, Horovod, as quoted in COMS E6998 (2019); Horovod's documentation",
		Stated: []string{
			"clusters uber-rdma and uber-tcp: a GPU makes 142 (Inception-v3), 154 (VGG-16; both TensorFlow's benchmarks on P100) and 103.6 images/s (ResNet-101, of a published run on 16 GPUs). Between the GPUs of a server: 10 GB/s",
			said,
			"ring over all GPUs, tensors fused up to 64 MB as the backward pass makes them (overlap=buckets(bytes=64000000)). Parameter servers as in tf-ps, a worker a GPU, over TCP, the best of 32 and 128 servers",
			"how much faster than parameter servers is judged by the figures of the source: 88 to 90 % against about half (45 to 55 %), 1.6 to 2 times. It is worded as \"about twice\"",
		},
	}
	models := horovodModels
	const roads = 4
	rates := make([]float64, len(models)*roads)
	measure := func(pr protocol, i int) error {
		m, road := models[i/roads], i%roads
		var keys []string
		switch {
		case road == 0:
			keys = append(s.ring(m, "rdma"), fast...)
		case road == 1:
			keys = append(s.ring(m, "tcp"), slow...)
		case m.profile == "vgg16":
			return nil // nothing is published
		default:
			keys = append([]string{"cluster=uber-tcp", "timing=" + m.profile, "batch=64", "workers=128", "overlap=buckets(bytes=1)", "constants.colocate=true", "mode=server(barrier=true)",
				"placement=greedy", fmt.Sprintf("servers=%d", []int{32, 128}[road-2])}, slow...)
		}
		got, err := lab.simulate(ctx, pr, keys...)
		if rates[i] = got.mean; err == nil {
			lab.logf("%s, %s: %.0f images/s", m.name, []string{"ring over RDMA", "ring over TCP", "32 servers", "128 servers"}[road], got.mean)
		}
		return err
	}
	// A few steps tell which number of servers is better.
	err := each(ctx, 2*len(models), func(i int) error { return measure(protocol{1, 6, 1}, i/2*roads+2+i%2) })
	if err != nil {
		return nil, err
	}
	var long []int
	for i := range rates {
		if i%roads < 2 || rates[i] >= rates[i^1] {
			long = append(long, i)
		}
	}
	err = each(ctx, len(long), func(i int) error { return measure(pr, long[i]) })
	if err != nil {
		return nil, err
	}
	for i, m := range models {
		rdma, tcp, ps := rates[i*roads], rates[i*roads+1], max(rates[i*roads+2], rates[i*roads+3])
		r.between(s.kind(m), m.name+", RDMA: efficiency", "%", m.published, 100*rdma/(128*m.one), m.published-3, m.published+3)
		if err := lab.predict(ctx, r, s.kind(m), m.name+", RDMA", m.published, 100*rdma/(128*m.one), append(s.ring(m, "rdma"), fast...)...); err != nil {
			return nil, err
		}
		gain := 100 * (rdma/tcp - 1)
		if m.profile == "vgg16" {
			r.between(Fitted, m.name+": RDMA over TCP", "%", horovodGain, gain, 25, 35)
			continue
		}
		r.between(HeldOut, m.name+": RDMA over TCP", "%", 2.5, gain, 1, 4)
		r.between(HeldOut, m.name+": Horovod over parameter servers, both TCP", "times", 2, tcp/ps, leastOverServers, mostOverServers)
	}
	return r, nil
}
