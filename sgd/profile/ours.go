package profile

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// LeNet is LeNet-5 (LeCun, Bottou, Bengio and Haffner 1998) as it is trained today:
// every filter of the second layer sees all six channels, the last layer is dense.
type LeNet struct{ Classifier }

// MNISTCNN is the CNN for MNIST of Gagliano 2018.
type MNISTCNN struct{ Classifier }

// CIFAR10Full is Caffe's cifar10_full, the network of Gupta et al. 2016 and Zhang
// et al. 2016.
type CIFAR10Full struct{ Classifier }

// ResNet18CIFAR is ResNet-18 at 32×32 behind a 3×3 convolution with stride 1, the
// network of PowerSGD's figures (Vogels et al. 2019): model resnet18(stem=cifar).
type ResNet18CIFAR struct{ Classifier }

// Airbench94 is the network of airbench94 for CIFAR-10 (Jordan 2024). Its whitening
// convolution is frozen, so that it is computed and not sent.
type Airbench94 struct{ Classifier }

var (
	_ = Profiles.Add("lenet", "LeNet-5, 28×28, 0.06 M parameters", LeNet{Classifier{10}})
	_ = Profiles.Add("mnistcnn", "two convolutions and a wide dense layer, 28×28, 3.3 M parameters", MNISTCNN{Classifier{10}})
	_ = Profiles.Add("cifar10_full", "Caffe's cifar10_full, 32×32, 0.09 M parameters", CIFAR10Full{Classifier{10}})
	_ = Profiles.Add("resnet18_cifar", "ResNet-18 with CIFAR's stem, 32×32, 11.2 M parameters", ResNet18CIFAR{Classifier{10}})
	_ = Profiles.Add("airbench94", "the network of airbench94, 32×32, 2.0 M parameters", Airbench94{Classifier{10}})
)

// Profile implements Spec.
func (s LeNet) Profile() *Profile { return ours("lenet", "lenet5", 1, 28, s.Classes) }

// Profile implements Spec.
func (s MNISTCNN) Profile() *Profile { return ours("mnistcnn", "mnistcnn", 1, 28, s.Classes) }

// Profile implements Spec.
func (s CIFAR10Full) Profile() *Profile {
	return ours("cifar10_full", "cifar10_full", 3, 32, s.Classes)
}

// Profile implements Spec.
func (s ResNet18CIFAR) Profile() *Profile {
	return resizable(32, func(side int) *Profile { return ours("resnet18_cifar", "resnet18(stem=cifar)", 3, side, s.Classes) })
}

// Profile implements Spec.
func (s Airbench94) Profile() *Profile { return ours("airbench94", "airbench94", 3, 32, s.Classes) }

// ours is the profile of a model: its tensors, and the multiply-adds of its weights. Those
// of weights that are frozen are the next tensor's.
func ours(name, model string, channels, side, classes int) *Profile {
	p := &Profile{Name: name, Kind: "images", Input: sgd.Shape{C: channels, H: side, W: side}}
	m, err := nn.Models.MustParse(model).New(sgd.Sample{Shape: p.Input, Classes: classes})
	if err != nil { // a fault of this package: classes are checked
		panic(fmt.Sprintf("profile %s: model %s: %v", name, model, err))
	}
	flops, frozen := m.SpanFLOPs(), 0.0
	for i, s := range m.Layout().Spans {
		macs := float64(flops[i] / 2)
		switch s.Role {
		case sgd.Buffer:
			frozen += macs
			continue
		case sgd.Norm:
			macs = 0
		}
		p.Layout.Add(s.Name, s.Role, s.Rows, s.Cols)
		p.MACs = append(p.MACs, macs+frozen)
		frozen = 0
	}
	return p
}
