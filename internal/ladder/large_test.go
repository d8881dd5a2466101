//go:build ladder && long

package ladder

func init() {
	large = true
	others = []rung{
		{"linux/386", "386", nil, nil},
		{"riscv64", "riscv64", []string{"qemu-riscv64-static", "qemu-riscv64"}, nil},
		{"ppc64le", "ppc64le", []string{"qemu-ppc64le-static", "qemu-ppc64le"}, nil},
		{"s390x, big-endian", "s390x", []string{"qemu-s390x-static", "qemu-s390x"}, nil},
	}
}
