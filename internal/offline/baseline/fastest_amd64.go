//go:build amd64 && !purego

package baseline

import "golang.org/x/sys/cpu"

func fastest() kernels {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return plain
	}
	return kernels{"avx2", [3]func(c []float32, cStride int, a []float32, aRow, aCol int, b []float32, bStride, depth, quads int){
		product1, product2, product3,
	}, eulerForward, eulerBackward, gruForward, gruBackward, adamStep}
}
