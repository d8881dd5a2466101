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
type Horovod struct{}

var _ = Studies.Add("horovod", "Horovod on 128 GPUs: three networks, RDMA and TCP, beside TensorFlow's parameter servers", Horovod{})

// What the source says of 128 GPUs: Horovod has an efficiency of 88 to 90 %, and
// parameter servers waste about half of the GPUs, which is 45 to 55 %.
const leastOverServers, mostOverServers = 0.88 / 0.55, 0.90 / 0.45

// Group implements Study.
func (Horovod) Group() Group { return Scaling }

// Mechanisms implements Study.
func (Horovod) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "limit of a connection", Doc: "one TCP connection carries what the NIC does", Off: swap("network.stream", `^.+$`, "0"), Slow: true},
		{Name: "jitter", Doc: "all devices take the same time", Off: swap("device.jitter", `^.+$`, "0"), Slow: true},
	}
}

// Run implements Study.
func (Horovod) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title:  "128 GPUs in 32 servers, batch 64 a GPU",
		Source: "Sergeev and Del Balso 2018, Horovod, as quoted in COMS E6998 (2019); Horovod's documentation",
		Stated: []string{
			"clusters uber-rdma and uber-tcp: a GPU makes 142 (Inception-v3), 154 (VGG-16; both TensorFlow's benchmarks on P100) and 103.6 images/s (ResNet-101, of a published run on 16 GPUs). Between the GPUs of a server: 10 GB/s",
			"fitted: jitter, sigma 0.03, to Inception-v3 over RDMA; what a NIC carries of 25 Gb/s, 2.9 GB/s, to VGG-16 over RDMA; what one TCP connection carries, 2 GB/s, to the 30 % that RDMA gained on VGG-16. Parameter servers have many connections",
			"ring over all GPUs, tensors fused up to 64 MB as the backward pass makes them (bucket=64000000). Parameter servers as in tf-ps, a worker a GPU, over TCP, the best of 32 and 128 servers",
			"how much faster than parameter servers is judged by the figures of the source: 88 to 90 % against about half (45 to 55 %), 1.6 to 2 times. It is worded as \"about twice\"",
		},
	}
	pr := lab.protocol()
	if lab.Quick {
		pr.warm, pr.steps = 1, 6
	}
	models := []struct {
		name, profile string
		one           float64
		published     float64 // efficiency over RDMA, per cent
		kind          Kind
	}{
		{"Inception-v3", "inception3", 142, 90, Fitted}, {"ResNet-101", "resnet101", 103.6, 90, HeldOut}, {"VGG-16", "vgg16", 154, 79, Fitted},
	}
	const roads = 4
	rates := make([]float64, len(models)*roads)
	measure := func(pr protocol, i int) error {
		m, road := models[i/roads], i%roads
		keys := []string{"timing=" + m.profile, "batch=64", "workers=128", "overlap=true"}
		switch road {
		case 0:
			keys = append(keys, "cluster=uber-rdma", "topology=ring", "bucket=64000000")
		case 1:
			keys = append(keys, "cluster=uber-tcp", "topology=ring", "bucket=64000000")
		default:
			if m.profile == "vgg16" {
				return nil // nothing is published
			}
			keys = append(keys, "cluster=uber-tcp", "network.colocate=true", "mode=server(barrier=true)", "placement=greedy", "bucket=1", fmt.Sprintf("servers=%d", []int{32, 128}[road-2]))
		}
		// A cluster sets keys that others change: it goes first.
		for j, k := range keys {
			if len(k) > 8 && k[:8] == "cluster=" {
				keys[0], keys[j] = keys[j], keys[0]
			}
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
		r.between(m.kind, m.name+", RDMA: efficiency", "%", m.published, 100*rdma/(128*m.one), m.published-3, m.published+3)
		gain := 100 * (rdma/tcp - 1)
		if m.profile == "vgg16" {
			r.between(Fitted, m.name+": RDMA over TCP", "%", 30, gain, 25, 35)
			continue
		}
		r.between(HeldOut, m.name+": RDMA over TCP", "%", 2.5, gain, 1, 4)
		r.between(HeldOut, m.name+": Horovod over parameter servers, both TCP", "times", 2, tcp/ps, leastOverServers, mostOverServers)
	}
	return r, nil
}
