//go:build !amd64 || purego

package baseline

func fastest() kernels { return plain }
