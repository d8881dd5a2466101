//go:build !noasm

package f32

import "golang.org/x/sys/cpu"

// fused says whether the AVX2 kernels run: decided once, by the machine.
var fused = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// micro is microGo, in assembly where the machine can.
func micro(rows, k int, a, b []float32, alpha float32, c []float32, ldc int, add bool) {
	if !fused {
		microGo(rows, k, a, b, alpha, c, ldc, add)
		return
	}
	_, _, _ = a[tileRows*k-1], b[tileCols*k-1], c[(rows-1)*ldc+tileCols-1]
	if rows == 4 {
		micro4x16(k, &a[0], &b[0], alpha, &c[0], ldc, add)
	} else {
		micro6x16(k, &a[0], &b[0], alpha, &c[0], ldc, add)
	}
}

// transpose writes dst[p*width+i] = src[i*ld+p] for i < rows (at most 8) and p
// up to the multiple of 8 it returns. It may write eight values from each
// dst[p*width] on, later p last.
func transpose(dst []float32, width int, src []float32, ld, rows, k int) int {
	if !fused {
		return 0
	}
	k &^= 7
	_, _ = dst[(k-1)*width+7], src[(rows-1)*ld+k-1]
	transpose8(&dst[0], width, &src[0], ld, rows, k/8)
	return k
}

// copyRows is copyRowsGo, in assembly for full panels.
func copyRows(dst []float32, width int, src []float32, ld, cnt, n int) {
	if !fused || cnt < width {
		copyRowsGo(dst, width, src, ld, cnt, n)
		return
	}
	_, _ = dst[n*width-1], src[(n-1)*ld+width-1]
	if width == tileCols {
		copyRows16(&dst[0], &src[0], ld, n)
	} else {
		copyRows6(&dst[0], &src[0], ld, n)
	}
}

//go:generate sh -c "cd ../_gen/gemm && go run . -out ../../f32/kernel_amd64.s -stubs ../../f32/kernel_stubs_amd64.go -pkg f32"
